"""The search itself: it generates code for each candidate, places its buffers and prices it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice

from compiler.codegen.kernel import Kernel, Target
from compiler.graph import CapacityError
from compiler.lowering import LOWERINGS
from compiler.lowering.generate import DOES_NOT_FIT, SMALLEST_BUDGET, WHOLE_SPM, generate
from compiler.lowering.record import AnyWork, Cut

from .cost import NOTHING, KindUse, Shares, kinds_of
from .effort import Effort

log = logging.getLogger(__name__)

Estimator = Callable[[Kernel], int]
"""Estimates the cycles that the code of a phase takes."""

RangeEstimator = Callable[[Kernel], tuple[int, int]]
"""Estimates the cycles with the machine's figures at the ends of their ranges: least and most."""

CONTENDS = 1.2
"""A candidate that takes more than this many times the best so far is not priced at the ends."""

SearchProgress = Callable[[int, int, int], None]
"""Is called with the number of templates that are done, of all templates, and of candidates tried so far."""

MOST_SECONDS = 300.0
"""A search is stopped after this time, whatever its effort; the counts of ``Effort`` usually end it long
before."""


@dataclass(frozen=True)
class Template:
    """Groups that are equal except for names: the work of one of them, and their number."""

    key: str
    work: AnyWork
    target: Target
    count: int = 1


@dataclass(frozen=True)
class Trial:
    """A tried candidate. ``cycles`` is None if it did not fit; ``problem`` then has the reason.

    ``ends`` are its cycles at both ends of the ranges of the machine's figures; None if it was too slow to
    contend. ``ahead``: in a stack, the cycles that the phase before may hide. ``kinds``: the shares of the
    price of each kind of command that its cycles include. ``tiles``: the tiles that have work.
    """

    cut: Cut | None
    cycles: int | None
    spm_bytes: int = 0
    problem: str = ""
    ends: tuple[int, int] | None = None
    ahead: int = 0
    kinds: Shares = field(default_factory=dict)
    tiles: int = 0

    @property
    def rank(self) -> float:
        """The product of its cycles at both ends and at the figures: the geometric mean decides.

        So one candidate is better than another if it gains more at one end than it loses at the other. The
        cycles that the phase before may hide do not count.
        """
        if not self.cycles:
            return 0.0
        least, most = self.ends or (self.cycles, self.cycles)
        return float(least) * self.cycles * most * (1 - self.ahead / self.cycles) ** 3


@dataclass(frozen=True)
class SearchResult:
    """The best trial for a template, and all trials. The first trial is the lowering's own rule, except for
    stacks, which have no such rule."""

    key: str
    best: Trial
    trials: tuple[Trial, ...]


class Search:
    """A search with one effort. ``clock`` gives seconds; ``progress`` is called before every candidate."""

    def __init__(
        self,
        estimator: Estimator,
        effort: Effort,
        clock: Callable[[], float] = time.monotonic,
        progress: SearchProgress | None = None,
        at_ends: RangeEstimator | None = None,
        ahead: Estimator | None = None,
        kinds: Callable[[Kernel], Shares] | None = None,
        use: KindUse | None = None,
        tiles: Estimator | None = None,
    ) -> None:
        self.estimator, self.effort, self.clock, self.progress = estimator, effort, clock, progress
        self.at_ends, self.ahead, self.kinds, self.use, self.tiles = at_ends, ahead, kinds, use, tiles
        self._done = self._all = self._tried = 0
        self.unfinished = 0
        """Templates whose candidates were not all tried because time was up."""

    def run(self, templates: Sequence[Template]) -> list[SearchResult]:
        """The best candidate of each template; CapacityError for a template without one that fits."""
        begin, self._all = self.clock(), len(templates)
        self.count_kinds(templates)
        rules = [self.trial(template, None) for template in templates]
        weights = [
            template.count * (rule.cycles or 0) for template, rule in zip(templates, rules, strict=True)
        ]
        results = []
        for template, rule, share in zip(templates, rules, self.effort.shares(weights), strict=True):
            trials = [rule]
            for cut in islice(candidates(template, rule), share):
                if self.clock() - begin > MOST_SECONDS:
                    self.unfinished += 1
                    break
                trials.append(self.trial(template, cut, _least(trials)))
            results.append(_best(template, trials))
            self._done += 1
        if self.unfinished:
            log.warning(
                "search stopped after %.0f s: %d of %d templates were not searched to the end, and another "
                "run may choose otherwise",
                MOST_SECONDS,
                self.unfinished,
                len(templates),
            )
        return results

    def count_kinds(self, templates: Sequence[Template]) -> list[set[str]]:
        """Count the kinds of commands that the program uses, once; return the kinds of each template."""
        if self.use is None or self.use.users:
            return []
        found = []
        for template in templates:
            found.append(set[str]())
            with suppress(*DOES_NOT_FIT, CapacityError):
                kernel = generate("p", replace(template.work, cut=None), template.target)
                found[-1] |= {*kinds_of(kernel.tree)}
                self.use.count(found[-1], template.count)
        return found

    def search_stack(self, template: Template) -> SearchResult | None:
        """The best of the first ``effort.stack`` cuts of a stack that fit; None when none fits.

        Cycles at the ends of the range are estimated only if several contend, because most stacks are not
        made.
        """
        proposed = LOWERINGS[template.work.op].cuts
        assert proposed is not None
        trials: list[Trial] = []
        kernels: list[Kernel | None] = []
        left = self.effort.stack
        for cut in _once(proposed(template.target, template.work)):
            if left == 0:
                break
            trial, kernel = self._stacked(template, cut)
            trials.append(trial)
            kernels.append(kernel)
            left -= kernel is not None
        if left == self.effort.stack:
            return None
        contending = _contending(trials)
        if len(contending) > 1:
            trials = [
                self._at_ends(trial, kernel) if trial in contending and kernel is not None else trial
                for trial, kernel in zip(trials, kernels, strict=True)
            ]
        return _best(template, trials)

    def with_details(self, template: Template, result: SearchResult) -> SearchResult:
        """The result, or a better one whose cut differs in details; with its cycles at the ends of the
        range."""
        result, work = self.with_ends(template, result), replace(template.work, cut=result.best.cut)
        details = LOWERINGS[template.work.op].details
        trials = list(result.trials)
        for cut in _once(details(template.target, work)) if details is not None else ():
            trial, kernel = self._stacked(template, cut)
            trials.append(trial if kernel is None else self._at_ends(trial, kernel))
        return _best(template, trials)

    def _stacked(self, template: Template, cut: Cut) -> tuple[Trial, Kernel | None]:
        """The trial of a cut of a sequence, with the cycles that the phase before may hide."""
        trial, kernel = self._generated(template, cut)
        if kernel is not None and self.ahead is not None:
            trial = replace(trial, ahead=self.ahead(kernel))
        return trial, kernel

    def with_ends(self, template: Template, result: SearchResult) -> SearchResult:
        """The result with the cycles of its best trial at the ends of the range."""
        if result.best.ends is not None or self.at_ends is None:
            return result
        _, kernel = self._generated(template, result.best.cut)
        assert kernel is not None
        best = self._at_ends(result.best, kernel)
        trials = tuple(best if trial is result.best else trial for trial in result.trials)
        return SearchResult(result.key, best, trials)

    def trial(self, template: Template, cut: Cut | None, best: int | None = None) -> Trial:
        """Generate the code for a cut and estimate its cycles; a cut of None is the lowering's own rule.

        ``best`` are the cycles of the best candidate so far, None for the first.
        """
        trial, kernel = self._generated(template, cut)
        if kernel is None or (best is not None and (trial.cycles or 0) > CONTENDS * best):
            return trial
        return self._at_ends(trial, kernel)

    def decided(self, template: Template, cut: Cut | None) -> SearchResult:
        """The search result for a cut that an earlier search chose; CapacityError if it does not fit."""
        return _best(template, [self.trial(template, cut)])

    def priced(self, template: Template, cut: Cut | None) -> Trial:
        """The cycles of a decided cut; raises the errors of ``generate`` if it does not fit."""
        return self._priced(template, cut)[0]

    def _at_ends(self, trial: Trial, kernel: Kernel) -> Trial:
        return trial if self.at_ends is None else replace(trial, ends=self.at_ends(kernel))

    def _generated(self, template: Template, cut: Cut | None) -> tuple[Trial, Kernel | None]:
        """The trial of a cut with its code; no code if it does not fit."""
        if self.progress is not None:
            self.progress(self._done, self._all, self._tried)
        self._tried += 1
        try:
            return self._priced(template, cut)
        except (*DOES_NOT_FIT, CapacityError) as error:
            return Trial(cut, None, problem=str(error)), None

    def _priced(self, template: Template, cut: Cut | None) -> tuple[Trial, Kernel]:
        kernel = generate("p", replace(template.work, cut=cut), template.target)
        shares = NOTHING if self.kinds is None else self.kinds(kernel)
        tiles = 0 if self.tiles is None else self.tiles(kernel)
        return Trial(cut, self.estimator(kernel), kernel.spm_bytes, kinds=shares, tiles=tiles), kernel


def candidates(template: Template, rule: Trial) -> Iterator[Cut]:
    """The cuts that a template's lowering proposes; if it proposes none, its rule with smaller slices."""
    cuts = LOWERINGS[template.work.op].cuts
    proposed = _once(cuts(template.target, template.work)) if cuts is not None else ()
    first = next(iter(proposed), None)
    if first is not None:
        yield first
        yield from proposed
        return
    for divisor in (2, 4, 8):
        yield Cut(sizes=((WHOLE_SPM, max(rule.spm_bytes // divisor, SMALLEST_BUDGET)),))


def _once(cuts: Iterable[Cut]) -> Iterator[Cut]:
    yield from dict.fromkeys(cuts)


def _least(trials: Sequence[Trial]) -> int | None:
    """The fewest cycles of candidates that fit."""
    return min((trial.cycles for trial in trials if trial.cycles is not None), default=None)


def _contending(trials: Sequence[Trial]) -> list[Trial]:
    """The trials among which the rank decides."""
    least = _least(trials) or 0
    return [t for t in trials if t.cycles is not None and t.cycles <= CONTENDS * least]


def _best(template: Template, trials: list[Trial]) -> SearchResult:
    """The trial with the lowest rank. Among equal ones it is the first that is informative, else the
    first."""
    least = _least(trials)
    if least is None:
        raise CapacityError([trials[0].problem])
    best = min(
        _contending(trials), key=lambda trial: (trial.rank, not _informative(trial.cut), trials.index(trial))
    )
    return SearchResult(template.key, best, tuple(trials))


def _informative(cut: Cut | None) -> bool:
    """True if a cut tells the reader of a plan or a report more than the sizes of slices."""
    return cut is not None and bool(cut.tiles or cut.choices)
