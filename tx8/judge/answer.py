"""The judge's answer as a record, in JSON and as text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap

import msgspec

from emulator.cli.verdict import HazardData

from .comparison import Compared
from .guards import StrayStores
from .outcome import Outcome

_WIDTH, _LABEL = 110, 10
_MOST_HAZARDS = 5


class FaultData(msgspec.Struct, frozen=True):
    """The fault that ended the run."""

    text: str
    kind: str
    category: str
    fix: str


class Bound(msgspec.Struct, frozen=True):
    """The limiting resource, its least cycles, and the ratio of these to the cycles of the run."""

    resource: str
    cycles: float
    reached: float


class LargestLoss(msgspec.Struct, frozen=True):
    """The largest loss of time beyond the bound."""

    text: str
    share: float
    fix: str


class Answer(msgspec.Struct, frozen=True):
    """The judgement of a kernel, with all findings."""

    kernel: str
    """The path of the kernel."""
    outcome: Outcome
    reason: str
    """The reason for the outcome in one sentence."""
    next_step: str
    """The advice on what to try; empty for a kernel that passes."""
    hint: str = ""
    """The hint of the specification for this outcome."""
    refusal: str | None = None
    """The message of the assembler, the compiler or the emulator that refused the kernel."""
    fault: FaultData | None = None
    outputs: tuple[Compared, ...] = ()
    """The outputs; none after a fault."""
    hazards: tuple[HazardData, ...] = ()
    stray: tuple[StrayStores, ...] = ()
    """Stores beyond the ends of buffers."""
    cycles: int | None = None
    goal: int | None = None
    bound: Bound | None = None
    loss: LargestLoss | None = None

    @property
    def passed(self) -> bool:
        """True if the results are right, no hazard was found and the goal of cycles is met."""
        return self.outcome is Outcome.PASSED

    @property
    def text(self) -> str:
        """The answer as lines of at most 110 columns, one for each fact."""
        name = Path(self.kernel).name
        facts = ((label, fact.replace(self.kernel, name)) for label, fact in self._facts())
        return "\n".join(line for label, fact in facts for line in _lines(label, fact))

    @property
    def json(self) -> str:
        """The answer as one JSON object."""
        return msgspec.json.encode({**msgspec.to_builtins(self), "passed": self.passed}).decode()

    def _facts(self) -> Iterator[tuple[str, str]]:
        """Yield labels and facts."""
        yield "judgement", f"{self.outcome}: {self.reason}"
        if self.fault is not None:
            yield "fault", f"{self.fault.text} [{self.fault.kind}, {self.fault.category}]"
        for output in self.outputs:
            yield "result", output.text
        for stray in self.stray:
            yield "beyond", stray.text
        yield from self._hazards()
        if self.cycles is not None:
            goal = "" if self.goal is None else f"; the goal is {self.goal:,}"
            yield "cycles", f"{self.cycles:,}{goal}"
        if self.bound is not None:
            reached = f"{self.bound.cycles:,.0f} cycles at its peak, {self.bound.reached:.0%} of it reached"
            yield "bound", f"{self.bound.resource}: {reached}"
        if self.loss is not None:
            yield "loss", f"{self.loss.share:.0%} {self.loss.text}"
        if self.next_step:
            yield "try", self.next_step
        if self.hint:
            yield "hint", self.hint

    def _hazards(self) -> Iterator[tuple[str, str]]:
        """Yield the hazards; there are none for a kernel that was refused, because it did not run."""
        if self.outcome is Outcome.REFUSED:
            return
        for hazard in self.hazards[:_MOST_HAZARDS]:
            where = f"{hazard.at.file}:{hazard.at.line}" if hazard.at.file else f"0x{hazard.at.address:x}"
            tiles = f" (and on {len(hazard.also)} other tiles)" if hazard.also else ""
            what = f"{hazard.kind}: {hazard.at.instruction} ({where}) {hazard.what}{tiles}"
            yield "hazard", f"{what} [{hazard.category}]"
        more = len(self.hazards) - _MOST_HAZARDS
        if more > 0 or not self.hazards:
            yield "hazards", f"{more} more" if more > 0 else "none"


def _lines(label: str, fact: str) -> Iterator[str]:
    """Yield the lines of a fact; the first line has the label."""
    for number, line in enumerate(
        wrap(fact, _WIDTH - _LABEL, break_long_words=False, break_on_hyphens=False)
    ):
        yield f"{label if number == 0 else '':<{_LABEL}}{line}"
