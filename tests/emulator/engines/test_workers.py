"""Three workers that share the engines: queues, registers and exceptions of their own, arbitration."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chip_bench import ONE, W, build
from emulator.tile.fault import Fault
from queue_programs import DDR_AT, DDR_BYTES, STEPS, Step, executed, written
from worker_programs import UNTOUCHED, run, saved

FILL = "td.memset.int32 dst={}, value={}, n=4, worker={}\n"
OLDER = "ct.cvt.fp32.int32 dst=0x1100, src0=0x1000, n=4, worker={}\n"


def priority(worker: int, value: int) -> str:
    return f"li t4, {value}\n sd t4, 0x760(t{worker})\n"


# -- order -------------------------------------------------------------------------------------------------

STEP_BY_STEP = """
    li s1, 6
1:  ld t4, 0x740(t0)
    andi t4, t4, 0xff
    bnez t4, 2f
    ld t4, 0x740(t1)
    andi t4, t4, 0xff
    bnez t4, 2f
    ld t4, 0x740(t2)
2:  lw t4, 0(t3)
    slli s0, s0, 4
    or s0, s0, t4
    addi s1, s1, -1
    bnez s1, 1b
"""
"""Six times: a reading of the status of a worker that has any lets one happen; look at SPM byte 0."""


@pytest.mark.parametrize(
    ("priorities", "order"),
    [
        ((0, 0, 0), "120120"),
        ((2, 1, 0), "221100"),
        ((0, 0, 1), "101022"),
        ((255, 3, 3), "121200"),
        ((0, 7, 255), "001122"),
    ],
)
def test_smaller_priorities_first_and_equal_ones_in_turn(priorities: tuple[int, ...], order: str) -> None:
    """Each worker writes its number to byte 0 twice; the registers show the order."""
    text = "".join(priority(w, p) for w, p in enumerate(priorities))
    text += "".join(FILL.format(0, w, w) for w in range(3)) * 2
    assert saved(run(text + STEP_BY_STEP), 1) == [int(order, 16)]


def test_a_wait_is_for_its_own_worker() -> None:
    text = f"{priority(1, 1)}{FILL.format(0, 5, 1)}{FILL.format(0x100, 6, 0)}"
    text += "ncc.wait\n lw s0, 0(t3)\n lw s1, 0x100(t3)\n ncc.wait worker=1\n lw s2, 0(t3)"
    assert saved(run(text), 3) == [UNTOUCHED, 6, 5]


@pytest.mark.parametrize(("older", "ordered"), [(0, True), (1, False)])
def test_conflicts_between_workers_order_nothing(older: int, ordered: bool) -> None:
    """A write into the operand of an older CT instruction waits for it only in the same worker."""
    younger = "".join(FILL.format(0x1000, 7, 0) for _ in range(5))
    text = f"{OLDER.format(older)}{younger} lw s0, 0x7ff(t3)"
    text = text.replace("lw s0, 0x7ff(t3)", f"li t4, {W.spm_weak + 0x1100}\n lw s0, 0(t4)")
    assert (saved(run(priority(1, 1) + text), 1) == [0]) == ordered


def test_each_worker_has_queues_of_its_own_depth() -> None:
    """Four fills of each of two workers wait; the fifth fill of one executes one."""
    text = "".join(FILL.format(0x100 * (4 * w + k), 1, w) for w in range(2) for k in range(4))
    count = "snez t5, t4\n slti t4, t4, 0\n sub t5, t5, t4\n add s0, s0, t5\n"
    reads = "".join(f"lw t4, {0x100 * k}(t3)\n {count}" for k in range(7))
    assert saved(run(text + reads), 1) == [0]
    fifth = FILL.format(0x2000, 1, 0)
    assert saved(run(priority(1, 9) + text + fifth + reads), 1) == [1]


def test_serial_mode_is_a_register_of_each_worker() -> None:
    """An independent fill overtakes the convert in parallel mode only."""
    for serial_worker, expected in ((1, UNTOUCHED), (0, 0)):
        younger = "".join(FILL.format(0x2000 + 0x100 * k, 7, 0) for k in range(5))
        text = f"li t4, 1\n sd t4, 0x780(t{serial_worker})\n{OLDER.format(0)}{younger}"
        text += f"li t4, {W.spm_weak + 0x1100}\n lw s0, 0(t4)"
        assert saved(run(text), 1) == [expected]


def test_the_status_counts_one_worker() -> None:
    text = "".join(FILL.format(0x100 * k, 1, w) for k, w in enumerate((0, 2, 2)))
    text += "ld s0, 0x740(t1)\n ld s1, 0x740(t2)\n ncc.wait worker=2\n ld s2, 0x740(t2)\n"
    assert saved(run(priority(2, 9) + text), 3) == [0x100, 2, 0x100]


@settings(max_examples=30)
@given(st.lists(st.tuples(STEPS, st.integers(0, 2)), min_size=2, max_size=30))
def test_a_program_that_waits_between_workers_has_the_result_of_program_order(
    steps: list[tuple[Step, int]],
) -> None:
    """At each change of the worker the earlier one is awaited; overlapping ranges, compared with the
    reference."""
    lines, before = [], 0
    for step, worker in steps:
        if worker != before:
            lines.append(f"ncc.wait worker={before}")
        lines.append(f"{written(step)}, worker={worker}")
        before = worker
    spm, ddr = executed([step for step, _ in steps])
    system = run("\n".join(lines))
    np.testing.assert_array_equal(system.tiles[0].spm.data, spm)
    np.testing.assert_array_equal(system.ddr[DDR_AT : DDR_AT + DDR_BYTES], ddr)
    assert system.tiles[0].counts[:, 0].sum() == len(steps) + sum(
        1 for line in lines if line.startswith("ncc.wait")
    )


def test_threads_do_not_change_what_workers_leave() -> None:
    """A program with a race between workers on several tiles, during which kernels are compiled."""
    machine = msgspec.structs.replace(ONE, grid=msgspec.structs.replace(ONE.grid, x=1, y=4))
    text = "".join(FILL.format(0, 10 * k + w, w) + OLDER.format(w) for k in range(3) for w in range(3))
    found = []
    for threads in (1, 2, 4):
        system = build(f"_start: {text} li a7, 93\n li a0, 0\n ecall", machine, threads=threads)
        system.run()
        found.append([tile.spm.data.tobytes() for tile in system.tiles])
    assert found[0] == found[1] == found[2]


# -- exceptions --------------------------------------------------------------------------------------------

BAD_CT, BAD_TDMA = 1 << 8, 1 << 40
BAD = {
    BAD_CT: "ct.abs.v.fp16 dst=0, src0=0, n=a5, worker={}\n",
    BAD_TDMA: "td.memset.fp16 dst=0, value=0, n=a5, worker={}\n",
}
ALL = "".join(f"ld s{n}, 0x750(t{w})\n" for w, n in enumerate((0, 1, 2)))


def test_exceptions_are_those_of_the_worker() -> None:
    text = f"li a5, -1\n{BAD[BAD_CT].format(2)}{BAD[BAD_TDMA].format(0)}{ALL}"
    assert saved(run(text, on_exception="drop"), 3) == [BAD_TDMA, 0, BAD_CT]


def test_mode_and_clearing_are_those_of_the_worker() -> None:
    """Worker 1 keeps the last exception, worker 2 the first; then worker 1's register is cleared."""
    keep = "li t4, 1\n slli t4, t4, 48\n sd t4, 0x770(t1)\n li a5, -1\n"
    both = "".join(BAD[bit].format(w) for w in (1, 2) for bit in (BAD_CT, BAD_TDMA))
    clear = "li t4, 1\n slli t4, t4, 49\n sd t4, 0x770(t1)\n ld s3, 0x750(t1)\n ld s4, 0x750(t2)\n"
    found = saved(run(f"{keep}{both}{ALL}{clear}", on_exception="drop"), 5)
    assert found == [0, BAD_TDMA, BAD_CT, 0, BAD_CT]


# -- refused -----------------------------------------------------------------------------------------------


def test_a_worker_that_the_machine_lacks() -> None:
    machine = msgspec.structs.replace(ONE, tile=msgspec.structs.replace(ONE.tile, workers=2))
    text = f"_start: {FILL.format(0, 1, 1)}{FILL.format(0, 1, 2)}"
    with pytest.raises(Fault, match=r"tile 0 at 0x8000\w+ .*: worker 2, the machine has 2$"):
        build(text, machine).run()
    with pytest.raises(Fault, match="sees no memory"):
        build(f"_start: li t0, {W.ncc + 2 * W.ncc_stride}\n ld t1, 0x740(t0)", machine).run()
    with pytest.raises(Fault, match="sees no memory"):
        build(f"_start: li t0, {W.ncc + 2 * W.ncc_stride}\n sd t1, 0x570(t0)", machine).run()


@pytest.mark.parametrize("worker", [1, 2])
def test_a_fault_names_the_instruction_of_any_worker(worker: int) -> None:
    with pytest.raises(Fault, match=r"ct\.abs\.v\.fp16: operand 'n' from a register: -1 is outside"):
        build(f"_start: li a5, -1\n{BAD[BAD_CT].format(worker)}").run()
