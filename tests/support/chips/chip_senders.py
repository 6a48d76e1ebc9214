"""Small programs in which tile 0 of chip 0 sends something to another chip, for tests of several chips."""

from __future__ import annotations

from typing import Any

import asm
from chip_programs import chips_of, destination_of, machine
from dte_harness import DDR, DDR_ADDRESS, EXIT, address, fill
from emulator.chips.mesh import ChipMesh
from stream_programs import CONFIG, LENGTH, READY, SRC, USER_ID, config, fsm, user_id
from stream_programs import FSM as STREAMS
from tx8isa.machine.description import Machine

PAIR = machine(2, 1)
"""Two chips of two tiles: harts 0 and 1, 2 and 3."""
STREAM, BYTES = 60, 64
DATA = bytes(range(1, BYTES + 1))
AT, SOURCE = 0x800, 0x100

__all__ = ["AT", "BYTES", "DATA", "DDR", "DDR_ADDRESS", "PAIR", "SOURCE", "STREAM", "chips_of"]


def parts(**of_harts: str) -> str:
    """A program in which hart n does what ``hn`` says; all others exit."""
    jumps = "".join(f" li t0, {name[1:]}\n beq s0, t0, {name}\n" for name in of_harts)
    body = "".join(f"{name}:\n{text}\n j finish\n" for name, text in of_harts.items())
    return f"_start: csrr s0, mhartid\n{jumps} j finish\n{body}finish:{EXIT}"


def copy(found: Machine = PAIR, hart: int = 3, at: int = AT, **registers: int) -> str:
    """Write code that sends the bytes at ``SOURCE`` to a hart and polls its end; the status is in s2."""
    named = {"length": LENGTH, "user": USER_ID, "high": 0x00C, "mode": 0x014, "dests": 0x01C}
    values = {
        **address(SRC, SOURCE),
        **destination_of(found, hart, at),
        LENGTH: BYTES,
        USER_ID: user_id(STREAM),
    }
    values |= {named[name]: value for name, value in registers.items()}
    return f"{fill(1, values)} li t1, 1\n sw t1, 0x38(t0)\n{done()}"


def done() -> str:
    """Poll the status of block 1."""
    return "5: li t0, 0x400200\n lw s2, 0x40(t0)\n andi t1, s2, 1\n beqz t1, 5b\n"


def ready(length: int = BYTES, packets: int = 1, stream: int = STREAM) -> str:
    """Enable the stream."""
    return fsm({CONFIG + 4 * stream: config(length, packets)})


def wait(stream: int = STREAM) -> str:
    """Poll until a packet is ready; the packets are then in s3."""
    return f" li t0, {STREAMS + READY + 4 * stream:#x}\n6: lw s3, 0(t0)\n beqz s3, 6b\n"


def update(chip: int, tile: int, word: int) -> str:
    """Send a packet counter update to a tile of another chip."""
    number = 0x10000 + (1 << 15 | chip << 8 | tile)
    return f" li t0, {(number << 23) + 0x67_0000:#x}\n li t1, {word:#x}\n sw t1, 0(t0)\n"


def loaded(text: str, found: Machine = PAIR, **options: Any) -> ChipMesh:
    """The chips before a program, with ``DATA`` at ``SOURCE`` of tile 0 of chip 0."""
    mesh = ChipMesh(asm.assemble(text), found, **options)
    mesh.chips[0].tiles[0].spm.data[SOURCE : SOURCE + BYTES].data[:] = DATA
    return mesh


def ran(text: str, found: Machine = PAIR, **options: Any) -> ChipMesh:
    """The chips after it."""
    mesh = loaded(text, found, **options)
    mesh.run(1_000_000)
    return mesh


def register(mesh: ChipMesh, hart: int, number: int) -> int:
    """An x register of a hart."""
    chip, tile = divmod(hart, mesh.machine.tiles)
    return mesh.chips[chip].tiles[tile].register(number)


def spm(mesh: ChipMesh, hart: int, at: int = AT, size: int = BYTES) -> bytes:
    """Bytes in the SPM of a hart."""
    chip, tile = divmod(hart, mesh.machine.tiles)
    return bytes(mesh.chips[chip].tiles[tile].spm.data[at : at + size])
