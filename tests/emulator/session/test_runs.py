"""Runs that begin with the chip of an earlier one equal runs of a new chip in outputs, time and messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asm
from chip_bench import W, chip
from emulator import Fault, InputError, Program
from emulator.chip.memories import Memories
from emulator.session import runs
from emulator.session.runs import RepeatedRuns
from emulator.timing.replay import TimeRange
from emulator.timing.simulator import Simulator
from emulator.timing.slices import Waiting
from emulator.watch.stats.output import executed, lines
from emulator.watch.stats.result import make_report
from emulator.watch.stats.sink import Statistics
from emulator.watch.stats.text import describe

FOUR = chip(4, 0x4000)
EXIT = "\n ncc.wait\n li a0, 0\n li a7, 93\n ecall\n"
SUMS = f"""
        .input  x, fp32, 64
        .output y, fp32, 64
        .text
_start: csrr    t0, mhartid
        slli    t0, t0, 6
        la      a0, x
        la      a1, y
        add     a0, a0, t0
        add     a1, a1, t0
        rdma.fp32       dst=0x100, src=a0, n=16
        rdma.fp32       dst=0x200, src=a1, n=16         # zeros
        ct.add.vv.fp32  dst=0x200, src0=0x200, src1=0x100, n=16
        wdma.fp32       dst=a1, src=0x200, n=16
        li      t5, {W.ddr_engine - W.ddr_cached}
        sub     a0, a0, t5              # where the core sees it
        lw      t1, 0(a0)
        beqz    t1, done
        ebreak
done:"""
"""The input, if the first number of each of its quarters is 0; else it stops."""
SENDS = """
        .output y, fp32, 64
        .text
_start: csrr    t0, mhartid
        td.memset.int32 dst=0x100, value=t0, n=16
        ncc.wait
        addi    t1, t0, 1
        andi    t1, t1, 3
        dte.unicast dst=0x200, src=0x100, tile=t1, n=64
        dte.wait
        ncc.barrier tiles=0
        la      a1, y
        slli    t2, t0, 6
        add     a1, a1, t2
        wdma.fp32 dst=a1, src=0x200, n=16
"""
READS_TIME = f"""
        .output y, int64, 1
        .text
_start: csrr    t0, mhartid
        bnez    t0, done
        csrr    t1, mcycle
        la      t2, y
        li      t5, {W.ddr_engine - W.ddr_cached}
        sub     t2, t2, t5
        sd      t1, 0(t2)
done:"""


def _program(text: str) -> Program:
    return Program(asm.assemble(text + EXIT, machine=FOUR), FOUR)


def _numbers(seed: int) -> dict[str, np.ndarray]:
    numbers = np.random.default_rng(seed).standard_normal(64).astype(np.float32)
    numbers[::16] = 0
    return {"x": numbers}


@pytest.fixture(name="made")
def _made(monkeypatch: pytest.MonkeyPatch) -> list[Memories]:
    """The memories made from now on; no others are waiting."""
    found: list[Memories] = []

    def make(*arguments: Any) -> Memories:
        found.append(Memories(*arguments))
        return found[-1]

    monkeypatch.setattr(runs, "Memories", make)
    monkeypatch.setattr(RepeatedRuns, "_waiting", [])
    return found


def _watched(program: Program, repeated: RepeatedRuns | None, **inputs: Any) -> tuple[list[str], bytes]:
    """The statistics of a run, with the range of its time, and its output."""
    sink = Statistics(program.image, program.machine)
    sink.range = TimeRange()
    options: dict[str, Any] = {"sinks": [sink, sink.range]}
    if repeated is None:
        system = program.start(inputs, **options)
        system.run()
        return list(lines(sink, system.tiles)), program.results(system)["y"].tobytes()
    with repeated.started(inputs, **options) as system:
        system.run()
        return list(lines(sink, system.tiles)), program.results(system)["y"].tobytes()


def test_outputs_and_time_are_those_of_a_new_chip(made: list[Memories]) -> None:
    program = _program(SUMS)
    repeated = RepeatedRuns(program)
    for seed in range(4):
        inputs = _numbers(seed)
        threads = 1 + seed % 2
        with repeated.started(inputs, threads=threads) as system:  # runs without time between those with it
            system.run()
            assert np.array_equal(program.results(system)["y"], inputs["x"])
            assert system.simulator is None and system.threads == threads
        assert _watched(program, repeated, **inputs) == _watched(program, None, **inputs)
    assert len(made) == 1


@pytest.mark.parametrize("text", [SENDS, READS_TIME], ids=["copies between tiles", "time is read"])
def test_what_a_chip_remembers_is_forgotten(text: str, made: list[Memories]) -> None:
    program = _program(text)
    repeated = RepeatedRuns(program)
    expected = _watched(program, None)
    assert [_watched(program, repeated) for _ in range(3)] == [expected] * 3
    assert len(made) == 1


class LaterStatistics:
    """Statistics of a run that nobody has read yet."""

    def __init__(self, program: Program, repeated: RepeatedRuns, **inputs: Any) -> None:
        self.sink = Statistics(program.image, program.machine)
        self.waiting, self.sink.range = Waiting(self.sink), TimeRange()
        with repeated.started(inputs, sinks=[self.waiting, self.sink.range]) as system:
            system.run()
            self._tiles = [tile.totals() for tile in system.tiles]

    def lines(self) -> list[str]:
        self.waiting.settle()
        return [*describe(make_report(self.sink, self._tiles)), "", *executed(self._tiles)]


@pytest.mark.parametrize("text", [SUMS, SENDS, READS_TIME], ids=["loads and sums", "copies", "time is read"])
def test_statistics_may_wait_until_somebody_asks(text: str, made: list[Memories]) -> None:
    program = _program(text)
    repeated, inputs = RepeatedRuns(program), _numbers(1) if text == SUMS else {}
    expected, _ = _watched(program, None, **inputs)
    first = LaterStatistics(program, repeated, **inputs)
    assert not first.sink.ends[0]
    second = LaterStatistics(program, repeated, **inputs)  # finds what the first run is still asked for
    assert first.lines() == second.lines() == expected
    third = LaterStatistics(program, repeated, **inputs)
    assert third.sink.range is not None and third.sink.range.least  # the range before the statistics
    _watched(program, repeated, **inputs)
    assert third.lines() == expected
    assert len(made) == 1


def test_a_run_that_nobody_asks_about_is_not_simulated(
    made: list[Memories], monkeypatch: pytest.MonkeyPatch
) -> None:
    simulated, work_off = list[int](), Simulator._work_off

    def count(simulator: Simulator, words: Any) -> None:
        simulated.append(0)
        work_off(simulator, words)

    monkeypatch.setattr(Simulator, "_work_off", count)
    monkeypatch.setenv("TX8_REUSE_TIME", "0")
    program = _program(SUMS)
    repeated = RepeatedRuns(program)
    for seed in range(3):
        LaterStatistics(program, repeated, **_numbers(seed))
    assert len(simulated) == 0
    kept = [LaterStatistics(program, repeated, **_numbers(seed)) for seed in range(3)]
    assert len(simulated) == 2, "those of two runs that were followed by another"
    assert kept[2].lines() and kept[2].lines() and len(simulated) == 3


def test_a_run_that_stops_leaves_nothing(made: list[Memories]) -> None:
    program = _program(SUMS)
    repeated = RepeatedRuns(program)
    stops = {"x": np.ones(64, np.float32)}
    for _ in range(2):
        with pytest.raises(Fault, match="ebreak"), repeated.started(stops) as system:
            system.run()
        assert _watched(program, repeated, **_numbers(1)) == _watched(program, None, **_numbers(1))
    assert len(made) == 3, "of a run that was stopped nothing is used again"
    with pytest.raises(InputError, match=r"input 'x' .* is missing"), repeated.started({}):
        pass
    _watched(program, repeated, **_numbers(1))
    assert len(made) == 3


def test_runs_at_the_same_time_have_chips_of_their_own(made: list[Memories]) -> None:
    program = _program(SUMS)
    repeated = RepeatedRuns(program)
    one, other = _numbers(1), _numbers(2)
    with repeated.started(one) as first, repeated.started(other) as second:
        second.run()
        first.run()
        assert np.array_equal(program.results(first)["y"], one["x"])
        assert np.array_equal(program.results(second)["y"], other["x"])
    assert len(made) == 2


def test_only_so_much_memory_waits(made: list[Memories], monkeypatch: pytest.MonkeyPatch) -> None:
    """There is room for the two programs that ran last, and none for one that is too large."""
    program = _program(SUMS)
    waits = [RepeatedRuns(program) for _ in range(3)]
    room = 2 * waits[0].size
    monkeypatch.setattr(runs, "MOST_BYTES", room)
    for at in (0, 1, 2, 2, 1, 0):
        _watched(program, waits[at], **_numbers(at))
    assert len(made) == 4
    monkeypatch.setattr(runs, "MOST_BYTES", waits[0].size - 1)
    for _ in range(2):
        _watched(program, waits[0], **_numbers(0))
    assert len(made) == 5
