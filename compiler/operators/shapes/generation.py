"""Operators that generate values from sizes, numbers and indices: shapes, ranges, masks, one-hot vectors."""

from __future__ import annotations

import math

import numpy as np

from compiler.graph import DTYPES, FLOATS, INTEGERS, Shape
from compiler.operators.boxes.forms import everywhere
from compiler.operators.elements.casting import CAST_NUMBERS, NUMBERS
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.expansion.parts import reshaped, sliced
from compiler.operators.record import Attribute, Call, Input, Output, Rule, Types, rule
from compiler.operators.types import ANY, INT64, axis_from_front, rank_within

_ELEMENT = Types("T1", tuple(DTYPES))
_RESULT = Types("T2", tuple(DTYPES))
_LENGTH = Types("T1", ("int64",))


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
    summary="The number of elements of the operand",
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
    """dtype must be the number of float32, float16, bfloat16, int8, uint8, int16, uint16, int32, uint32,
    int64 or bool"""
    return None if call.attrs.get("dtype", 1) in NUMBERS else f"dtype {call.attrs['dtype']}"


composite(
    name="EyeLike",
    since=9,
    summary="Ones on a diagonal of a matrix like the operand",
    inputs=(Input("input", _ELEMENT),),
    outputs=(Output("output", _RESULT),),
    expansion=_eye,
    attributes=(Attribute("dtype", "int"), Attribute("k", "int", 0)),
    rules=(rank_within("input", 2, 2, "a matrix"), dtype_is_known),
)


def single_values(*positions: int) -> Rule:
    """Make the rule that operands at some positions have one element."""

    def check(call: Call) -> str | None:
        wrong = [call.tensor(at) for at in positions if call.has(at) and call.tensor(at).size != 1]
        return f"'{wrong[0].name}' {list(wrong[0].shape)}" if wrong else None

    return Rule("Operands that give a number must have one element", check)


@rule
def delta_not_zero(call: Call) -> str | None:
    """delta must not be 0"""
    delta = call.values[2]
    return "delta 0" if delta is not None and not delta.any() else None


def _numbers(call: Call) -> list[int | float]:
    """Return start, limit and delta of a Range; integers stay integers, because binary64 does not hold all of
    int64."""
    return [value.reshape(()).item() for value in call.values[:3] if value is not None]


@rule
def range_is_finite(call: Call) -> str | None:
    """start, limit and delta must be finite"""
    numbers = _numbers(call)
    return None if all(map(math.isfinite, numbers)) else f"{numbers}"


def _range_result(call: Call) -> tuple[str, Shape]:
    start, limit, delta = _numbers(call)
    steps = (limit - start) / delta if call.tensor(0).is_float else -((start - limit) // delta)
    return call.tensor(0).dtype, (max(math.ceil(steps), 0),)


def _range(build: Builder, call: Call) -> tuple[str, ...]:
    start, _, delta = _numbers(call)
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


def _trilu(build: Builder, call: Call) -> tuple[str, ...]:
    name, diagonal = call.name(0), (call.value_ints(1) or (0,))[0]
    triangle = np.triu if call.integer("upper") else np.tril
    kept = triangle(np.ones(call.shape(0)[-2:], bool), diagonal)
    return (build("Where", build.constant(kept, "bool"), name, build.like(name, 0)),)


composite(
    name="Trilu",
    since=14,
    summary="The upper or lower triangle of matrices, zero elsewhere",
    inputs=(Input("input", ANY), Input("k", INT64, optional=True, constant=True)),
    outputs=(Output("output", ANY),),
    expansion=_trilu,
    attributes=(Attribute("upper", "int", 1, allowed=(0, 1)),),
    rules=(rank_within("input", 2, None, "matrices"),),
)


_NOT_BFLOAT = ("float32", "float16", *INTEGERS)
_VALUES = Types("T3", (*FLOATS, *INTEGERS, "bool"))


def _depth(call: Call) -> int:
    """Return the constant operand depth of a OneHot."""
    return int(call.values[1].reshape(())) if call.values[1] is not None else 0


def _one_hot_result(call: Call) -> tuple[str, Shape]:
    shape, axis = call.shape(0), axis_from_front(call.integer("axis"), call.tensor(0).rank + 1)
    return call.tensor(2).dtype, (*shape[:axis], max(_depth(call), 0), *shape[axis:])


def _one_hot(build: Builder, call: Call) -> tuple[str, ...]:
    depth = max(_depth(call), 0)
    rank = call.tensor(0).rank
    axis = axis_from_front(call.integer("axis"), rank + 1)
    indices = build("Cast", call.name(0), to=CAST_NUMBERS["int64"])
    shape = call.shape(0)
    indices = reshaped(build, indices, *shape[:axis], 1, *shape[axis:])
    places = np.arange(depth).reshape(depth, *(1,) * (rank - axis))
    # An index may count from the end.
    hits = [build("Equal", indices, build.constant(at, "int64")) for at in (places, places - depth)]
    values = call.name(2)
    off, on = (reshaped(build, sliced(build, values, 0, at, at + 1)) for at in (0, 1))
    return (build("Where", build("Or", *hits), on, off),)


@rule
def two_values(call: Call) -> str | None:
    """values must be two numbers"""
    return None if call.shape(2) == (2,) else f"shape {list(call.shape(2))}"


@rule
def one_hot_axis(call: Call) -> str | None:
    """axis must lie in [-r-1, r], r being the rank of indices"""
    rank, axis = call.tensor(0).rank, call.integer("axis")
    return None if -rank - 1 <= axis <= rank else f"axis {axis} with r = {rank}"


composite(
    name="OneHot",
    since=11,
    summary="One of two values: the second where the position along axis is the index, otherwise the first",
    inputs=(
        Input("indices", Types("T1", _NOT_BFLOAT)),
        Input("depth", Types("T2", _NOT_BFLOAT), constant=True),
        Input("values", _VALUES),
    ),
    outputs=(Output("output", _VALUES),),
    expansion=_one_hot,
    attributes=(Attribute("axis", "int", -1),),
    rules=(single_values(1), two_values, one_hot_axis),
    result=_one_hot_result,
    uniform=everywhere,
)
