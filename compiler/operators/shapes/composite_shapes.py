"""Composite operators that split, repeat, select and rearrange; those that know their result beforehand."""

from __future__ import annotations

import math

import numpy as np

from compiler.graph import DTYPES, FLOATS, Shape
from compiler.operators.elements.casting import CAST_NUMBERS, NUMBERS
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.expansion.parts import reshaped, sliced
from compiler.operators.record import Attribute, Call, Input, Output, Rule, Types, rule
from compiler.operators.types import ANY, INT64, axis_from_front, axis_in_range, rank_within

_ELEMENT = Types("T1", tuple(DTYPES))
_OTHER = Types("T2", tuple(DTYPES))
_LENGTH = Types("T1", ("int64",))


# --- Split, Squeeze, Unsqueeze ---------------------------------------------------------------------------


def split_sizes(call: Call) -> tuple[int, ...]:
    """The sizes of the pieces of a Split along its axis."""
    given, count = call.value_ints(1), len(call.outputs)
    if given is not None:
        return given
    size = call.shape(0)[axis_from_front(call.integer("axis"), call.tensor(0).rank)]
    chunk = -(-size // count)
    return tuple(max(0, min(chunk, size - at * chunk)) for at in range(count))


@rule
def pieces_fill_the_axis(call: Call) -> str | None:
    """The pieces must be as many as the outputs and together as long as the axis"""
    sizes, size = split_sizes(call), call.shape(0)[axis_from_front(call.integer("axis"), call.tensor(0).rank)]
    fits = len(sizes) == len(call.outputs) and sum(sizes) == size and min(sizes) >= 0
    return None if fits else f"pieces {list(sizes)}, {len(call.outputs)} outputs, axis of {size}"


def _split(build: Builder, call: Call) -> tuple[str, ...]:
    axis = axis_from_front(call.integer("axis"), call.tensor(0).rank)
    ends = np.cumsum(split_sizes(call)).tolist()
    starts = [0, *ends[:-1]]
    return tuple(
        sliced(build, call.name(0), axis, start, end) for start, end in zip(starts, ends, strict=True)
    )


composite(
    name="Split",
    since=13,
    summary="The operand in pieces along an axis",
    inputs=(Input("input", ANY), Input("split", INT64, optional=True, constant=True)),
    outputs=(Output("outputs", ANY, variadic=True),),
    expansion=_split,
    attributes=(Attribute("axis", "int", 0), Attribute("num_outputs", "int", minimum=1, since=18)),
    rules=(axis_in_range, pieces_fill_the_axis),
)


def _squeeze(build: Builder, call: Call) -> tuple[str, ...]:
    shape, given = call.shape(0), call.value_ints(1)
    gone = (
        [axis for axis, size in enumerate(shape) if size == 1]
        if given is None
        else [axis_from_front(axis, len(shape)) for axis in given]
    )
    return (reshaped(build, call.name(0), *(size for axis, size in enumerate(shape) if axis not in gone)),)


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
)


@rule
def new_axes_differ(call: Call) -> str | None:
    """axes must lie in [-r, r-1], r being the rank of the result, and must not repeat"""
    axes = call.value_ints(1) or ()
    rank = call.tensor(0).rank + len(axes)
    found = {axis_from_front(axis, rank) for axis in axes}
    return (
        None
        if len(found) == len(axes) and found <= set(range(rank))
        else f"axes {list(axes)} with r = {rank}"
    )


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
)


# --- known beforehand ------------------------------------------------------------------------------------


def _shape(build: Builder, call: Call) -> tuple[str, ...]:
    end = call.attrs.get("end")
    assert end is None or isinstance(end, int)
    return (build.ints(*call.shape(0)[slice(call.integer("start"), end)]),)


composite(
    name="Shape",
    since=15,
    summary="The sizes of the operand's axes",
    inputs=(Input("data", _ELEMENT.named("T")),),
    outputs=(Output("shape", _LENGTH),),
    expansion=_shape,
    attributes=(Attribute("start", "int", 0), Attribute("end", "int")),
)


def _size(build: Builder, call: Call) -> tuple[str, ...]:
    return (build.constant(np.array(call.tensor(0).size), "int64"),)


composite(
    name="Size",
    since=13,
    summary="How many elements the operand has",
    inputs=(Input("data", _ELEMENT.named("T")),),
    outputs=(Output("size", _LENGTH),),
    expansion=_size,
)


def _eye(build: Builder, call: Call) -> tuple[str, ...]:
    rows, columns = call.shape(0)
    number = call.attrs.get("dtype")
    dtype = NUMBERS[number] if isinstance(number, int) else call.tensor(0).dtype
    return (build.constant(np.eye(rows, columns, call.integer("k")), dtype),)


@rule
def dtype_is_known(call: Call) -> str | None:
    """dtype must be the number of float32, float16, bfloat16, int8, uint8, int32, int64 or bool"""
    return None if call.attrs.get("dtype", 1) in NUMBERS else f"dtype {call.attrs['dtype']}"


composite(
    name="EyeLike",
    since=9,
    summary="Ones on a diagonal of a matrix like the operand",
    inputs=(Input("input", _ELEMENT),),
    outputs=(Output("output", _OTHER),),
    expansion=_eye,
    attributes=(Attribute("dtype", "int"), Attribute("k", "int", 0)),
    rules=(rank_within("input", 2, 2, "a matrix"), dtype_is_known),
)


def single_values(*positions: int) -> Rule:
    """The rule that operands at some positions have one element."""

    def check(call: Call) -> str | None:
        wrong = [call.tensor(at) for at in positions if call.has(at) and call.tensor(at).size != 1]
        return f"'{wrong[0].name}' {list(wrong[0].shape)}" if wrong else None

    return Rule("Operands that give a number must have one element", check)


@rule
def delta_not_zero(call: Call) -> str | None:
    """delta must not be 0"""
    delta = call.values[2]
    return "delta 0" if delta is not None and not delta.any() else None


@rule
def range_is_finite(call: Call) -> str | None:
    """start, limit and delta must be finite"""
    numbers = [float(v.reshape(())) for v in call.values[:3] if v is not None]
    return None if all(map(math.isfinite, numbers)) else f"{numbers}"


def _range_result(call: Call) -> tuple[str, Shape]:
    start, limit, delta = (float(v.reshape(())) for v in call.values[:3] if v is not None)
    return call.tensor(0).dtype, (max(math.ceil((limit - start) / delta), 0),)


def _range(build: Builder, call: Call) -> tuple[str, ...]:
    start, _, delta = (float(v.reshape(())) for v in call.values[:3] if v is not None)
    dtype, (count,) = _range_result(call)
    return (build.constant(start + delta * np.arange(count), dtype),)


_RANGE = Types("T", ("float32", "float16", "bfloat16", "int32", "int64"))
composite(
    name="Range",
    since=11,
    summary="Numbers from start to below limit in steps of delta",
    inputs=tuple(Input(name, _RANGE, constant=True) for name in ("start", "limit", "delta")),
    outputs=(Output("output", _RANGE),),
    expansion=_range,
    attributes=(Attribute("stash_type", "int", 1, since=27),),
    rules=(single_values(0, 1, 2), delta_not_zero, range_is_finite),
    result=_range_result,
)


# --- the same values -------------------------------------------------------------------------------------


@rule
def inference(call: Call) -> str | None:
    """training_mode must be false: only inference is supported"""
    value = call.values[2] if len(call.values) > 2 else None
    return "training_mode true" if value is not None and bool(value.any()) else None


def _dropout(build: Builder, call: Call) -> tuple[str, ...]:
    mask = build.constant(np.ones(call.shape(0), bool), "bool") if call.wants(1) else ""
    return (build("Identity", call.name(0)), mask)


composite(
    name="Dropout",
    since=7,
    summary="The operand: nothing is dropped in inference",
    inputs=(
        Input("data", Types("T", FLOATS)),
        Input("ratio", Types("T1", FLOATS), optional=True, constant=True, since=12),
        Input("training_mode", Types("T2", ("bool",)), optional=True, constant=True, since=12),
    ),
    outputs=(Output("output", Types("T", FLOATS)), Output("mask", Types("T2", ("bool",)), optional=True)),
    expansion=_dropout,
    attributes=(Attribute("ratio", "float", 0.5, until=11), Attribute("seed", "int", since=12)),
    rules=(inference,),
)


def _cast_like(build: Builder, call: Call) -> tuple[str, ...]:
    return (build("Cast", call.name(0), to=CAST_NUMBERS[call.tensor(1).dtype]),)


composite(
    name="CastLike",
    since=15,
    summary="The operand in the element type of another",
    inputs=(Input("input", _ELEMENT), Input("target_type", _OTHER)),
    outputs=(Output("output", _OTHER),),
    expansion=_cast_like,
    attributes=(
        Attribute("saturate", "int", 1, allowed=(0, 1), since=19),
        Attribute("round_mode", "string", "up", allowed=("up", "down", "nearest"), since=24),
    ),
)
