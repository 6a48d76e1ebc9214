"""Copies and packet counter updates between chips: their arrival, the sender's view, and refusals."""

from __future__ import annotations

import pickle
import struct

import msgspec
import pytest

import asm
from asm.diagnostics import AsmError
from chip_programs import chips_of, destination_of, machine
from chip_senders import (
    AT,
    BYTES,
    DATA,
    DDR,
    DDR_ADDRESS,
    PAIR,
    copy,
    loaded,
    parts,
    ran,
    ready,
    register,
    spm,
    update,
    wait,
)
from emulator.chips.links import Passage
from emulator.chips.mesh import ChipMesh
from emulator.tile.fault import Fault
from tx8isa.machine.description import MachineError

FINISHED, ERROR = 1, 1 << 8
SQUARE = machine(2, 2)


def test_a_copy_arrives_and_its_packet_is_ready() -> None:
    mesh = ran(parts(h0=copy(), h3=ready() + wait()))
    assert spm(mesh, 3) == DATA
    assert (register(mesh, 0, 18), register(mesh, 3, 19)) == (FINISHED, 1)
    assert spm(mesh, 2) == spm(mesh, 1) == b"\xff" * BYTES


def test_a_copy_goes_to_the_ddr_of_the_other_chip() -> None:
    mesh = ran(parts(h0=copy(at=DDR_ADDRESS, user=0)))
    assert bytes(mesh.chips[1].ddr[DDR : DDR + BYTES]) == DATA
    assert not mesh.chips[0].ddr[DDR : DDR + BYTES].any()


@pytest.mark.parametrize("hart", range(2, 8))
def test_every_tile_of_every_chip_can_be_reached(hart: int) -> None:
    mesh = ran(parts(h0=copy(SQUARE, hart, user=0)), SQUARE)
    assert [spm(mesh, other) == DATA for other in range(2, 8)] == [other == hart for other in range(2, 8)]


def test_one_copy_to_several_chips() -> None:
    """A broadcast is done when all have it."""
    second = destination_of(SQUARE, 6, AT)
    text = copy(SQUARE, 3, user=0, mode=2, dests=1).replace(
        " li t1, 1\n sw t1, 0x38(t0)",
        f" li t1, {second[0x008]:#x}\n sw t1, 0x50(t0)\n li t1, {second[0x00C]:#x}\n sw t1, 0x54(t0)\n"
        " li t1, 1\n sw t1, 0x38(t0)",
    )
    mesh = ran(parts(h0=text), SQUARE)
    assert spm(mesh, 3) == spm(mesh, 6) == DATA
    assert register(mesh, 0, 18) == FINISHED


def test_dte_wait_waits_for_other_chips() -> None:
    start = copy(user=0).partition("5:")[0]
    mesh = ran(parts(h0=f"{start} dte.wait\n li t0, 0x400200\n lw s2, 0x40(t0)\n"))
    assert register(mesh, 0, 18) == FINISHED
    assert mesh.chips[0].time.ends[0] > 2 * 1_000_000  # a link in both directions


def test_an_update_makes_a_packet_in_ddr_ready() -> None:
    """Its bytes have arrived, because the sender has seen that they have."""
    stream, size = 28, 4096
    sender = copy(hart=3, at=DDR_ADDRESS, user=1 << 15 | stream, length=size)
    receiver = ready(size, stream=stream) + wait(stream) + " li t0, 0x80300000\n lbu s4, 63(t0)\n"
    mesh = ran(parts(h0=sender + update(1, 1, 1 | stream << 12), h3=receiver))
    assert (register(mesh, 3, 19), register(mesh, 3, 20)) == (1, DATA[63])


def test_what_a_stream_refuses_is_an_error_at_the_sender() -> None:
    mesh = ran(parts(h0=copy()))  # nobody has enabled the stream
    assert register(mesh, 0, 18) == FINISHED | ERROR
    assert spm(mesh, 3) == b"\xff" * BYTES
    mesh = ran(parts(h0=copy(), h3=ready(BYTES - 1)))
    assert register(mesh, 0, 18) == FINISHED | ERROR


def test_messages_are_plain_data() -> None:
    """Chips need not be in one process, because everything on a link can be packed and unpacked."""
    passed: list[Passage] = []
    sender = copy() + update(1, 1, 1 | 60 << 12)
    loaded(parts(h0=sender, h3=ready() + wait()), strict=True, passed=passed.append).run(1_000_000)
    sent, word = (pickle.loads(pickle.dumps(passage.message)) for passage in passed)
    assert (bytes(sent.data), sent.target, sent.chip) == (DATA, passed[0].message.target, 1)  # type: ignore
    assert sent.origin == (0, 0, 0) and word.origin == (0, 0, 1)
    assert (word.size, word.update) == (0, passed[1].message.update)  # type: ignore[union-attr]


def test_the_table_of_cards() -> None:
    """Chip, number and set of good tiles, coordinates; then those of tiles; all ones if there is none."""
    chips = msgspec.structs.replace(chips_of(SQUARE), good=(3, 2, 3, 3))
    found = msgspec.structs.replace(SQUARE, chips=chips)
    look = " li t0, 0x17f000000\n lwu s4, 64(t0)\n lwu s5, 72(t0)\n lwu s6, 76(t0)\n lwu s7, 80(t0)\n"
    mesh = ran(parts(h0=look), found)
    assert [register(mesh, 0, number) for number in (20, 21, 22, 23)] == [1, 2, 0x0001, 0x0001_FFFF]
    for chip in mesh.chips:
        table = bytes(chip.ddr[0xFF00_0000 : 0xFF00_0000 + 32 * 64])
        heads = [struct.unpack_from("<4I", table, 64 * number) for number in range(4)]
        assert heads == [(0, 2, 3, 0x000), (1, 1, 2, 0x001), (2, 2, 3, 0x100), (3, 2, 3, 0x101)]
        assert table[4 * 64 :] == b"\xff" * (28 * 64)


def test_a_bad_tile_does_not_run() -> None:
    chips = msgspec.structs.replace(chips_of(PAIR), good=(3, 2))
    found = msgspec.structs.replace(PAIR, chips=chips)
    mesh = ran("_start: li a0, 0\n ncc.barrier\n li a7, 93\n ecall\n", found)
    assert [[tile.retired > 0 for tile in chip.tiles] for chip in mesh.chips] == [[True, True], [False, True]]
    with pytest.raises(Fault, match=r"tile 0 of chip \(1,0\) is not good: its good tiles are 0x2"):
        ran(parts(h0=copy(hart=2)), found)


ADDRESS = r"chip 0: tile 0 at 0x[0-9a-f]+ \(<text>:[0-9]+\): DTE block 1: dst 0: 0x[0-9a-f]+: "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            copy(high=0x0200_0180),
            rf"^{ADDRESS}chip \(2,0\) is not there, expected x < 2 and y < 1 \(2 chips\)$",
        ),
        (
            copy(high=0x0001_0180),
            rf"^{ADDRESS}chip \(0,1\) is not there, expected x < 2 and y < 1 \(2 chips\)$",
        ),
        (
            copy(high=0x0000_0180),
            rf"^{ADDRESS}chip \(0,0\) is the chip of the program itself, which is addressed without bit 39$",
        ),
        (copy(high=0x0100_0280), rf"^{ADDRESS}tile 2 of chip \(1,0\), expected 0\.\.1$"),
        (copy(at=0x4000 - 32), r"DTE block 1: dst 0 writes 64 bytes from 0x3fe0, outside the SPM"),
        (
            copy(mode=2, dests=1),
            r"some targets are on this chip and some on others: start a copy for each kind$",
        ),
        (update(2, 0, 1 | 60 << 12), r"packet counter update: chip 2 is not there"),
        (update(0, 1, 1 | 60 << 12), r"packet counter update: chip 0 is the chip of the program itself"),
        (update(1, 2, 1 | 60 << 12), r"packet counter update: tile 2 of chip 1, expected 0\.\.1$"),
        (
            update(1, 1, 1 | 60 << 12),
            r"^chip 1: tile 0 at 0x.*: packet counter update: stream 60 of tile 1 of chip 1 has no packet 0$",
        ),
    ],
)
def test_what_is_not_there_is_a_fault(text: str, message: str) -> None:
    with pytest.raises(Fault, match=message):
        ran(parts(h0=text))


def test_one_chip_has_no_others() -> None:
    with pytest.raises(MachineError, match=r"machine tx81 has no table \[chips\]"):
        ChipMesh(
            asm.assemble("_start: ecall"), msgspec.structs.replace(PAIR, name="tx81", chips=msgspec.UNSET)
        )


def test_a_limit_of_instructions_names_the_chip() -> None:
    mesh = loaded(parts(h3="8: j 8b"))
    with pytest.raises(
        Fault, match=r"^chip 1: tile 1 at .*: stopped after 5000 instructions, the limit given$"
    ):
        mesh.run(5000)


def test_each_chip_begins_where_its_harts_do() -> None:
    """An entry of hart 3 is the entry of tile 1 of chip 1."""
    text = "_start: li s2, 1\n j finish\n.tile 3\n li s2, 2\nfinish: li a0, 0\n li a7, 93\n ecall\n"
    mesh = ChipMesh(asm.assemble(text, machine=PAIR), PAIR)
    mesh.run()
    assert [register(mesh, hart, 18) for hart in range(4)] == [1, 1, 1, 2]
    with pytest.raises(AsmError, match=r"tile 4 is outside 0\.\.3 of machine tx81 x 2x1"):
        asm.assemble(text.replace(".tile 3", ".tile 4"), machine=PAIR)
