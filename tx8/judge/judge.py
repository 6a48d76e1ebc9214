"""Judges a kernel: one run under the sanitizer with simulated time, then the comparison."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from emulator.cli.verdict import HazardData, hazards_data
from emulator.tile.fault import Fault
from emulator.watch.stats.result import make_report
from emulator.watch.stats.sink import Statistics
from emulator.watch.stats.types import Report
from tx8isa.errors import Tx8Error
from tx8isa.tools.command_line import one_line

from .answer import Answer, Bound, FaultData, LargestLoss
from .comparison import Compared, compare
from .guards import Guards, StrayStores
from .outcome import Outcome
from .spec import Array, Spec, read_spec
from .trial import Trial, trial_of

MOST_INSTRUCTIONS = 20_000_000
"""The most instructions of a tile: a loop without end is a fault."""


def judge(
    kernel: str | Path, spec: Spec | str | Path, *, seed: int = 0, limit: int = MOST_INSTRUCTIONS
) -> Answer:
    """Judge a kernel by a specification or its file; ``seed``: of random inputs.

    A kernel that cannot be built or run also gets an answer. Tx8Error for a wrong specification.
    """
    wanted = spec if isinstance(spec, Spec) else read_spec(spec)
    path = Path(kernel)
    wanted.arguments(seed)
    try:
        trial = trial_of(path, wanted, seed)
    except Tx8Error as error:
        if str(error).startswith(wanted.path):
            raise
        return _refused(path, error, wanted)
    return _run(path, trial, wanted, limit)


def _refused(path: Path, error: Tx8Error, spec: Spec) -> Answer:
    """Return the answer about a kernel that cannot be built: its first error."""
    text = one_line(str(error).splitlines()[0])
    hint, fix = spec.hints.get(Outcome.REFUSED, ""), "correct what the message names"
    return Answer(str(path), Outcome.REFUSED, text, fix, hint, str(error))


def _run(path: Path, trial: Trial, spec: Spec, limit: int) -> Answer:
    """Run the kernel, and judge the run."""
    statistics, fault = Statistics(trial.program.image, trial.program.machine), None
    system = trial.start(strict=True, sinks=[statistics], show=lambda file, data: None)
    guards = Guards(system, trial.buffers(system))
    try:
        system.run(limit)
    except Fault as error:
        fault = error.bare
    assert system.sanitizer is not None
    hazards = hazards_data(system.sanitizer.hazards())
    report = make_report(statistics, system.tiles)
    outputs = () if fault else _compared(spec, trial, dict(trial.results(system)))
    findings = _Findings(fault, outputs, hazards, guards.stray())
    outcome, reason, next_step = findings.judgement(report, spec.cycles)
    least = next((each.cycles for each in report.resources if each.name == report.bound), 0.0)
    loss = report.losses[0] if report.losses else None
    return Answer(
        str(path),
        outcome,
        reason,
        next_step,
        spec.hints.get(outcome) or (spec.hints.get(Outcome.HAZARDS, "") if hazards else ""),
        fault=None if fault is None else _fault_data(fault),
        outputs=outputs,
        hazards=hazards,
        stray=findings.stray,
        cycles=int(report.cycles),
        goal=spec.cycles,
        bound=None if report.bound is None else Bound(report.bound, least, report.reached),
        loss=None if loss is None else LargestLoss(loss.text, loss.share, loss.fix),
    )


def _fault_data(fault: Fault) -> FaultData:
    return FaultData(fault.text, fault.kind, fault.category, fault.kind.facts.fix)


def _compared(spec: Spec, trial: Trial, got: dict[str, Array]) -> tuple[Compared, ...]:
    """Compare the outputs with the values of the specification; Tx8Error for values that do not fit."""
    expected = spec.results(trial.inputs, trial.outputs)
    for name, values in expected.items():
        if tuple(_long(values.shape)) != tuple(_long(got[name].shape)):
            shapes = ["x".join(map(str, shape)) or "one number" for shape in (values.shape, got[name].shape)]
            raise Tx8Error(f"{spec.path}: expected() gives {shapes[0]} for output '{name}' of {shapes[1]}")
    return tuple(compare(name, got[name], values, spec.tolerance) for name, values in expected.items())


def _long(shape: Iterable[int]) -> list[int]:
    """Return the extents above 1."""
    return [extent for extent in shape if extent != 1]


class _Findings(NamedTuple):
    """The findings of a run besides its time."""

    fault: Fault | None
    outputs: Sequence[Compared]
    hazards: Sequence[HazardData]
    stray: tuple[StrayStores, ...]

    def judgement(self, report: Report, goal: int | None) -> tuple[Outcome, str, str]:
        """Return the outcome, its reason and what to try: the likeliest cause first."""
        wrong = next((output for output in self.outputs if output.wrong), None)
        first = f"{self.hazards[0].fix} ({self.hazards[0].kind})" if self.hazards else ""
        if self.fault is not None:
            return Outcome.FAULT, self.fault.kind.facts.meaning, self.fault.kind.facts.fix
        if wrong is not None:
            more = ", and there are hazards, which may be the cause" if first else ""
            return Outcome.WRONG, f"output '{wrong.name}' is wrong{more}", first or wrong.fix
        if self.stray:
            fix = "store only the remaining elements: compute the count of the last piece"
            return Outcome.WRONG, "the kernel stores beyond the end of a buffer", fix
        if first:
            return Outcome.HAZARDS, "the results are right by luck: nothing orders some accesses", first
        if goal is not None and report.cycles > goal:
            loss = report.losses[0].fix if report.losses else "look at tx8emu --stats"
            return Outcome.SLOW, f"{int(report.cycles):,} cycles, and the goal is {goal:,}", loss
        met = "" if goal is None else ", the goal is met"
        return Outcome.PASSED, f"the results are right, there are no hazards{met}", ""
