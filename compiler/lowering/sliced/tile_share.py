"""A tile's share of a value: a part of one axis."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from compiler.codegen.expr import Value, minimum
from compiler.codegen.slices.tensors import DdrTensor
from compiler.dialect.orders import Order
from compiler.dialect.types import storage_permutation
from compiler.evaluation.sizes import Size, always
from compiler.graph import Shape
from tx8isa.numbers.division import ceil_div


class Undividable(ValueError):
    """Raised when a sequence cannot be divided in a certain way; the message names operator and reason."""


@dataclass(frozen=True)
class Reach:
    """Begins of the parts that windows over tiles' shares need: part i at min(i * pitch, last) - before.

    They overlap, and may reach beyond the ends of the axis.
    """

    pitch: int
    last: int
    before: int


@dataclass(frozen=True)
class TileShare:
    """A tile's part of a value: one of ``count`` contiguous parts of an axis, each of ``size`` elements.

    Where the axis is shorter than all parts together, the last ones begin earlier: two tiles then compute the
    same elements. With fewer parts than tiles, neighbouring tiles have the same one. ``reach``: the begins of
    parts of an operand, which overlap where windows do.
    """

    axis: int
    count: int
    size: int
    reach: Reach | None = None

    @classmethod
    def along(cls, shape: Shape, axis: int, count: int) -> TileShare:
        """The share of an axis among ``count`` tiles; Undividable if it has fewer elements than tiles.

        With a dynamic extent, several tiles can have the same element.
        """
        if axis >= len(shape) or (not isinstance(shape[axis], Size) and shape[axis] < count):
            raise Undividable(f"axis {axis} of {shape} has no {count} parts")
        return cls(axis, count, ceil_div(shape[axis], count))

    def of(self, shape: Shape) -> Shape:
        """The shape of a part."""
        return (*shape[: self.axis], self.size, *shape[self.axis + 1 :])

    def even(self, shape: Shape) -> bool:
        """True if no parts overlap."""
        return self.reach is None and always(shape[self.axis] == self.count * self.size)

    def reached(self, shape: Shape) -> Reach:
        """Return the beginnings of the parts along the axis of a shape."""
        return self.reach or Reach(self.size, shape[self.axis] - self.size, 0)

    def exceeds(self, shape: Shape) -> bool:
        """True if some parts reach beyond the ends of the axis."""
        reach = self.reached(shape)
        return reach.before > 0 or reach.last - reach.before + self.size > shape[self.axis]

    def joined(self, other: TileShare, shape: Shape) -> TileShare | None:
        """The smallest parts that contain the parts of both; None if these do not advance alike."""
        one, two = self.reached(shape), other.reached(shape)
        alike = (self.axis, self.count, one.pitch, one.last) == (other.axis, other.count, two.pitch, two.last)
        if not alike:
            return None
        before = max(one.before, two.before)
        size = before + max(self.size - one.before, other.size - two.before)
        return TileShare(self.axis, self.count, size, Reach(one.pitch, one.last, before))

    def begin(self, shape: Shape, number: Value) -> Value:
        """The first element of part ``number`` along the axis; below 0 for one that reaches beyond."""
        if self.reach is not None:
            return minimum(number * self.reach.pitch, self.reach.last) - self.reach.before
        own = number * self.size
        return own if self.even(shape) else minimum(own, shape[self.axis] - self.size)

    def seen_in(self, shape: Shape, other: Shape) -> TileShare:
        """The same parts of the elements in another shape; Undividable if they are no parts of it."""
        if self.reach is not None:
            raise Undividable(f"parts of {shape} that overlap are none of {other}")
        before, run = math.prod(shape[: self.axis]), self.size * math.prod(shape[self.axis + 1 :])
        for axis in range(len(other)):
            inner = math.prod(other[axis + 1 :])
            if (
                math.prod(other[:axis]) == before
                and inner
                and run % inner == 0
                and run <= other[axis] * inner
            ):
                return TileShare(axis, self.count, run // inner)
        raise Undividable(f"parts of axis {self.axis} of {shape} are none of {other}")


Needed = TileShare | None
"""The share of a value that a tile needs or has; None: all of it."""


def stored_share(tensor: DdrTensor, needed: Needed) -> Needed:
    """A share with its axis in the order of storage, from one with its axis of the specification."""
    if needed is None:
        return None
    return replace(needed, axis=_permutation(tensor).index(needed.axis))


def specified_share(tensor: DdrTensor, share: TileShare) -> TileShare:
    """A share with its axis of the specification, from one with its axis in the order of storage."""
    return replace(share, axis=_permutation(tensor)[share.axis])


def specified_shape(tensor: DdrTensor) -> Shape:
    order = _permutation(tensor)
    return tuple(tensor.shape[order.index(axis)] for axis in range(len(order)))


def _permutation(tensor: DdrTensor) -> tuple[int, ...]:
    order = Order.CHANNELS_LAST if tensor.channels_last else Order.PLAIN
    return storage_permutation(len(tensor.shape), order)


def shape_of_share(shape: Shape, share: Needed) -> Shape:
    return shape if share is None else share.of(shape)
