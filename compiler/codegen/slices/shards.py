"""Axes divided into shards, one for each tile, and shards into slices.

The tiles of a phase form a grid with one axis for each axis that is divided. A tile that is not needed, or
whose shard is empty, executes no iteration of its loops.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from compiler.codegen.expr import Operation, Value, Variable, highest, minimum
from compiler.codegen.kernel import Kernel
from compiler.evaluation.sizes import always, largest, least
from tx8isa.numbers.division import ceil_div

from .tensors import Stretch, stretches


def coordinates(kernel: Kernel, parts: Sequence[int]) -> list[Value]:
    """The position of this tile in a grid of ``parts`` tiles along each axis, the last axis fastest.

    For tiles beyond the end of the grid it is beyond the end of the first axis.
    """
    rest: Value = kernel.tile if kernel.target.tiles > 1 else 0
    found: list[Value] = []
    for extent in reversed(parts[1:]):
        found.append(rest % extent)
        rest = rest // extent
    return [rest, *reversed(found)]


@dataclass(frozen=True)
class Shard:
    """The part of an axis that a tile works on, from ``begin`` to before ``end``; it may be empty.

    It is divided into slices of ``size``. ``extent`` is the length of the axis, ``shortest`` and ``longest``
    are the lengths of the shards of all tiles.
    """

    begin: Value
    end: Value
    size: int
    extent: int
    shortest: int
    longest: int

    @property
    def slice_count(self) -> int:
        """Number of slices of the longest shard."""
        return ceil_div(self.longest, self.size)

    @property
    def length(self) -> Value:
        return within(self.end - self.begin, self.shortest, self.longest)

    @property
    def clamped_begin(self) -> Value:
        """``begin``, or the last index of the axis for a shard that is empty because it begins after it."""
        return minimum(self.begin, self.extent - 1)

    @property
    def uniform(self) -> bool:
        """True if all slices of all tiles have the length ``size``."""
        return always(self.shortest == self.longest) and always(self.longest % self.size == 0)


def shard_of(extent: int, parts: int, place: Value, size: int) -> Shard:
    """Shard number ``place`` of an axis that is divided into ``parts`` shards, with slices of ``size``."""
    each = ceil_div(extent, parts)
    begin = minimum(place * each, extent)
    end = minimum(begin + each, extent)
    shortest = largest(0, least(each, extent - highest(place) * each))
    return Shard(begin, end, least(size, each), extent, shortest, each)


@contextmanager
def slices(kernel: Kernel, shard: Shard) -> Iterator[tuple[Value, Value]]:
    """Code for each slice of a shard: its first index, and its length."""
    size = shard.size
    if always(shard.slice_count == 1):
        with kernel.loop(minimum(shard.length, 1)):
            begin = kernel.let(shard.begin)
            yield begin, size if shard.uniform else kernel.let(within(shard.length, 1, size))
        return
    with kernel.loop(shard.end, shard.begin, size) as begin:
        rest = within(shard.end - begin, 1, shard.longest)
        yield begin, size if shard.uniform else kernel.let(within(minimum(size, rest), 1, size))


def within(value: Value, low: int, high: int) -> Value:
    """``value`` with a range that the caller guarantees and interval arithmetic cannot derive."""
    if not isinstance(value, Variable | Operation):
        return value
    low, high = largest(low, value.low), least(high, value.high)
    return low if always(low == high) else replace(value, low=low, high=high)


def sharded_blocks(
    extent: int, size: int, parts: int, place: Value, groups: int = 1
) -> list[tuple[Stretch, Shard]]:
    """The blocks of one tile, when ``parts`` tiles divide ``groups`` equal axes in blocks of ``size``.

    Blocks of equal size are numbered together, and the shard is of these numbers. A shorter last block is a
    stretch by itself, whose shards are counted from the last tile backwards.
    """
    found = []
    for index, stretch in enumerate(stretches(extent, size)):
        count = groups * stretch.count
        fewer = min(parts, count)
        at = parts - 1 - place if index else place
        found.append((stretch, shard_of(count, fewer, minimum(at, fewer), 1)))
    return found
