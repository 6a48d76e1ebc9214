"""Concat and Slice: parts of tensors, in every order of axes that tensors have in DDR.

In blocked tensors a part is copied in runs of channels that share a plane on both sides.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.tensors import BLOCK, DdrTensor, View, copy_views, whole
from compiler.dialect.orders import Order
from compiler.dialect.planes import image_bytes
from compiler.evaluation.sizes import largest, least
from compiler.lowering.record import EVERY_TYPE, Engine, Work, lowering
from compiler.operators.shapes.slicing import slice_operands
from compiler.operators.types import axis_from_front
from tx8isa.numbers.layouts import full_blocks, tail_width

from .plane_joins import PlanePart, join_plane, joins


@lowering("Concat", order=Order.FOLLOW, types=EVERY_TYPE, engines=(Engine.DMA,))
def concat(kernel: Kernel, work: Work) -> None:
    """Copy each operand to its place in the result; blocked tensors are joined along their channels."""
    order = _stored_axes(work)
    axis = order.index(axis_from_front(work.spec.integer("axis"), len(order)))
    if work.output.blocked:
        _join_channels(kernel, work)
        return
    begin = 0
    for tensor in work.inputs:
        if tensor is not None and tensor.size:
            view = View(work.output, work.output.strides, begin * work.output.strides[axis])
            copy_views(kernel, tensor.shape, whole(tensor), view)
            begin += tensor.shape[axis]


def _join_channels(kernel: Kernel, work: Work) -> None:
    """Copy operands in planes; operands that share a plane of the result are joined on the chip."""
    outer, begin = tuple(map(_Taken, work.output.shape[:-1])), 0
    shared: dict[int, list[PlanePart]] = {}
    alone: list[tuple[_BlockedPart, _BlockedPart]] = []
    for tensor in work.inputs:
        assert tensor is not None
        channels = tensor.shape[-1]
        for first, planes, count in _runs(range(channels), begin):
            taken = range(first, first + (planes - 1) * BLOCK + count)
            parts = (_BlockedPart(tensor, outer, taken), _BlockedPart(work.output, outer, taken, begin))
            plane, lane = divmod(begin + first, BLOCK)
            if planes == 1 and count < BLOCK:
                shared.setdefault(plane, []).append(PlanePart(tensor, first, count, lane))
            else:
                alone.append(parts)
        begin += channels
    for plane, pieces in shared.items():
        if len(pieces) > 1 and joins(kernel, work.output, plane, pieces):
            join_plane(kernel, work.output, plane, pieces)
            continue
        for piece in pieces:
            taken = range(piece.channel, piece.channel + piece.count)
            at = plane * BLOCK + piece.lane - piece.channel
            alone.append(
                (_BlockedPart(piece.tensor, outer, taken), _BlockedPart(work.output, outer, taken, at))
            )
    for source, target in alone:
        _copy_channels(kernel, source, target)


@lowering("Slice", order=Order.FOLLOW, types=EVERY_TYPE, engines=(Engine.DMA,))
def slice_(kernel: Kernel, work: Work) -> None:
    """Reads with the steps as strides, which are positive: an expansion has reversed negative ones."""
    source, target = work.input(0), work.output
    taken = _taken(work)
    if target.blocked:
        *outer, channels = taken
        indices = range(channels.start, channels.start + channels.count * channels.step, channels.step)
        _copy_channels(
            kernel,
            _BlockedPart(source, tuple(outer), indices),
            _BlockedPart(target, tuple(map(_Taken, target.shape[:-1])), range(target.shape[-1])),
        )
        return
    strides = tuple(step * each.step for step, each in zip(source.strides, taken, strict=True))
    offset = sum(step * each.start for step, each in zip(source.strides, taken, strict=True))
    copy_views(kernel, target.shape, View(source, strides, offset), whole(target))


@dataclass(frozen=True)
class _Taken:
    """``count`` indices of an axis from ``start``, ``step`` apart; a run may decide count and start."""

    count: int
    start: int = 0
    step: int = 1


def _taken(work: Work) -> list[_Taken]:
    """The indices that a Slice with positive steps takes along each axis, in the order of storage."""
    shape, order = work.spec.shape(0), _stored_axes(work)
    given = [(0, 1)] * len(shape)
    for axis, start, _, step in slice_operands(work.spec):
        size = shape[axis]
        given[axis] = least(largest(start + size if start < 0 else start, 0), size), step
    found = zip(work.output.shape, (given[axis] for axis in order), strict=True)
    return [_Taken(count, start, step) for count, (start, step) in found]


def _stored_axes(work: Work) -> list[int]:
    """The axes of the specification in the order in which they are stored."""
    axes = list(range(len(work.output.shape)))
    return [axes[0], *axes[2:], axes[1]] if work.channels_last else axes


@dataclass(frozen=True)
class _BlockedPart:
    """Indices of a blocked tensor along its stored axes; ``begin`` is added to those of channels."""

    tensor: DdrTensor
    outer: tuple[_Taken, ...]
    indices: range
    begin: int = 0

    @property
    def channels(self) -> range:
        taken = self.indices
        return range(taken.start + self.begin, taken.stop + self.begin, taken.step)

    def view(self, channel: int, planes: int) -> View:
        """A view [N, planes, positions ..., lanes] that begins at a channel."""
        shape, image = self.tensor.shape, self.outer[1:]
        positions, plane = math.prod(shape[1:-1]), channel // BLOCK
        whole_planes = plane + planes <= full_blocks(shape[-1], BLOCK)
        width = BLOCK if whole_planes else tail_width(shape[-1], BLOCK)
        steps = [width * math.prod(shape[axis + 1 : -1]) for axis in range(1, len(shape) - 1)]
        batch = image_bytes(positions, shape[-1], self.tensor.fmt.bits) // self.tensor.bytes_each
        offset = plane * positions * BLOCK + channel % BLOCK + batch * self.outer[0].start
        offset += sum(step * taken.start for step, taken in zip(steps, image, strict=True))
        inner = [step * taken.step for step, taken in zip(steps, image, strict=True)]
        return View(self.tensor, (batch * self.outer[0].step, positions * BLOCK, *inner, 1), offset)


def _copy_channels(kernel: Kernel, source: _BlockedPart, target: _BlockedPart) -> None:
    """Copy a part of a blocked tensor to one of the same extents."""
    extents = [taken.count for taken in target.outer]
    for first, planes, count in _runs(source.channels, target.channels.start):
        views = source.view(source.channels[first], planes), target.view(target.channels[first], planes)
        copy_views(kernel, (extents[0], planes, *extents[1:], count), *views)


def _runs(channels: range, begin: int) -> Iterator[tuple[int, int, int]]:
    """Runs of channels that are in planes on both sides: first index, planes, channels of each plane."""
    count = len(channels)
    whole = 0
    if channels.step == 1 and begin % BLOCK == channels.start % BLOCK == 0:
        whole = count // BLOCK
    if whole:
        yield 0, whole, BLOCK
    first = whole * BLOCK
    while first < count:
        room = min(BLOCK - (channels.start + first) % BLOCK, BLOCK - (begin + first) % BLOCK, count - first)
        length = room if channels.step == 1 else 1
        yield first, 1, length
        first += length
