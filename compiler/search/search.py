"""Candidates of a template: made into code, placed in the scratchpad, priced."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.registers import OutOfRegisters
from compiler.codegen.spm import SpmOverflow
from compiler.graph import GraphError
from compiler.lowering import LOWERINGS
from compiler.lowering.generate import SMALLEST_BUDGET, WHOLE_SPM, generate
from compiler.lowering.record import Cut, Work
from compiler.search.effort import Effort

log = logging.getLogger(__name__)

Price = Callable[[Kernel], int]
"""Cycles that the code of a phase takes."""

MOST_SECONDS = 300.0
"""A search that takes longer is stopped, whatever its effort; the counts of ``Effort`` end it long before."""


@dataclass(frozen=True)
class Template:
    """Groups that are equal but for names: one of them, and how many there are."""

    key: str
    work: Work
    target: Target
    count: int = 1


@dataclass(frozen=True)
class Trial:
    """A candidate that was tried. ``cycles`` is None when it did not fit, ``problem`` says why."""

    cut: Cut | None
    cycles: int | None
    spm_bytes: int = 0
    problem: str = ""


@dataclass(frozen=True)
class Found:
    """What the search chose for a template, and all it tried; the first is the lowering's own rule."""

    key: str
    best: Trial
    trials: tuple[Trial, ...]


class Search:
    """``price`` is the estimate; ``clock`` gives seconds for the stop that no usual search comes to."""

    def __init__(self, price: Price, effort: Effort, clock: Callable[[], float] = time.monotonic) -> None:
        self.price, self.effort, self.clock = price, effort, clock
        self.unfinished = 0
        """Templates of which not all candidates were tried because time was up."""

    def run(self, templates: Sequence[Template]) -> list[Found]:
        """The best of each template's candidates; GraphError when nothing fits one."""
        begin = self.clock()
        rules = [self.trial(template, None) for template in templates]
        weights = [
            template.count * (rule.cycles or 0) for template, rule in zip(templates, rules, strict=True)
        ]
        found = []
        for template, rule, share in zip(templates, rules, self.effort.shares(weights), strict=True):
            trials = [rule]
            for cut in islice(candidates(template, rule), share):
                if self.clock() - begin > MOST_SECONDS:
                    self.unfinished += 1
                    break
                trials.append(self.trial(template, cut))
            found.append(_best(template, trials))
        if self.unfinished:
            log.warning(
                "search stopped after %.0f s: %d of %d templates were not searched to the end, and another "
                "run may choose otherwise", MOST_SECONDS, self.unfinished, len(templates),
            )  # fmt: skip
        return found

    def trial(self, template: Template, cut: Cut | None) -> Trial:
        """The code for a cut, priced."""
        refused = (SpmOverflow, GraphError) if cut is None else (SpmOverflow, GraphError, OutOfRegisters)
        try:
            kernel = generate("p", replace(template.work, cut=cut), template.target)
        except refused as error:
            return Trial(cut, None, problem=str(error))
        return Trial(cut, self.price(kernel), kernel.spm_bytes)


def candidates(template: Template, rule: Trial) -> Iterator[Cut]:
    """The cuts that a lowering proposes; for one that proposes none, its rule with smaller slices."""
    cuts = LOWERINGS[template.work.op].cuts
    if cuts is not None:
        yield from _once(cuts(template.target, template.work))
        return
    for divisor in (2, 4, 8):
        yield Cut(sizes=((WHOLE_SPM, max(rule.spm_bytes // divisor, SMALLEST_BUDGET)),))


def _once(cuts: Iterable[Cut]) -> Iterator[Cut]:
    yield from dict.fromkeys(cuts)


def _best(template: Template, trials: list[Trial]) -> Found:
    """The trial with the fewest cycles, the earlier of equal ones."""
    fitting = [trial for trial in trials if trial.cycles is not None]
    if not fitting:
        raise GraphError([trials[0].problem])
    best = min(fitting, key=lambda trial: (trial.cycles, trials.index(trial)))
    return Found(template.key, best, tuple(trials))
