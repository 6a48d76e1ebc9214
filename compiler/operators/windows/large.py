"""Replaces windows and steps beyond the engines' limits by smaller ones that the chip computes at once.

A convolution treats blocks of neighbouring positions as channels. With blocks of f positions, a kernel of K
becomes one of K / f. Several consecutive results can be maps of one position, so a block can be larger than a
stride. All products are still added in one sum. A pool is split into several shorter windows, or folds
blocks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from compiler.graph import AttrValue
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.parts import broadcast, permuted, reshaped, sliced
from compiler.operators.record import Call
from tx8isa.numbers.division import ceil_div
from tx8isa.numbers.limits import LARGEST_DILATION, LARGEST_KERNEL, LARGEST_STRIDE

from .geometry import Window


def large_axis(window: Window) -> int | None:
    """Return the first spatial axis along which the engines cannot take a window; None if they can."""
    for axis, size in enumerate(window.kernel):
        far = window.strides[axis] > LARGEST_STRIDE or window.dilations[axis] > LARGEST_DILATION
        if size > LARGEST_KERNEL or far:
            return axis
    return None


def _split_axis(build: Builder, x: str, axis: int, size: int) -> str:
    """Split an axis into blocks of ``size`` elements and the elements in a block."""
    shape = build.shape(x)
    return reshaped(build, x, *shape[:axis], shape[axis] // size, size, *shape[axis + 1 :])


def _moved(build: Builder, x: str, source: int, target: int) -> str:
    """Move an axis to another place."""
    order = [axis for axis in range(len(build.shape(x))) if axis != source]
    order.insert(target, source)
    return permuted(build, x, *order)


def _merged(build: Builder, x: str, axis: int) -> str:
    """Merge an axis with the one after it."""
    shape = build.shape(x)
    return reshaped(build, x, *shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])


def _filled(build: Builder, x: str, axis: int, before: int, after: int, fill: float = 0.0) -> str:
    """Add elements to both sides of an axis, or remove them if a number is negative."""
    if not before and not after:
        return x
    pads = [0] * (2 * len(build.shape(x)))
    pads[axis], pads[len(pads) // 2 + axis] = before, after
    return build("Pad", x, build.ints(*pads), build.like(x, fill))


# --- convolutions ----------------------------------------------------------------------------------------


class _Blocks:
    """The division of an axis into blocks; ``phases`` consecutive results are maps of one position."""

    def __init__(self, window: Window, axis: int) -> None:
        self.stride, self.extent = window.strides[axis], window.extents[axis]
        self.phases = 1
        while self.kernel > LARGEST_KERNEL:
            self.phases += 1
        self.positions = ceil_div(window.output[axis], self.phases)

    @property
    def step(self) -> int:
        """Elements of a block."""
        return self.stride * self.phases

    @property
    def reach(self) -> int:
        """Elements from the first one of the first phase to the last one of the last phase."""
        return self.extent + (self.phases - 1) * self.stride

    @property
    def kernel(self) -> int:
        """Blocks that the windows of a position meet."""
        return ceil_div(self.reach, self.step)

    @property
    def used(self) -> int:
        """Elements of a block that some window meets."""
        return min(self.step, self.reach)

    def channels(self, build: Builder, x: str, axis: int) -> str:
        """Turn an axis of whole blocks into positions, with the elements of a block in axis 1."""
        split = sliced(build, _split_axis(build, x, axis, self.step), axis + 1, 0, self.used)
        return _merged(build, _moved(build, split, axis + 1, 2), 1)


def _dense(build: Builder, weights: str, axis: int, dilation: int) -> str:
    """Return weights with the zeros that a dilation leaves between them."""
    if dilation == 1:
        return weights
    shape = build.shape(weights)
    apart = reshaped(build, weights, *shape[: axis + 1], 1, *shape[axis + 1 :])
    wide = _merged(build, _filled(build, apart, axis + 1, 0, dilation - 1), axis)
    return sliced(build, wide, axis, 0, (shape[axis] - 1) * dilation + 1)


def _phases_of_weights(build: Builder, weights: str, axis: int, blocks: _Blocks) -> str:
    """Return weights [M, C, ...] as [M phases, C used, ...]."""
    parts = []
    for phase in range(blocks.phases):
        before = phase * blocks.stride
        after = blocks.kernel * blocks.step - blocks.extent - before
        part = blocks.channels(build, _filled(build, weights, axis, before, after), axis)
        parts.append(reshaped(build, part, build.shape(part)[0], 1, *build.shape(part)[1:]))
    return _merged(build, parts[0] if len(parts) == 1 else build("Concat", *parts, axis=1), 0)


def conv_of_blocks(build: Builder, call: Call, window: Window, axis: int) -> str:
    """Expand a convolution whose window is too large along a spatial axis."""
    blocks, place, count = _Blocks(window, axis), 2 + axis, call.shape(1)[0]
    begin = window.pads_begin[axis]
    length = (blocks.positions + blocks.kernel - 1) * blocks.step
    image = _filled(build, call.name(0), place, begin, length - begin - window.image[axis])
    weights = _dense(build, call.name(1), place, window.dilations[axis])
    operands = [blocks.channels(build, image, place), _phases_of_weights(build, weights, place, blocks)]
    if call.has(2):
        repeated = broadcast(build, reshaped(build, call.name(2), count, 1), (count, blocks.phases))
        operands.append(reshaped(build, repeated, count * blocks.phases))
    made = build("Conv", *operands, group=call.integer("group"), **_other_axes(window, axis))
    if blocks.phases > 1:
        shape = build.shape(made)
        apart = reshaped(build, made, shape[0], count, blocks.phases, *shape[2:])
        made = _merged(build, _moved(build, apart, 2, place + 1), place)
    return sliced(build, made, place, 0, window.output[axis])


def _other_axes(window: Window, axis: int) -> dict[str, AttrValue]:
    """Return a window's geometry along the other axes.

    Along ``axis`` it moves one by one, without padding.
    """

    def but(values: Sequence[int], there: int) -> tuple[int, ...]:
        return tuple(there if at == axis else value for at, value in enumerate(values))

    return {
        "strides": but(window.strides, 1),
        "dilations": but(window.dilations, 1),
        "pads": (*but(window.pads_begin, 0), *but(window.pads_end, 0)),
    }


# --- pools -----------------------------------------------------------------------------------------------


def pools_of_parts(build: Builder, op: str, image: str, window: Window, axis: int) -> list[tuple[str, int]]:
    """Return the pools of parts of a window without dilation that is too large along a spatial axis.

    ``image`` has its padding. Each pool comes with the number of positions of its part along that axis.
    """
    stride, size, count = window.strides[axis], window.kernel[axis], window.output[axis]
    if stride > LARGEST_STRIDE:
        starts = range(0, size, stride)
    else:
        parts = ceil_div(size, LARGEST_KERNEL)
        starts = range(0, size, ceil_div(size, parts))
    found = []
    for start in starts:
        length = min(starts.step, size - start)
        whole = start + (count - 1) * stride + length
        piece = sliced(build, image, 2 + axis, start, whole)
        pool = _pool_of_blocks if stride > LARGEST_STRIDE else _pool_of_part
        found.append((pool(build, op, piece, window, axis, length), length))
    return found


def _with(values: Sequence[int], axis: int, value: int) -> tuple[int, ...]:
    return tuple(value if at == axis else other for at, other in enumerate(values))


def _pool_of_part(build: Builder, op: str, piece: str, window: Window, axis: int, length: int) -> str:
    """Pool a window with another size along the axis."""
    return build(op, piece, kernel_shape=_with(window.kernel, axis, length), strides=window.strides)


def _pool_of_blocks(build: Builder, op: str, piece: str, window: Window, axis: int, length: int) -> str:
    """Fold blocks of a stride over the extent of the window, then pool the other axes."""
    stride, place = window.strides[axis], 2 + axis
    blocks = _split_axis(build, _filled(build, piece, place, 0, stride - length), place, stride)
    fold = "ReduceMax" if op == "MaxPool" else "ReduceMean"
    folded = build(fold, sliced(build, blocks, place + 1, 0, length), axes=(place + 1,), keepdims=0)
    if math.prod(window.kernel) == window.kernel[axis] and set(_with(window.strides, axis, 1)) == {1}:
        return folded
    kernel, strides = (_with(values, axis, 1) for values in (window.kernel, window.strides))
    return build(op, folded, kernel_shape=kernel, strides=strides)
