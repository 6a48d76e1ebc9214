"""Selects the stacks to try among many: first those at coarse boundaries, then those near the best ones.

A network of n groups in a row has n * n / 2 stacks, and pricing a long one takes as long as compiling it.
Stacks that begin or end a few groups apart mostly take nearly the same time. Sliced sequences, which may
contain any groups, are tried where the best stacks leave time to save.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from compiler.dialect.ops import GroupOp, LoadConstOp
from compiler.dialect.types import stored_bytes
from compiler.lowering.sliced.candidates import fewest_tiles
from compiler.passes.base import RangedContext
from tx8isa.cost.rates import ddr_rate

from .borders import Borders

_STEP = 4
"""The distance, in groups, of the boundaries that are tried at first."""
_SHORT = 3
"""Largest number of groups of a stack for which all stacks are tried."""
_LEAST_SHARE = 0.5
"""The least share of its groups' separate cycles that a sliced sequence takes. In the benchmarks' networks
few take less, and none less than 0.4 times.
"""
_NEAR = 3
"""Distance from the boundaries of the best stacks up to which all others are tried, in groups."""


@dataclass(frozen=True)
class StackSpan:
    """The groups of a stack: the numbers of the first and of the last one, and the number of groups."""

    first: int
    last: int
    length: int

    @property
    def boundaries(self) -> tuple[int, int]:
        """The groups before which the stack begins, and what follows it."""
        return self.first, self.last + 1


def some(spans: Collection[StackSpan]) -> set[StackSpan]:
    """The spans to try first: short ones, and those that touch a coarse boundary or an end of the network."""
    ends = {min(span.first for span in spans), max(span.last for span in spans) + 1}
    return {
        span
        for span in spans
        if span.length <= _SHORT or all(at % _STEP == 0 or at in ends for at in span.boundaries)
    }


def near(spans: Iterable[StackSpan], best: Collection[StackSpan]) -> set[StackSpan]:
    """The spans whose boundaries are near those of the best stacks."""
    places = {place for span in best for place in span.boundaries}
    around = {place + by for place in places for by in range(-_NEAR, _NEAR + 1)}
    return {span for span in spans if around.issuperset(span.boundaries)}


class Promise:
    """Lower bounds on sliced sequences: prunes those that cannot beat the chosen stacks and single groups.

    ``stacks``: the groups of each stack, and its cycles, which are divided over its groups in proportion to
    their separate times.
    """

    def __init__(self, borders: Borders, stacks: Iterable[tuple[Sequence[GroupOp], int]]) -> None:
        self.borders = borders
        machine = borders.context.machine
        self.ddr_bytes = ddr_rate(machine)
        self.tiles = fewest_tiles(borders.context.tiles)
        """The least number of tiles that load all weights."""
        self.share = {
            group: cycles / max(borders.apart(groups).middle, 1)
            for groups, cycles in stacks
            for group in groups
        }

    def may_be_less(self, groups: Sequence[GroupOp]) -> bool:
        """True if the lower bound of a sequence is less than the present time of these groups.

        In a program of a range stacks stay: a sequence that is faster at usual sizes may be much slower at
        others.
        """
        ranged = isinstance(self.borders.context, RangedContext)
        if ranged and any(each in self.share for each in groups):
            return False
        barrier = self.borders.barrier.middle
        now = sum((self.borders.alone(each).middle + barrier) * self.share.get(each, 1) for each in groups)
        return self._least(groups) < now - barrier

    def _least(self, groups: Sequence[GroupOp]) -> float:
        values = dict.fromkeys(value for each in groups for value in each.operands)
        weights = sum(stored_bytes(value.type) for value in values if isinstance(value.owner, LoadConstOp))
        return max(_LEAST_SHARE * self.borders.apart(groups).middle, weights * self.tiles / self.ddr_bytes)
