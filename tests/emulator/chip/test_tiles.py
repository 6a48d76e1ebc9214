"""Several tiles: DTE copies, barriers, deadlocks, and results for any number of threads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chip_bench import ONE, W, build, chip
from emulator.chip.system import System
from emulator.tile.fault import Fault

FOUR, SIXTEEN = chip(4, 0x4000), chip(16, 0x4000)
EXIT = "\n li a0, 0\n li a7, 93\n ecall\n"
OWN = "_start: csrr s0, mhartid\n addi t0, s0, 100\n td.memset.int32 dst=0x100, value=t0, n=4\n ncc.wait\n"
"""Words 100 + tile at 0x100 of every tile."""


def run(text: str, machine: object = FOUR, **options: object) -> System:
    system = build(text + EXIT, machine, **options)
    system.run()
    return system


def spm(system: System, tile: int, address: int, count: int = 4) -> list[int]:
    words: list[int] = system.tiles[tile].spm.data.view(np.int32)[address // 4 :][:count].tolist()
    return words


def ddr(system: System, offset: int, count: int = 4) -> list[int]:
    words: list[int] = system.ddr[offset : offset + 4 * count].view(np.int32).tolist()
    return words


# -- DTE ---------------------------------------------------------------------------------------------------


def test_copy_to_the_next_tile() -> None:
    text = "addi t1, s0, 1\n andi t1, t1, 3\n dte.unicast dst=0x200, src=0x100, tile=t1, n=16\n dte.wait"
    system = run(OWN + text)
    assert [spm(system, t, 0x200) for t in range(4)] == [[100 + (t - 1) % 4] * 4 for t in range(4)]
    assert all(np.flatnonzero(t.spm.lines).tolist() == [1, 2] for t in system.tiles)


def test_copy_within_a_tile_behaves_as_if_read_first() -> None:
    fill = "td.memset.int32 dst=0x100, value=1, n=1\n td.memset.int32 dst=0x104, value=2, n=3\n ncc.wait\n"
    system = run(f"_start: {fill} dte.unicast dst=0x104, src=0x100, tile=0, n=16\n dte.wait", ONE)
    assert spm(system, 0, 0x100, 6) == [1, 1, 2, 2, 2, -1]


def test_copies_to_and_from_ddr() -> None:
    at = "li t2, 0x280200000\n slli t3, s0, 8\n add t2, t2, t3\n"
    out = "dte.unicast dst=t2, src=0x100, tile=s0, n=16\n dte.wait\n ncc.barrier\n"
    back = "xori t3, t3, 0x100\n li t4, 0x280200000\n add t4, t4, t3\n"
    back += "dte.unicast dst=0x300, src=t4, tile=s0, n=16\n"
    far = "dte.wait\n dte.unicast dst=0x280300000, src=0x280200200, tile=0, n=16\n dte.wait"
    system = run(OWN + at + out + back + far)
    assert [ddr(system, 0x20_0000 + 0x100 * t) for t in range(4)] == [[100 + t] * 4 for t in range(4)]
    assert [spm(system, t, 0x300) for t in range(4)] == [[100 + (t ^ 1)] * 4 for t in range(4)]
    assert ddr(system, 0x30_0000) == [102] * 4


def test_the_copy_is_complete_after_the_wait_and_not_before() -> None:
    load = f"li t6, {W.spm_weak}\n lw {{}}, 0x200(t6)\n"
    copy = "dte.unicast dst=0x200, src=0x100, tile=s0, n=16\n"
    text = f"{copy} {load.format('s1')} dte.wait\n {load.format('s2')}"
    tile = run(OWN + text).tiles[3]
    assert (tile.register(9), tile.register(18)) == (-1, 103)


def test_dte_does_not_wait_for_the_engines() -> None:
    system = run(
        OWN.replace("ncc.wait", "") + "dte.unicast dst=0x200, src=0x100, tile=s0, n=16\n dte.wait\n ncc.wait"
    )
    assert spm(system, 1, 0x200) == [-1] * 4 and spm(system, 1, 0x100) == [101] * 4


def test_a_copy_that_nobody_waits_for_is_carried_out() -> None:
    assert spm(run(OWN + "dte.unicast dst=0x200, src=0x100, tile=0, n=16"), 0, 0x200) == [103] * 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dte.unicast dst=0, src=0, tile=4, n=16", r"dte.unicast: operand 'tile' = 4, expected 0\.\.3"),
        (
            "dte.unicast dst=0x3ff8, src=0, tile=0, n=16",
            r"operand 'dst' writes 16 bytes from 0x3ff8, outside the SPM",
        ),
        ("dte.unicast dst=0, src=0x127ffffff8, tile=0, n=16", "operand 'src' reads 16 bytes"),
        (
            "li t0, 2\n ncc.barrier tiles=t0",
            "operand 'tiles' = 0x2, expected a set with this tile's bit 0x1, inside 0xf",
        ),
        ("ncc.barrier tiles=0x1f", "operand 'tiles' = 0x1f, expected a set with"),
        ("li t0, -1\n ncc.barrier tiles=t0", "operand 'tiles' = 0xffffffffffffffff"),
    ],
)
def test_refusals(text: str, message: str) -> None:
    with pytest.raises(Fault, match=rf"tile 0 at 0x800000[0-9a-f]+ \(<text>:\d\): .*{message}"):
        run(f"_start: {text}")


# -- barriers ----------------------------------------------------------------------------------------------

RING = (
    OWN
    + """
    slli t0, s0, 4                  # piece t goes to 0x1000 + 16 t
    li t1, 0x1000
    add s1, t0, t1
    dte.unicast dst=s1, src=0x100, tile=s0, n=16
    dte.wait
    addi s2, s0, 1
    andi s2, s2, 15                 # the neighbour
    mv s3, s0                       # the piece to pass on
    li s4, 15
1:  ncc.barrier
    slli t0, s3, 4
    add t0, t0, t1
    dte.unicast dst=t0, src=t0, tile=s2, n=16
    dte.wait
    addi s3, s3, -1
    andi s3, s3, 15
    addi s4, s4, -1
    bnez s4, 1b
    ncc.barrier
"""
)


def memories(system: System) -> bytes:
    spms = b"".join(tile.spm.data.tobytes() for tile in system.tiles)
    return spms + system.ddr[:0x40_0000].tobytes()


def test_ring_all_gather_and_determinism() -> None:
    """Sixteen tiles give equal bytes, counts and registers for every number of threads and in every run."""
    runs = [run(RING, SIXTEEN, threads=threads) for threads in (1, 2, 4, 1, 4)]
    for tile in range(16):
        assert spm(runs[0], tile, 0x1000, 64) == [100 + t for t in range(16) for _ in range(4)]
    for other in runs[1:]:
        assert memories(other) == memories(runs[0])
        for a, b in zip(other.tiles, runs[0].tiles, strict=True):
            assert a.retired == b.retired and (a.counts == b.counts).all()
            assert [a.register(n) for n in range(32)] == [b.register(n) for n in range(32)]


def test_barriers_of_two_groups_and_then_of_all() -> None:
    """Pairs of tiles swap data through DDR, then tile 0 adds all of it."""
    text = (
        OWN
        + """
        li t0, 3
        srli t1, s0, 1
        slli t1, t1, 1
        sll t0, t0, t1                  # 0b0011 or 0b1100
        slli t2, s0, 8
        li t3, 0x280200000
        add t2, t2, t3
        wdma.int32 dst=t2, src=0x100, n=4
        ncc.wait
        ncc.barrier tiles=t0
        xori t2, t2, 0x100
        rdma.int32 dst=0x100, src=t2, n=4
        ncc.wait
        ncc.barrier
    """
    )
    assert [spm(run(text), t, 0x100) for t in range(4)] == [[100 + (t ^ 1)] * 4 for t in range(4)]


def test_a_barrier_of_one_is_no_wait() -> None:
    run("_start: csrr t0, mhartid\n li t1, 1\n sll t1, t1, t0\n ncc.barrier tiles=t1")


def test_polling_a_flag_in_ddr_ends() -> None:
    """A tile that waits in a loop does not prevent the others from running."""
    text = """_start: csrr t0, mhartid
        la t1, flag
        bnez t0, 2f
    1:  lw t2, 0(t1)
        beqz t2, 1b
        j 3f
    2:  li t2, 7
        sw t2, 0(t1)
    3:
    .data
    flag: .word 0
    .text
    """
    system = run(text)
    assert system.tiles[0].register(7) == 7


# -- programs that cannot go on ----------------------------------------------------------------------------


def test_deadlock_with_an_exited_tile() -> None:
    with pytest.raises(Fault) as fault:
        run('_start: csrr t0, mhartid\n beqz t0, 1f\n.node "sum"\n ncc.barrier\n1:')
    where = "at 0x80000008 (<text>:4, node 'sum')"
    waits = [f"tile {t} {where} waits at barrier 0xf for tile 0 (exited)" for t in (1, 2, 3)]
    assert str(fault.value) == "the program can never go on: " + "; ".join(waits)


def test_different_sets_never_meet() -> None:
    """Tiles 0 and 3 wait for all, 1 and 2 for the set without tile 3."""
    text = "_start: csrr t0, mhartid\n li t1, 15\n beqz t0, 1f\n li t2, 3\n bge t0, t2, 1f\n li t1, 7\n"
    with pytest.raises(Fault) as fault:
        run(f"{text}1: ncc.barrier tiles=t1")
    at = "at 0x80000018 (<text>:7)"
    sets = "tile 1 (at barrier 0x7), tile 2 (at barrier 0x7)"
    assert f"tile 0 {at} waits at barrier 0xf for {sets};" in str(fault.value)
    assert f"tile 1 {at} waits at barrier 0x7 for tile 0 (at barrier 0xf);" in str(fault.value)
    assert str(fault.value).endswith(f"tile 3 {at} waits at barrier 0xf for {sets}")


def test_a_set_that_another_tile_does_not_name_is_refused_there() -> None:
    with pytest.raises(
        Fault, match=r"tile 3 at .*operand 'tiles' = 0x7, expected a set with this tile's bit 0x8"
    ):
        run("_start: ncc.barrier tiles=7")


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_the_first_tile_s_fault_is_reported(threads: int) -> None:
    text = "_start: csrr t0, mhartid\n beqz t0, 1f\n lw a0, 0(t0)\n1:"
    with pytest.raises(Fault, match="tile 1 at 0x80000008"):
        run(text, threads=threads)


@pytest.mark.parametrize("threads", [1, 3])
def test_what_was_issued_before_a_fault_completes(threads: int) -> None:
    system = build("_start: td.memset.int32 dst=0x100, value=5, n=4\n lw a0, 0(zero)", FOUR, threads=threads)
    with pytest.raises(Fault, match="tile 0 at"):
        system.run()
    assert [spm(system, t, 0x100) for t in range(4)] == [[5] * 4] * 4


# -- output, entries ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_output_is_in_the_order_of_rounds_and_tiles(threads: int) -> None:
    text = """_start: csrr s0, mhartid
        la s1, letters
        add s1, s1, s0
        li s2, 2
    1:  li a0, 1
        mv a1, s1
        li a2, 1
        li a7, 64
        ecall
        ncc.barrier
        addi s1, s1, 4
        addi s2, s2, -1
        bnez s2, 1b
    .data
    letters: .ascii "abcdEFGH"
    .text
    """
    shown: list[bytes] = []
    run(text, threads=threads, show=lambda file, data: shown.append(data))
    assert b"".join(shown) == b"abcdEFGH"


def test_an_entry_for_one_tile() -> None:
    system = build(f"_start: li s1, 1\n{EXIT}\n.tile 2\n li s1, 2\n{EXIT}", FOUR)
    system.run()
    assert [t.register(9) for t in system.tiles] == [1, 1, 2, 1]


@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 15), st.integers(0, 15)), max_size=12
    ),
    st.sampled_from([2, 4]),
)
def test_random_copies(sends: list[tuple[int, int, int, int]], threads: int) -> None:
    """One copy per round (barriers between), against the same copies on arrays."""
    text = "_start: csrr s0, mhartid\n li t0, 0x1000\n add t0, t0, s0\n"
    text += "td.memset.int32 dst=0, value=t0, n=16\n ncc.wait\n"
    expected = np.repeat(0x1000 + np.arange(4)[:, None], 16, axis=1)
    for k, (source, target, a, b) in enumerate(sends):
        n = 16 - max(a, b)
        text += f"li t1, {source}\n bne s0, t1, 1f\n"
        text += f"dte.unicast dst={4 * b}, src={4 * a}, tile={target}, n={4 * n}\n dte.wait\n"
        text += f"1: ncc.barrier # {k}\n"
        expected[target, b : b + n] = expected[source, a : a + n].copy()
    for system in (run(text, threads=1), run(text, threads=threads)):
        assert [spm(system, t, 0, 16) for t in range(4)] == expected.tolist()
