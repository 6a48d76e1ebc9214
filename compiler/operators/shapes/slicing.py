"""Slice, Pad and Split: operators that cut and extend tensors along axes given by constant operands."""

from __future__ import annotations

import numpy as np

from compiler.graph import Array, Box, Shape
from compiler.operators.boxes.forms import everywhere, span_of
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.expansion.parts import gathered, sliced
from compiler.operators.record import Attribute, Call, Input, Operator, Output, register, rule
from compiler.operators.types import ANY, INDEX, INT64, axis_from_front, axis_in_range, axis_of


def _chosen_axes(call: Call, index: int, count: int) -> tuple[int, ...]:
    """Return the axes that operand ``index`` names, as given; the first ``count`` if it was omitted."""
    given = call.value_ints(index)
    return tuple(range(count)) if given is None else given


def _axes_problem(axes: tuple[int, ...], rank: int) -> str | None:
    """Return None if the axes exist and differ, else the value found."""
    distinct = {axis_from_front(axis, rank) for axis in axes}
    if len(distinct) == len(axes) and all(0 <= axis < rank for axis in distinct):
        return None
    return f"axes {list(axes)} with r = {rank}"


def slice_operands(call: Call) -> list[tuple[int, int, int, int]]:
    """Return the axes of a Slice, each with its start, end and step as the node gives them."""
    starts, ends = call.value_ints(1) or (), call.value_ints(2) or ()
    axes = _chosen_axes(call, 3, len(starts))
    steps = call.value_ints(4) or (1,) * len(starts)
    return list(zip(axes, starts, ends, steps, strict=True))


def slice_ranges(call: Call) -> tuple[range, ...]:
    """Return the indices that a Slice takes along each axis.

    They are clamped as ONNX Slice 13 says, which differs from Python in one case. A backward slice that
    starts before the first element begins at the first element, where Python takes nothing.
    """
    ranges = [range(size) for size in call.shape(0)]
    for axis, start, end, step in slice_operands(call):
        size = call.shape(0)[axis]
        lowest, highest = (0, size) if step > 0 else (-1, size - 1)
        begin = min(max(start + size if start < 0 else start, 0), highest)
        stop = min(max(end + size if end < 0 else end, lowest), highest)
        ranges[axis] = range(begin, stop, step)
    return tuple(ranges)


@rule
def slice_operands_are_vectors(call: Call) -> str | None:
    """starts, ends, axes and steps must have rank 1 and one length"""
    shapes = [tensor.shape for tensor in call.inputs[1:] if tensor is not None]
    agree = all(len(shape) == 1 and shape == shapes[0] for shape in shapes)
    return None if agree else "shapes " + ", ".join(str(list(shape)) for shape in shapes)


@rule
def slice_axes_valid(call: Call) -> str | None:
    """axes must lie in [-r, r-1], r being the rank of data, and must not repeat"""
    return _axes_problem(_chosen_axes(call, 3, call.shape(1)[0]), call.tensor(0).rank)


@rule
def steps_not_zero(call: Call) -> str | None:
    """steps must not be 0"""
    steps = call.value_ints(4) or ()
    return f"steps {list(steps)}" if 0 in steps else None


def _slice_shapes(call: Call) -> tuple[Shape, ...]:
    return (tuple(len(taken) for taken in slice_ranges(call)),)


def _slice(call: Call, x: Array, *_: Array | None) -> tuple[Array, ...]:
    return (x[np.ix_(*(np.arange(r.start, r.stop, r.step) for r in slice_ranges(call)))],)


def _needs_of_slice(call: Call, number: int, box: Box) -> tuple[Box, ...]:
    chosen = (taken[begin:end] for taken, (begin, end) in zip(slice_ranges(call), box.intervals, strict=True))
    return (Box(tuple((min(taken), max(taken) + 1) for taken in chosen)),)


def _expand_slice(build: Builder, call: Call) -> tuple[str, ...] | None:
    """Expand axes with a negative step to gathers by known indices; the lowering takes positive steps."""
    ranges, x = slice_ranges(call), call.name(0)
    if all(chosen.step > 0 for chosen in ranges):
        return None
    for axis, chosen in enumerate(ranges):
        if chosen.step < 0:
            x = build("Gather", x, build.constant(np.array(chosen), "int64"), axis=axis)
        elif chosen != range(call.shape(0)[axis]):
            x = sliced(build, x, axis, chosen.start, chosen.stop, chosen.step)
    return (x,)


register(
    Operator(
        name="Slice",
        since=10,
        summary="Every step-th element from start to end (exclusive) along chosen axes",
        inputs=(
            Input("data", ANY),
            Input("starts", INDEX, constant=True),
            Input("ends", INDEX, constant=True),
            Input("axes", INDEX, optional=True, constant=True),
            Input("steps", INDEX, optional=True, constant=True),
        ),
        outputs=(Output("output", ANY),),
        rules=(slice_operands_are_vectors, slice_axes_valid, steps_not_zero),
        shapes=_slice_shapes,
        reference=_slice,
        moves=True,
        expansion=_expand_slice,
        needs=_needs_of_slice,
        uniform=everywhere,
    )
)


def split_sizes(call: Call) -> tuple[int, ...]:
    """Return the sizes of the pieces of a Split along its axis."""
    given, count = call.value_ints(1), len(call.outputs)
    if given is not None:
        return given
    size = call.shape(0)[axis_of(call)]
    chunk = -(-size // count)
    return tuple(max(0, min(chunk, size - at * chunk)) for at in range(count))


@rule
def pieces_fill_the_axis(call: Call) -> str | None:
    """The pieces must be as many as the outputs and together as long as the axis"""
    sizes, size = split_sizes(call), call.shape(0)[axis_of(call)]
    fits = len(sizes) == len(call.outputs) and sum(sizes) == size and min(sizes) >= 0
    return None if fits else f"pieces {list(sizes)}, {len(call.outputs)} outputs, axis of {size}"


def _split(build: Builder, call: Call) -> tuple[str, ...]:
    axis = axis_of(call)
    ends = np.cumsum(split_sizes(call)).tolist()
    starts = [0, *ends[:-1]]
    pieces = zip(starts, ends, strict=True)
    return tuple(sliced(build, call.name(0), axis, start, end) for start, end in pieces)


composite(
    name="Split",
    since=13,
    summary="The operand in pieces along an axis",
    inputs=(Input("input", ANY), Input("split", INT64, optional=True, constant=True)),
    outputs=(Output("outputs", ANY, variadic=True),),
    expansion=_split,
    attributes=(Attribute("axis", "int", 0), Attribute("num_outputs", "int", minimum=1, since=18)),
    rules=(axis_in_range, pieces_fill_the_axis),
    moves=True,
    uniform=everywhere,
)


def pad_widths(call: Call) -> tuple[tuple[int, int], ...]:
    """Return the numbers of elements that a Pad adds before and after each axis.

    A negative number cuts off.
    """
    pads = call.value_ints(1) or ()
    half = len(pads) // 2
    widths = [(0, 0)] * call.tensor(0).rank
    for position, axis in enumerate(_chosen_axes(call, 3, half)):
        widths[axis] = (pads[position], pads[half + position])
    return tuple(widths)


@rule
def pad_axes_valid(call: Call) -> str | None:
    """axes must lie in [-r, r-1], r being the rank of data, and must not repeat"""
    return _axes_problem(call.value_ints(3) or (), call.tensor(0).rank)


@rule
def pads_length(call: Call) -> str | None:
    """pads must have two entries per axis, or per element of axes if given"""
    count = call.tensor(0).rank if not call.has(3) else call.tensor(3).size
    return None if call.shape(1) == (2 * count,) else f"shape {list(call.shape(1))} with {count} axes"


@rule
def pad_value_is_scalar(call: Call) -> str | None:
    """constant_value must have one element"""
    return f"shape {list(call.shape(2))}" if call.has(2) and call.tensor(2).size != 1 else None


@rule
def cut_leaves_something(call: Call) -> str | None:
    """Negative pads must not cut off more than there is"""
    for axis, (begin, end) in enumerate(pad_widths(call)):
        size = call.shape(0)[axis]
        if size + min(begin, 0) + min(end, 0) < 0:
            return f"pads {begin} and {end} on axis {axis} of size {size}"
    return None


@rule
def something_to_repeat(call: Call) -> str | None:
    """Only mode constant pads a tensor that has, after the cuts, no elements"""
    widths = zip(call.shape(0), pad_widths(call), strict=True)
    left = [size + min(begin, 0) + min(end, 0) for size, (begin, end) in widths]
    empty = call.string("mode") != "constant" and 0 in left
    return f"mode {call.string('mode')}, sizes {left}" if empty else None


def _pad_shapes(call: Call) -> tuple[Shape, ...]:
    sizes = zip(call.shape(0), pad_widths(call), strict=True)
    return (tuple(begin + size + end for size, (begin, end) in sizes),)


def _pad(
    call: Call, x: Array, pads: Array, value: Array | None = None, axes: Array | None = None
) -> tuple[Array, ...]:
    widths = pad_widths(call)
    sizes = zip(x.shape, widths, strict=True)
    kept = x[tuple(slice(max(-begin, 0), size - max(-end, 0)) for size, (begin, end) in sizes)]
    if call.string("mode") != "constant" and widths:
        added = [(max(begin, 0), max(end, 0)) for begin, end in widths]
        return (np.pad(kept, added, mode=call.string("mode")),)  # type: ignore[call-overload]
    result = np.full(_pad_shapes(call)[0], 0 if value is None else value.reshape(()), x.dtype)
    firsts = [max(begin, 0) for begin, _ in widths]
    inner = zip(firsts, kept.shape, strict=True)
    result[tuple(slice(first, first + size) for first, size in inner)] = kept
    return (result,)


def _taken(size: int, widths: tuple[int, int], mode: str) -> Array:
    """Return the elements of an axis that a Pad in a mode other than constant puts one after another."""
    begin, end = widths
    kept = np.arange(size)[max(-begin, 0) : size - max(-end, 0)]
    return np.pad(kept, (max(begin, 0), max(end, 0)), mode=mode)  # type: ignore[call-overload,no-any-return]


def _needs_of_pad(call: Call, number: int, box: Box) -> tuple[Box | None, ...]:
    mode, intervals = call.string("mode"), []
    for size, widths, (begin, end) in zip(call.shape(0), pad_widths(call), box.intervals, strict=True):
        if mode == "constant" or widths == (0, 0):
            intervals.append((begin - widths[0], end - widths[0]))
        else:
            intervals.append(span_of(_taken(size, widths, mode)[begin:end], size))
    kept = Box(tuple(intervals))
    is_padded = kept.within(call.shape(0)) != kept
    return (kept, None, Box.whole(call.shape(2)) if is_padded and call.has(2) else None)


def _expand_pad(build: Builder, call: Call) -> tuple[str, ...] | None:
    """Expand padding with elements of the operand to gathers by known indices, axis after axis."""
    mode, x = call.string("mode"), call.name(0)
    if mode == "constant":
        return None
    for axis, (begin, end) in enumerate(pad_widths(call)):
        if begin or end:
            x = gathered(build, x, axis, _taken(call.shape(0)[axis], (begin, end), mode))
    return (x,)


register(
    Operator(
        name="Pad",
        since=11,
        summary="A constant before and after the elements along chosen axes; negative pads cut off",
        inputs=(
            Input("data", ANY),
            Input("pads", INT64, constant=True),
            Input("constant_value", ANY, optional=True),
            Input("axes", INDEX, optional=True, constant=True, since=18),
        ),
        outputs=(Output("output", ANY),),
        attributes=(
            Attribute("mode", "string", "constant", allowed=("constant", "reflect", "edge", "wrap")),
        ),
        rules=(pad_axes_valid, pads_length, pad_value_is_scalar, cut_leaves_something, something_to_repeat),
        shapes=_pad_shapes,
        reference=_pad,
        moves=True,
        expansion=_expand_pad,
        needs=_needs_of_pad,
    )
)
