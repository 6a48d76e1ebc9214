"""Operators that move values without changing them: Reshape and its forms, Transpose, Concat, copies."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from compiler.graph import FLOATS, Array, Box, Shape
from compiler.operators.boxes.forms import beside_axis, elementwise, everywhere
from compiler.operators.boxes.reshaping import before_reshape
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.expansion.parts import reshaped
from compiler.operators.record import (
    Attribute,
    Call,
    Input,
    Law,
    Needs,
    Operator,
    Output,
    Types,
    register,
    rule,
)
from compiler.operators.types import ANY, INT64, axis_from_front, axis_in_range, axis_of, same_shape


def target_shape(call: Call) -> Shape | None:
    """Return the shape a Reshape asks for, 0 and -1 resolved; None if the elements do not fit it."""
    shape, wanted = call.shape(0), call.value_ints(1) or ()
    copy_zero = not call.integer("allowzero")
    if copy_zero and any(size == 0 and axis >= len(shape) for axis, size in enumerate(wanted)):
        return None
    sizes = [shape[axis] if size == 0 and copy_zero else size for axis, size in enumerate(wanted)]
    known = math.prod(size for size in sizes if size != -1)
    if -1 in sizes and (known == 0 or call.tensor(0).size % known):
        return None
    resolved = tuple(call.tensor(0).size // known if size == -1 else size for size in sizes)
    return resolved if math.prod(resolved) == call.tensor(0).size else None


@rule
def shape_is_vector(call: Call) -> str | None:
    """The operand shape must have rank 1"""
    return None if call.tensor(1).rank == 1 else f"rank {call.tensor(1).rank}"


@rule
def shape_entries_valid(call: Call) -> str | None:
    """The entries of shape must be -1 (at most once, not together with an allowed 0), 0 or a size"""
    wanted = call.value_ints(1) or ()
    mixed = call.integer("allowzero") and 0 in wanted and -1 in wanted
    valid = all(size >= -1 for size in wanted) and wanted.count(-1) <= 1 and not mixed
    return None if valid else f"shape {list(wanted)}"


@rule
def reshape_keeps_elements(call: Call) -> str | None:
    """The new shape must hold as many elements as data"""
    wanted = call.value_ints(1) or ()
    return None if target_shape(call) is not None else f"{list(call.shape(0))} to {list(wanted)}"


def _reshape_shapes(call: Call) -> tuple[Shape, ...]:
    return (target_shape(call) or (),)


def _reshape(call: Call, x: Array, shape: Array) -> tuple[Array, ...]:
    return (x.reshape(_reshape_shapes(call)[0]),)


def _needs_of_shape(shapes: Callable[[Call], tuple[Shape, ...]]) -> Needs:
    """Return the needs of an operator that gives its operand another shape."""
    return lambda call, number, box: (before_reshape(call.shape(0), shapes(call)[0], box),)


register(
    Operator(
        name="Reshape",
        since=5,
        summary="The same elements in another shape; 0 copies a size, -1 takes the rest",
        inputs=(Input("data", ANY), Input("shape", INT64, constant=True)),
        outputs=(Output("reshaped", ANY),),
        attributes=(Attribute("allowzero", "int", 0, allowed=(0, 1)),),
        rules=(shape_is_vector, shape_entries_valid, reshape_keeps_elements),
        shapes=_reshape_shapes,
        reference=_reshape,
        moves=True,
        needs=_needs_of_shape(_reshape_shapes),
        reshapes=True,
    )
)


@rule
def flatten_axis_in_range(call: Call) -> str | None:
    """axis must lie in [-r, r], r being the rank of input"""
    axis, rank = call.integer("axis"), call.tensor(0).rank
    return None if -rank <= axis <= rank else f"axis {axis} with r = {rank}"


def _flatten_shapes(call: Call) -> tuple[Shape, ...]:
    axis = axis_of(call)
    return ((math.prod(call.shape(0)[:axis]), math.prod(call.shape(0)[axis:])),)


def _flatten(call: Call, x: Array) -> tuple[Array, ...]:
    return (x.reshape(_flatten_shapes(call)[0]),)


register(
    Operator(
        name="Flatten",
        since=1,
        summary="A matrix: the axes before axis are its rows, the others its columns",
        inputs=(Input("input", ANY),),
        outputs=(Output("output", ANY),),
        attributes=(Attribute("axis", "int", 1),),
        rules=(flatten_axis_in_range,),
        shapes=_flatten_shapes,
        reference=_flatten,
        moves=True,
        needs=_needs_of_shape(_flatten_shapes),
        reshapes=True,
    )
)


def _squeeze(build: Builder, call: Call) -> tuple[str, ...]:
    shape, given = call.shape(0), call.value_ints(1)
    if given is None:
        kept = [size for size in shape if size != 1]
    else:
        gone = {axis_from_front(axis, len(shape)) for axis in given}
        kept = [size for axis, size in enumerate(shape) if axis not in gone]
    return (reshaped(build, call.name(0), *kept),)


@rule
def squeezed_axes_are_one(call: Call) -> str | None:
    """axes must lie in [-r, r-1] and name axes of size 1"""
    shape, axes = call.shape(0), call.value_ints(1) or ()
    fits = all(-len(shape) <= axis < len(shape) and shape[axis] == 1 for axis in axes)
    return None if fits else f"axes {list(axes)} of {list(shape)}"


composite(
    name="Squeeze",
    since=13,
    summary="The operand without axes of size 1",
    inputs=(Input("data", ANY), Input("axes", INT64, optional=True, constant=True)),
    outputs=(Output("squeezed", ANY),),
    expansion=_squeeze,
    rules=(squeezed_axes_are_one,),
    reshapes=True,
    moves=True,
)


@rule
def new_axes_differ(call: Call) -> str | None:
    """axes must lie in [-r, r-1], r being the rank of the result, and must not repeat"""
    axes = call.value_ints(1) or ()
    rank = call.tensor(0).rank + len(axes)
    found = {axis_from_front(axis, rank) for axis in axes}
    fits = len(found) == len(axes) and found <= set(range(rank))
    return None if fits else f"axes {list(axes)} with r = {rank}"


def _unsqueeze(build: Builder, call: Call) -> tuple[str, ...]:
    axes = call.value_ints(1) or ()
    rank, sizes = call.tensor(0).rank + len(axes), iter(call.shape(0))
    new = {axis_from_front(axis, rank) for axis in axes}
    return (reshaped(build, call.name(0), *(1 if at in new else next(sizes) for at in range(rank))),)


composite(
    name="Unsqueeze",
    since=13,
    summary="The operand with new axes of size 1",
    inputs=(Input("data", ANY), Input("axes", INT64, constant=True)),
    outputs=(Output("expanded", ANY),),
    expansion=_unsqueeze,
    rules=(new_axes_differ,),
    reshapes=True,
    moves=True,
)


def permutation(call: Call) -> tuple[int, ...]:
    """Return, for each axis of a Transpose's result, the operand's axis; without perm they are reversed."""
    given = call.integers("perm")
    return tuple(reversed(range(call.tensor(0).rank))) if given is None else given


@rule
def perm_is_permutation(call: Call) -> str | None:
    """perm must name every axis of data once, counted from the front"""
    perm, rank = permutation(call), call.tensor(0).rank
    return None if sorted(perm) == list(range(rank)) else f"perm {list(perm)} with rank {rank}"


def _transpose_shapes(call: Call) -> tuple[Shape, ...]:
    return (tuple(call.shape(0)[axis] for axis in permutation(call)),)


def _transpose(call: Call, x: Array) -> tuple[Array, ...]:
    return (x.transpose(permutation(call)),)


def _needs_of_transpose(call: Call, number: int, box: Box) -> tuple[Box, ...]:
    places = sorted(zip(permutation(call), box.intervals, strict=True))
    return (Box(tuple(interval for _, interval in places)),)


register(
    Operator(
        name="Transpose",
        since=1,
        summary="The axes in another order",
        inputs=(Input("data", ANY),),
        outputs=(Output("transposed", ANY),),
        attributes=(Attribute("perm", "ints"),),
        rules=(perm_is_permutation,),
        shapes=_transpose_shapes,
        reference=_transpose,
        moves=True,
        needs=_needs_of_transpose,
        uniform=everywhere,
    )
)


@rule
def pieces_agree(call: Call) -> str | None:
    """The operands must have one rank and agree in all sizes but that along axis"""
    shapes = [tensor.shape for tensor in call.inputs if tensor is not None]
    axis = axis_from_front(call.integer("axis"), len(shapes[0]))
    first = (*shapes[0][:axis], *shapes[0][axis + 1 :])
    for shape in shapes[1:]:
        if len(shape) != len(shapes[0]) or (*shape[:axis], *shape[axis + 1 :]) != first:
            return f"{list(shapes[0])} and {list(shape)} with axis {call.integer('axis')}"
    return None


def _concat_shapes(call: Call) -> tuple[Shape, ...]:
    shapes = [tensor.shape for tensor in call.inputs if tensor is not None]
    axis = axis_from_front(call.integer("axis"), len(shapes[0]))
    return ((*shapes[0][:axis], sum(shape[axis] for shape in shapes), *shapes[0][axis + 1 :]),)


def _concat(call: Call, *pieces: Array) -> tuple[Array, ...]:
    return (np.concatenate(pieces, axis=call.integer("axis")),)


def _needs_of_concat(call: Call, number: int, box: Box) -> tuple[Box, ...]:
    axis, before, parts = axis_of(call), 0, []
    begin, end = box.intervals[axis]
    for at in range(len(call.inputs)):
        parts.append(box.along(axis, begin - before, end - before))
        before += call.shape(at)[axis]
    return tuple(parts)


def _expand_concat(build: Builder, call: Call) -> tuple[str, ...] | None:
    """Expand by omitting operands without elements."""
    filled = [tensor.name for tensor in call.inputs if tensor is not None and tensor.size]
    if len(filled) == len(call.inputs) or not filled:
        return None
    return (build("Concat", *filled, axis=call.integer("axis")),)


register(
    Operator(
        name="Concat",
        since=4,
        summary="The operands one after the other along an axis",
        inputs=(Input("inputs", ANY, variadic=True),),
        outputs=(Output("concat_result", ANY),),
        attributes=(Attribute("axis", "int", required=True),),
        rules=(axis_in_range, pieces_agree),
        shapes=_concat_shapes,
        reference=_concat,
        moves=True,
        expansion=_expand_concat,
        needs=_needs_of_concat,
        uniform=beside_axis,
    )
)


def _identity(call: Call, x: Array) -> tuple[Array, ...]:
    return (x,)


register(
    Operator(
        name="Identity",
        since=1,
        summary="The operand",
        inputs=(Input("input", ANY),),
        outputs=(Output("output", ANY),),
        shapes=same_shape,
        reference=_identity,
        moves=True,
        needs=elementwise,
        laws=Law.EXACT | Law.RISING | Law.HOMOGENEOUS,
    )
)


@rule
def nothing_is_dropped(call: Call) -> str | None:
    """training_mode must be false, or ratio 0: dropped elements are random otherwise"""
    ratio, training = (*call.values, None, None)[1:3]
    if training is None or not training.any() or (ratio is not None and not ratio.any()):
        return None
    return f"training_mode true, ratio {0.5 if ratio is None else float(ratio.reshape(-1)[0]):g}"


def _dropout(build: Builder, call: Call) -> tuple[str, ...]:
    mask = build.constant(np.ones(call.shape(0), bool), "bool") if call.wants(1) else ""
    return (build("Identity", call.name(0)), mask)


composite(
    name="Dropout",
    since=7,
    summary="The operand: nothing is dropped in inference, nor with ratio 0",
    inputs=(
        Input("data", Types("T", FLOATS)),
        Input("ratio", Types("T1", FLOATS), optional=True, constant=True, since=12),
        Input("training_mode", Types("T2", ("bool",)), optional=True, constant=True, since=12),
    ),
    outputs=(Output("output", Types("T", FLOATS)), Output("mask", Types("T2", ("bool",)), optional=True)),
    expansion=_dropout,
    attributes=(Attribute("ratio", "float", 0.5, until=11), Attribute("seed", "int", since=12)),
    rules=(nothing_is_dropped,),
)
