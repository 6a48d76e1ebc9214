"""Runs with the logs of an earlier one take over its time; all findings equal those of a new chip."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import asm
from chip_bench import W, chip
from emulator import Program
from emulator.session import ProgramSession
from emulator.session.runs import RepeatedRuns
from emulator.timing import chip as simulation
from emulator.timing import layout
from emulator.timing.replay import Replay, TimeRange
from emulator.timing.simulator import Simulator
from emulator.timing.slices import Waiting
from emulator.watch.stats.output import executed
from emulator.watch.stats.result import make_report
from emulator.watch.stats.sink import Statistics
from emulator.watch.stats.text import describe

FOUR = chip(4, 0x4000)
OTHERS = ["other"] * 3
"""Simulations for a range: the least, the most and the C runtime."""
BEGIN = f"""
        .input  n, int32, 4
        .output y, int32, 4
        .text
_start: csrr    t0, mhartid
        slli    t2, t0, 2
        la      a0, n
        la      a1, y
        add     a0, a0, t2
        add     a1, a1, t2
        li      t5, {W.ddr_engine - W.ddr_cached}
        sub     a0, a0, t5              # where the core sees it
        lw      t1, 0(a0)
"""
END = """
        wdma.int32 dst=a1, src=0x100, n=1
        addi    t3, t0, 1
        andi    t3, t3, 3
        ncc.wait
        dte.unicast dst=0x1000, src=0x100, tile=t3, n=64
        dte.wait
        ncc.barrier tiles=0
        li      a0, 0
        li      a7, 93
        ecall
"""
TURNS = f"""{BEGIN}
1:      td.memset.int32 dst=0x100, value=t1, n=16
        ct.add.vv.fp32  dst=0x200, src0=0x200, src1=0x300, n=64
        addi    t1, t1, -1
        bnez    t1, 1b
{END}"""
"""Each tile takes the turns that its input says; the last value is 1."""
SIZES = f"""{BEGIN}
        td.memset.int32 dst=0x100, value=t1, n=t1
{END}"""
"""The same instructions in every run, one of them with another operand."""
HEAD = f"""{BEGIN}
        td.memset.int32 dst=0x100, value=t1, n=t1
        ncc.wait
        li      t4, 60
1:      ct.add.vv.fp32  dst=0x200, src0=0x200, src1=0x100, n=64
        addi    t4, t4, -1
        bnez    t4, 1b
{END}"""
"""Only the first instruction depends on the input, and the others begin when it has ended."""
CHANGES = f"""{BEGIN}
        slli    t1, t1, 20
        addi    t1, t1, 0x313           # addi t1, zero, the input
        la      t2, 2f
        bnez    t0, 1f
        sw      t1, 0(t2)
1:      fence.i
2:      addi    t1, zero, 7
3:      td.memset.int32 dst=0x100, value=t1, n=16
        addi    t1, t1, -1
        bnez    t1, 3b
{END}"""
"""Tile 0 changes its text."""
ONE, OTHER, LONGER = (np.array(n, np.int32) for n in ([1, 2, 3, 4], [2, 1, 3, 4], [9, 2, 3, 4]))


class Asked:
    """A run, and the parts of it that somebody asks for later."""

    def __init__(
        self, program: Program, repeated: RepeatedRuns | None, n: np.ndarray, **options: Any
    ) -> None:
        self.sink = Statistics(program.image, program.machine)
        self.waiting, self.sink.range = Waiting(self.sink), TimeRange()
        options["sinks"] = [self.waiting, self.sink.range]
        if repeated is None:
            system = program.start({"n": n}, **options)
            self._end(program, system)
        else:
            with repeated.started({"n": n}, **options) as system:
                self._end(program, system)

    def _end(self, program: Program, system: Any) -> None:
        system.run()
        self.output = program.results(system)["y"].tolist()
        self.tiles = [tile.totals() for tile in system.tiles]

    @property
    def cycles(self) -> int:
        self.waiting.settle()
        return self.sink.total

    @property
    def range(self) -> tuple[float | None, float | None]:
        assert self.sink.range is not None
        return self.sink.range.least, self.sink.range.most

    @property
    def lines(self) -> list[str]:
        self.waiting.settle()
        return [*describe(make_report(self.sink, self.tiles)), "", *executed(self.tiles)]

    @property
    def everything(self) -> tuple[Any, ...]:
        return self.cycles, self.lines, self.range, self.output


def program_of(text: str) -> Program:
    return Program(asm.assemble(text, machine=FOUR), FOUR)


@pytest.fixture(name="simulated")
def _simulated(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The simulations made: ``run`` for the time of a run, ``other`` for that on another machine."""
    done: list[str] = []
    work_off, take = Simulator._work_off, Replay.take

    def count_run(simulator: Simulator, words: Any) -> None:
        done.append("run")
        work_off(simulator, words)

    def count_other(replay: Replay, *arguments: Any, **options: Any) -> None:
        done.append("other")
        take(replay, *arguments, **options)

    monkeypatch.setattr(Simulator, "_work_off", count_run)
    monkeypatch.setattr(Replay, "take", count_other)
    yield done


@pytest.mark.parametrize("reuse", ["1", "0"])
@pytest.mark.parametrize("text", [TURNS, SIZES, CHANGES], ids=["turns", "sizes", "changed text"])
def test_every_run_has_its_own_time(text: str, reuse: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = program_of(text)
    expected = {n.tobytes(): Asked(program, None, n).everything for n in (ONE, OTHER, LONGER)}
    assert len({str(each) for each in expected.values()}) == 3, "the runs differ"
    monkeypatch.setenv("TX8_REUSE_TIME", reuse)
    repeated = RepeatedRuns(program)
    for n in (ONE, ONE, OTHER, ONE, LONGER, LONGER, OTHER, OTHER, ONE):
        assert Asked(program, repeated, n).everything == expected[n.tobytes()]


def test_equal_runs_are_simulated_once(simulated: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    program = program_of(TURNS)
    repeated = RepeatedRuns(program)
    kept = [Asked(program, repeated, ONE, threads=1 + at % 2) for at in range(4)]
    assert kept[3].everything == kept[0].everything == kept[1].everything
    assert simulated == ["run", *OTHERS]
    assert Asked(program, repeated, ONE, data=False).everything[:3] == kept[0].everything[:3]
    assert simulated == ["run", *OTHERS], "a run without data has the same logs"
    assert Asked(program, repeated, LONGER).cycles > kept[0].cycles
    assert simulated == ["run", *OTHERS, "run"]
    monkeypatch.setenv("TX8_REUSE_TIME", "0")
    longer = [Asked(program, repeated, LONGER).everything for _ in range(2)]
    assert longer[0] == longer[1]
    assert simulated[5:] == ["run", *OTHERS] * 2


def test_parts_are_found_when_they_are_asked_for(simulated: list[str]) -> None:
    """Cycles without slices, then statistics, then the range; each is simulated once."""
    program = program_of(TURNS)
    expected = Asked(program, None, ONE).everything
    simulated.clear()
    repeated = RepeatedRuns(program)
    for _ in range(2):
        with repeated.started({"n": ONE}, timed=True) as system:
            system.run()
            assert system.cycles == expected[0] // 1000
    assert simulated == ["run"]
    for _ in range(2):
        assert Asked(program, repeated, ONE).lines == expected[1]
    assert simulated == ["run", "run", *OTHERS]
    assert Asked(program, repeated, ONE).range == expected[2]
    with repeated.started({"n": ONE}, timed=True) as system:
        system.run()
        assert system.cycles == expected[0] // 1000
    assert simulated == ["run", "run", *OTHERS]


def test_range_before_statistics(simulated: list[str]) -> None:
    program = program_of(TURNS)
    expected = Asked(program, None, ONE).everything
    repeated = RepeatedRuns(program)
    simulated.clear()
    for _ in range(3):
        run = Asked(program, repeated, ONE)
        assert (run.range, run.lines) == (expected[2], expected[1])
    assert simulated == ["run", *OTHERS]


def test_statistics_of_two_runs_share_nothing_that_one_changes() -> None:
    program = program_of(TURNS)
    repeated = RepeatedRuns(program)
    first = Asked(program, repeated, ONE)
    expected = first.everything
    second = Asked(program, repeated, ONE)
    assert second.sink.range is not first.sink.range
    assert second.everything == expected
    others = [Asked(program, repeated, n).everything for n in (LONGER, OTHER)]
    assert expected not in others
    assert first.everything == second.everything == expected


def test_long_logs_are_not_kept(simulated: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    program = program_of(TURNS)
    expected = Asked(program, None, ONE).everything
    simulated.clear()
    monkeypatch.setattr(simulation, "MOST_KEPT", 100)
    repeated = RepeatedRuns(program)
    for _ in range(2):
        assert Asked(program, repeated, ONE).everything == expected
    assert simulated == ["run", *OTHERS] * 2
    kept = repeated._idle
    assert kept is not None and kept.memories.simulation._kept.size == 0


def test_logs_that_were_simulated_in_parts_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The remaining logs at the end of two runs are equal, but the time simulated earlier is not."""
    program = program_of(HEAD)
    many = {n: np.array([n, n, n, n], np.int32) for n in (1, 3000, 3500)}
    expected = {n: Asked(program, None, inputs).everything for n, inputs in many.items()}
    assert len({each[0] for each in expected.values()}) == 3
    monkeypatch.setattr(layout, "LOG_WORDS", layout.LOG_MARGIN + 1024)
    repeated = RepeatedRuns(program)
    for n in (1, 3000, 3500, 1):
        assert Asked(program, repeated, many[n]).everything == expected[n]


def test_steps_of_sessions_have_their_own_time(simulated: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    program = program_of(TURNS)
    order = (ONE, ONE, LONGER, LONGER, ONE, OTHER)
    cycles: dict[str, list[int | None]] = {}
    for reuse in ("0", "1"):
        monkeypatch.setenv("TX8_REUSE_TIME", reuse)
        simulated.clear()
        cycles[reuse] = []
        with ProgramSession(program, timed=True) as session:
            for n in order:
                session.run({"n": n})
                cycles[reuse].append(session.cycles)
        assert len(simulated) == (6 if reuse == "0" else 4)
    assert cycles["0"] == cycles["1"] and len(set(cycles["0"])) > 1
