"""Predicts the cycles of sequences, so that only promising sequences are searched.

A network of n groups in a row has n * n / 2 sequences, and to search a long one takes as long as to compile
it. But times nearly add up: a sequence takes about as long as its beginning and its end together, less what
both contain.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from compiler.dialect.ops import GroupOp, LoadConstOp
from compiler.dialect.types import stored_bytes
from compiler.lowering.sliced.candidates import fewest_tiles
from tx8isa.cost.rates import ddr_rate

from .borders import Borders

_SHARE = 0.4
"""The share of its own time that a group is taken to need in a sequence, until one with it is searched. In
the benchmarks' networks few sequences take less of the separate times of their groups.
"""
_LEAST_PART = 0.5
"""The least time of a sequence, as a share of that of its longest part. One that is longer may take less time
than a part, if it stores less.
"""
_LEAST_SLICED = 0.5
"""The least share of its groups' time apart that a sliced sequence takes. In the benchmarks' networks few
take less, and none less than 0.4 times.
"""

Numbers = tuple[int, ...]
"""The groups of a sequence, by their numbers in the program."""


@dataclass(frozen=True)
class _Parts:
    """The longest possible beginning and end of a sequence, the groups in both, and those in neither."""

    beginning: Numbers
    end: Numbers
    both: Numbers
    neither: Numbers


class Foresight:
    """Predicts the cycles of the possible sequences of one kind; ``learn`` tells it those of searched
    ones."""

    def __init__(self, borders: Borders, possible: Collection[Numbers]) -> None:
        self._alone = [borders.alone(each).middle for each in borders.groups]
        self._share: dict[int, float] = {}
        """The least share of its own time that a group needs in a known sequence, by its number."""
        self._possible = possible
        self._known: dict[Numbers, float] = {}
        self._parts: dict[Numbers, _Parts] = {}
        self._foretold: dict[Numbers, float] = {}

    def learn(self, groups: Numbers, cycles: float) -> None:
        self._known[groups] = cycles
        self._foretold.clear()
        share = cycles / max(sum(self._alone[each] for each in groups), 1)
        for each in groups:
            self._share[each] = min(share, self._share.get(each, share))

    def cycles(self, groups: Numbers) -> float:
        """Return the known cycles of a sequence, or predict them from its parts."""
        if groups in self._known:
            return self._known[groups]
        if groups not in self._foretold:
            self._foretold[groups] = self._of_parts(groups) if len(groups) > 1 else self._apart(groups)
        return self._foretold[groups]

    def _apart(self, groups: Numbers) -> float:
        return _SHARE * sum(self._alone[each] for each in groups)

    def _in_both(self, groups: Numbers) -> float:
        """The cycles of what two parts contain: for one group those in a known sequence, if more."""
        if len(groups) == 1:
            return max(_SHARE, self._share.get(groups[0], 0)) * self._alone[groups[0]]
        return self.cycles(groups) if groups else 0

    def _of_parts(self, groups: Numbers) -> float:
        if groups not in self._parts:
            self._parts[groups] = self._divided(groups)
        parts = self._parts[groups]
        beginning, end = self.cycles(parts.beginning), self.cycles(parts.end)
        together = beginning + end + self._apart(parts.neither) - self._in_both(parts.both)
        return max(together, _LEAST_PART * max(beginning, end))

    def _divided(self, groups: Numbers) -> _Parts:
        count = len(groups)
        end = next(n for n in range(count - 1, 0, -1) if n == 1 or groups[-n:] in self._possible)
        beginning = next(n for n in range(count - 1, 0, -1) if n == 1 or groups[:n] in self._possible)
        first = count - end
        return _Parts(groups[:beginning], groups[first:], groups[first:beginning], groups[beginning:first])


def least_cycles(borders: Borders, groups: Sequence[GroupOp]) -> float:
    """The least cycles of a sliced sequence: a share of the time of its groups, or those in which a part of
    the tiles load all weights."""
    values = dict.fromkeys(value for each in groups for value in each.operands)
    weights = sum(stored_bytes(value.type) for value in values if isinstance(value.owner, LoadConstOp))
    loads = weights * fewest_tiles(borders.context.tiles) / ddr_rate(borders.context.machine)
    return max(_LEAST_SLICED * borders.apart(groups).middle, loads)
