"""Axes dealt to tiles in contiguous shares, and shares cut into slices.

The tiles of a phase form a grid with one axis for each axis that is dealt. A tile that is not needed, or
whose share is empty, passes its loops without a turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from compiler.codegen.expr import Operation, Value, Variable, highest, minimum
from compiler.codegen.kernel import Kernel
from tx8isa.numbers.division import ceil_div

from .tensors import Stretch, stretches


def coordinates(kernel: Kernel, parts: Sequence[int]) -> list[Value]:
    """The place of this tile in a grid of ``parts``, the last axis fastest.

    Tiles that the grid has no place for lie beyond the end of its first axis.
    """
    rest: Value = kernel.tile if kernel.target.tiles > 1 else 0
    found: list[Value] = []
    for extent in reversed(parts[1:]):
        found.append(rest % extent)
        rest = rest // extent
    return [rest, *reversed(found)]


@dataclass(frozen=True)
class Share:
    """A tile's part of an axis: from ``begin`` to below ``end``, in slices of ``size``; it may be empty.

    ``least`` and ``longest`` are how long the shares of all tiles are.
    """

    begin: Value
    end: Value
    size: int
    extent: int
    least: int
    longest: int

    @property
    def most(self) -> int:
        """Slices of the longest share."""
        return ceil_div(self.longest, self.size)

    @property
    def length(self) -> Value:
        return within(self.end - self.begin, self.least, self.longest)

    @property
    def some(self) -> Value:
        """A number within the axis: ``begin``, or the last for a share without anything."""
        return minimum(self.begin, self.extent - 1)

    @property
    def even(self) -> bool:
        """Whether all slices are as long as ``size``."""
        return self.least == self.longest and self.longest % self.size == 0


def share(extent: int, parts: int, place: Value, size: int) -> Share:
    """What the tile at ``place`` has of an axis that is dealt in ``parts``."""
    each = ceil_div(extent, parts)
    begin = minimum(place * each, extent)
    end = minimum(begin + each, extent)
    least = max(0, min(each, extent - highest(place) * each))
    return Share(begin, end, min(size, each), extent, least, each)


@contextmanager
def slices(kernel: Kernel, own: Share) -> Iterator[tuple[Value, Value]]:
    """The slices of a share: where each begins, and how long it is."""
    if own.most == 1:
        with kernel.loop(minimum(own.length, 1)):
            yield kernel.let(own.begin), own.size if own.even else kernel.let(within(own.length, 1, own.size))
        return
    with kernel.loop(own.end, own.begin, own.size) as begin:
        left = within(own.end - begin, 1, own.longest)
        yield begin, own.size if own.even else kernel.let(within(minimum(own.size, left), 1, own.size))


def within(value: Value, low: int, high: int) -> Value:
    """The same value with a range that the caller guarantees and interval arithmetic cannot see."""
    if not isinstance(value, Variable | Operation):
        return value
    low, high = max(low, value.low), min(high, value.high)
    return low if low == high else replace(value, low=low, high=high)


def dealt(extent: int, size: int, parts: int, place: Value, groups: int = 1) -> list[tuple[Stretch, Share]]:
    """Blocks of an axis of several groups, and which of their numbers are this tile's.

    What the last block is shorter by makes a stretch of its own, which is dealt from the last part on.
    """
    found = []
    for index, stretch in enumerate(stretches(extent, size)):
        count = groups * stretch.count
        fewer = min(parts, count)
        at = parts - 1 - place if index else place
        found.append((stretch, share(count, fewer, minimum(at, fewer), 1)))
    return found
