"""Which of many possible stacks are tried: those with some boundaries first, then those near the best ones.

A network of n groups in a row has n * n / 2 stacks, and to price a long one takes as long as to compile it.
Stacks that begin or end a few groups apart mostly take nearly the same time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

_STEP = 4
"""The distance, in groups, of the boundaries that are tried at first."""
_SHORT = 3
"""Groups of a stack up to which all stacks are tried."""
_NEAR = 3
"""How far from the boundaries of the best stacks all others are tried, in groups."""


@dataclass(frozen=True)
class StackSpan:
    """The groups of a stack, by the numbers of the first and of the last one; and how many they are."""

    first: int
    last: int
    length: int

    @property
    def boundaries(self) -> tuple[int, int]:
        """The groups before which the stack begins, and what follows it."""
        return self.first, self.last + 1


def some(spans: Collection[StackSpan]) -> set[StackSpan]:
    """Those to try first: short ones, and those that touch a coarse boundary or an end of the network."""
    ends = {min(span.first for span in spans), max(span.last for span in spans) + 1}
    return {
        span
        for span in spans
        if span.length <= _SHORT or all(at % _STEP == 0 or at in ends for at in span.boundaries)
    }


def near(spans: Iterable[StackSpan], best: Collection[StackSpan]) -> set[StackSpan]:
    """Those whose boundaries are near those of the best stacks."""
    places = {place for span in best for place in span.boundaries}
    around = {place + by for place in places for by in range(-_NEAR, _NEAR + 1)}
    return {span for span in spans if around.issuperset(span.boundaries)}
