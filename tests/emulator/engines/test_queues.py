"""The instruction queues: overlapping ranges in order, others in any order, depth; NCC registers."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chip_bench import ONE, W, build
from emulator.chip.system import System
from emulator.engines import queues, tables
from emulator.tile.fault import Fault
from queue_programs import DDR_AT, DDR_BYTES, STEPS, Step, executed, written
from tx8isa.table.registry import instructions


def run(text: str, **options: bool) -> System:
    """The system after a program that ends in ebreak."""
    system = build(f"_start:\n{text}\n ebreak", **options)
    with pytest.raises(Fault, match="ebreak"):
        system.run()
    return system


@settings(max_examples=60)
@given(st.lists(STEPS, min_size=2, max_size=40), st.booleans())
def test_any_order_gives_the_result_of_program_order(steps: list[Step], loop: bool) -> None:
    """Overlapping ranges in SPM and DDR, in both modes, compared with the reference; loops run twice."""
    body = "\n".join(written(step) for step in steps)
    text = f"li s0, 2\n1: {body}\n addi s0, s0, -1\n bnez s0, 1b" if loop else body
    spm, ddr = executed(steps * (2 if loop else 1))
    for serial in (False, True):
        system = run(text, serial=serial)
        np.testing.assert_array_equal(system.tiles[0].spm.data, spm)
        np.testing.assert_array_equal(system.ddr[DDR_AT : DDR_AT + DDR_BYTES], ddr)
        assert system.tiles[0].counts[:, 0].sum() == len(steps) * (2 if loop else 1)


def test_counters_are_the_bytes_of_the_operands() -> None:
    store = f"wdma.fp32 dst={W.ddr_engine + DDR_AT}, src=0, n=3"
    system = run(f"ct.add.vv.fp16 dst=0, src0=0x200, src1=0x400, n=65\n {store}")
    found = {tuple(row) for row in system.tiles[0].counts[:, :3].tolist()} - {(0, 0, 0)}
    assert found == {(1, 260, 130), (1, 12, 12)}
    assert np.flatnonzero(system.tiles[0].spm.lines).tolist() == [0]


# -- order -------------------------------------------------------------------------------------------------

FILL = "td.memset.int32 dst={}, value={}, n=4\n"
OTHERS = "".join(FILL.format(0x2000 + 0x100 * k, 9) for k in range(4))
"""Four more instructions than the TDMA queue holds beside the one looked at."""
OLDER = "ct.cvt.fp32.int32 dst=0x1100, src0=0x1000, n=4\n"
OLD, DONE = -1, 0
"""The result before it, the reset pattern, and after it: that pattern, a NaN, as an integer."""


def load(first: int, second: int) -> str:
    """Two words of SPM to s0 and s1."""
    return f"li t6, {W.spm_weak + first}\n lw s0, 0(t6)\n li t6, {W.spm_weak + second}\n lw s1, 0(t6)"


def seen(older: str, younger: str, first: int, second: int, **options: bool) -> tuple[int, int]:
    """Two words of SPM as the core sees them when the queue of the younger instruction, a TDMA, is full."""
    system = run(f"{older}\n{younger}\n{OTHERS}\n{load(first, second)}", **options)
    return system.tiles[0].register(8), system.tiles[0].register(9)


def test_an_independent_instruction_overtakes_an_older_one() -> None:
    assert seen(OLDER, FILL.format(0x1800, 7), 0x1100, 0x1800) == (OLD, 7)


def test_in_serial_mode_it_does_not() -> None:
    assert seen(OLDER, FILL.format(0x1800, 7), 0x1100, 0x1800, serial=True) == (DONE, 7)
    serial = f"li t5, {W.ncc}\n li t4, 1\n sd t4, 0x780(t5)\n{OLDER}"
    assert seen(serial, FILL.format(0x1800, 7), 0x1100, 0x1800) == (DONE, 7)


@pytest.mark.parametrize(
    ("hazard", "younger", "ordered"),
    [
        ("read after write", "td.gatherscatter dst=0x1800, src0=0x1100, n=16", True),
        ("write after read", FILL.format(0x1000, 7), True),
        ("write after write", FILL.format(0x1108, 7), True),
        ("write into the line of a write", FILL.format(0x11C0, 7), True),
        ("read of the rest of a written line", "td.gatherscatter dst=0x1800, src0=0x11c0, n=16", True),
        ("write into the line of a read, behind it", FILL.format(0x1010, 7), False),
        ("write that ends before a read", FILL.format(0xF00, 7), False),
        ("read after read", "td.gatherscatter dst=0x1800, src0=0x1000, n=16", False),
        ("next line", FILL.format(0x1200, 7), False),
    ],
)
def test_hazards(hazard: str, younger: str, ordered: bool) -> None:
    """The older CT instruction is executed only when the younger one must wait for it."""
    assert seen(OLDER, younger, 0x1100, 0x1100)[0] == (DONE if ordered else OLD)


def test_ddr_ranges_order_dma_and_are_not_spm_ranges() -> None:
    """The RDMA reads bytes that the WDMA writes; the same numbers as SPM addresses are independent."""
    at = W.ddr_engine + DDR_AT
    copies = f"wdma.int32 dst={at}, src=0, n=4\n rdma.int32 dst=0x100, src={at}, n=4\n"
    system = run(f"{FILL.format(0, 5)} ncc.wait\n {copies} ncc.wait\n{load(0x100, 0x10C)}")
    assert [system.tiles[0].register(n) for n in (8, 9)] == [5, 5]


def test_without_a_wait_the_core_sees_old_data_and_with_it_new() -> None:
    text = f"{FILL.format(0, 5)}{load(0, 4)}\n mv s2, s0\n ncc.wait\n lw s3, 0(t6)"
    tile = run(text).tiles[0]
    assert (tile.register(18), tile.register(19)) == (-1, 5)


@pytest.mark.parametrize(
    ("engine", "instruction", "depth"),
    [
        ("tdma", "td.memset.int32 dst={spm}, value=0, n=1", 4),
        ("ct", "ct.cvt.fp32.int32 dst={spm}, src0=0x3000, n=1", 6),
        ("rdma", "rdma.int32 dst={spm}, src=0x280200000, n=1", 6),
    ],
)
@pytest.mark.parametrize("issued", [1, 4, 5, 6, 7, 9])
def test_queue_depth(engine: str, instruction: str, depth: int, issued: int) -> None:
    """The core sees the results of all but the last ``depth`` instructions."""
    assert getattr(ONE.queues, engine) == depth
    text = "td.memset.int32 dst=0x3000, value=0, n=1\n ncc.wait\n"
    text += (
        "".join(instruction.format(spm=0x100 * k) + "\n" for k in range(issued)) + f"li t6, {W.spm_weak}\n"
    )
    text += "".join(
        f"lw t0, {0x100 * k}(t6)\n snez t0, t0\n add s0, s0, t0\n" for k in range(issued) if k < 8
    )
    waiting = sum(1 for k in range(min(issued, 8)) if k >= issued - depth)
    assert run(text.replace("lw t0, 0x0(", "lw t0, 0(")).tiles[0].register(8) == waiting


def test_a_long_stretch_of_one_engine_does_not_starve_another() -> None:
    """More instructions than the queues have places pass an older one, which is still executed in time."""
    body = "".join(FILL.format(0x2000 + 0x10 * (k % 8), k) for k in range(2 * queues.ENTRIES))
    tile = run(f"{OLDER}\n{body}\n{load(0x1100, 0x1104)}").tiles[0]
    assert (tile.register(8), tile.register(9)) == (DONE, DONE)


# -- NCC registers -----------------------------------------------------------------------------------------


def registers_after(text: str) -> list[int]:
    """s0, s1 and s2 after a program that finds the NCC window in t0."""
    tile = run(f"li t0, {W.ncc}\n li t1, -1\n{text}").tiles[0]
    return [tile.register(n) & (1 << 64) - 1 for n in (8, 9, 18)]


def test_a_polling_loop_ends_and_its_work_is_done() -> None:
    poll = f"{FILL.format(0, 5)}1: ld s1, 0x740(t0)\n andi s0, s1, 0x100\n beqz s0, 1b\n"
    assert registers_after(f"{poll} li t6, {W.spm_weak}\n lw s2, 0(t6)") == [0x100, 0x100, 5]


def test_each_reading_of_the_status_executes_one_instruction() -> None:
    fills = "".join(FILL.format(0x100 * k, 5) for k in range(3))
    reads = "".join(f"ld {register}, 0x740(t0)\n" for register in ("s0", "s1", "s2", "s3", "s4"))
    tile = run(f"li t0, {W.ncc}\n{fills}{reads}").tiles[0]
    assert [tile.register(n) for n in (8, 9, 18, 19, 20)] == [3, 2, 1, 0x100, 0x100]


def test_reset_values_and_writable_bits() -> None:
    assert registers_after("ld s0, 0x770(t0)\n ld s1, 0x760(t0)\n ld s2, 0x780(t0)") == [(1 << 48) - 1, 0, 0]
    store = "".join(f"sd t1, {at}(t0)\n" for at in (0x760, 0x770, 0x780))
    assert registers_after(f"{store} ld s0, 0x770(t0)\n ld s1, 0x760(t0)\n ld s2, 0x780(t0)") == [
        (1 << 49) - 1,
        0xFF,
        1,
    ]


def test_halves_of_a_register() -> None:
    text = "sw zero, 0x770(t0)\n lw s0, 0x770(t0)\n lwu s1, 0x774(t0)\n sw zero, 0x774(t0)\n ld s2, 0x770(t0)"
    assert registers_after(text) == [0, 0xFFFF, 0]


def test_serial_mode_can_be_left_again() -> None:
    system = run(f"li t0, {W.ncc}\n sd zero, 0x780(t0)", serial=True)
    assert system.tiles[0].block(0)[queues.SERIAL] == 0
    assert system.tiles[0].block(1)[queues.SERIAL] == 1


@pytest.mark.parametrize(
    "access",
    [
        "sd t1, 0x740(t0)",
        "sd t1, 0x750(t0)",
        "ld s0, 0x748(t0)",
        "lb s0, 0x740(t0)",
        "lw s0, 0x742(t0)",
        "sh t1, 0x780(t0)",
        "ld s0, 0x744(t0)",
        "sw t1, 0x778(t0)",
        "ld s0, 0x790(t0)",
    ],
)
def test_other_accesses_are_faults(access: str) -> None:
    with pytest.raises(Fault, match=r"(load|store) of \d bytes at 0x1000[0-7]"):
        build(f"_start: li t0, {W.ncc}\n {access}").run()


def test_a_length_holds_for_the_next_range_of_the_same_extent() -> None:
    """It is computed once, so it must not depend on an address, because issue turns DDR addresses into
    offsets."""
    repeated = 0
    for record in instructions():
        extents = [operand.extent for operand in record.operands if operand.extent]
        used = {str(name).lstrip("@").partition(".")[0] for extent in extents for name in extent.arguments}
        assert not used & {operand.name for operand in record.operands if operand.is_address}
        again = [0, *(int(a == b) for a, b in pairwise(extents))][: len(extents)]
        table, number = tables.table(), tables.numbers()[record.mnemonic]
        first = table[number * tables.HEADER + tables.RANGE_ROWS]
        rows = table.reshape(-1, tables.ROW)[first : first + len(extents)]
        assert rows[:, tables.R_AGAIN].tolist() == again
        repeated += sum(again)
    assert repeated > 0
