"""Composite operators that split, repeat, select and rearrange; those that know their result beforehand."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from compiler.graph import DTYPES, FLOATS, Shape
from compiler.operators.elements.casting import CAST_NUMBERS, NUMBERS
from compiler.operators.expansion import Builder, Expansion, composite, not_computed, not_inferred
from compiler.operators.parts import cut, reshaped
from compiler.operators.record import Attribute, Call, Input, Operator, Output, Rule, Types, rule
from compiler.operators.types import ANY, INT64, axis_in_range, normalized, rank_within

_ELEMENT = Types("T1", tuple(DTYPES))
_OTHER = Types("T2", tuple(DTYPES))
_LENGTH = Types("T1", ("int64",))


def _operator(
    name: str,
    since: int,
    summary: str,
    inputs: tuple[Input, ...],
    outputs: tuple[Output, ...],
    expansion: Expansion,
    attributes: tuple[Attribute, ...] = (),
    rules: tuple[Rule, ...] = (),
    precise: bool = False,
    result: Callable[[Call], tuple[str, Shape]] | None = None,
) -> Operator:
    """``result``: dtype and shape of the only result, known before anything is expanded."""
    return composite(
        Operator(
            name=name,
            since=since,
            summary=summary,
            inputs=inputs,
            outputs=outputs,
            shapes=not_inferred if result is None else lambda call: (result(call)[1],),
            dtypes=None if result is None else lambda call: (result(call)[0],),
            reference=not_computed,
            attributes=attributes,
            rules=rules,
            expansion=expansion,
            precise=precise,
        )
    )


def name_of(call: Call, index: int) -> str:
    """The name of an operand, empty if it was left away."""
    return call.tensor(index).name if call.has(index) else ""


# --- Split, Squeeze, Unsqueeze ---------------------------------------------------------------------------


def split_sizes(call: Call) -> tuple[int, ...]:
    """The sizes of the pieces of a Split along its axis."""
    given, count = call.value_ints(1), len(call.outputs)
    if given is not None:
        return given
    size = call.shape(0)[normalized(call.integer("axis"), call.tensor(0).rank)]
    chunk = -(-size // count)
    return tuple(max(0, min(chunk, size - at * chunk)) for at in range(count))


@rule
def pieces_fill_the_axis(call: Call) -> str | None:
    """The pieces must be as many as the outputs and together as long as the axis"""
    sizes, size = split_sizes(call), call.shape(0)[normalized(call.integer("axis"), call.tensor(0).rank)]
    fits = len(sizes) == len(call.outputs) and sum(sizes) == size and min(sizes) >= 0
    return None if fits else f"pieces {list(sizes)}, {len(call.outputs)} outputs, axis of {size}"


def _split(b: Builder, call: Call) -> tuple[str, ...]:
    axis = normalized(call.integer("axis"), call.tensor(0).rank)
    ends = np.cumsum(split_sizes(call)).tolist()
    starts = [0, *ends[:-1]]
    return tuple(cut(b, name_of(call, 0), axis, start, end) for start, end in zip(starts, ends, strict=True))


_operator(
    "Split",
    13,
    "The operand in pieces along an axis",
    (Input("input", ANY), Input("split", INT64, optional=True, constant=True)),
    (Output("outputs", ANY, variadic=True),),
    _split,
    (Attribute("axis", "int", 0), Attribute("num_outputs", "int", minimum=1, since=18)),
    (axis_in_range, pieces_fill_the_axis),
)


def _squeeze(b: Builder, call: Call) -> tuple[str, ...]:
    shape, given = call.shape(0), call.value_ints(1)
    gone = (
        [axis for axis, size in enumerate(shape) if size == 1]
        if given is None
        else [normalized(axis, len(shape)) for axis in given]
    )
    return (reshaped(b, name_of(call, 0), *(size for axis, size in enumerate(shape) if axis not in gone)),)


@rule
def squeezed_axes_are_one(call: Call) -> str | None:
    """axes must lie in [-r, r-1] and name axes of size 1"""
    shape, axes = call.shape(0), call.value_ints(1) or ()
    fits = all(-len(shape) <= axis < len(shape) and shape[axis] == 1 for axis in axes)
    return None if fits else f"axes {list(axes)} of {list(shape)}"


_operator(
    "Squeeze",
    13,
    "The operand without axes of size 1",
    (Input("data", ANY), Input("axes", INT64, optional=True, constant=True)),
    (Output("squeezed", ANY),),
    _squeeze,
    rules=(squeezed_axes_are_one,),
)


@rule
def new_axes_differ(call: Call) -> str | None:
    """axes must lie in [-r, r-1], r being the rank of the result, and must not repeat"""
    axes = call.value_ints(1) or ()
    rank = call.tensor(0).rank + len(axes)
    found = {normalized(axis, rank) for axis in axes}
    return (
        None
        if len(found) == len(axes) and found <= set(range(rank))
        else f"axes {list(axes)} with r = {rank}"
    )


def _unsqueeze(b: Builder, call: Call) -> tuple[str, ...]:
    axes = call.value_ints(1) or ()
    rank, sizes = call.tensor(0).rank + len(axes), iter(call.shape(0))
    new = {normalized(axis, rank) for axis in axes}
    return (reshaped(b, name_of(call, 0), *(1 if at in new else next(sizes) for at in range(rank))),)


_operator(
    "Unsqueeze",
    13,
    "The operand with new axes of size 1",
    (Input("data", ANY), Input("axes", INT64, constant=True)),
    (Output("expanded", ANY),),
    _unsqueeze,
    rules=(new_axes_differ,),
)


# --- known beforehand ------------------------------------------------------------------------------------


def _shape(b: Builder, call: Call) -> tuple[str, ...]:
    end = call.attrs.get("end")
    assert end is None or isinstance(end, int)
    return (b.ints(*call.shape(0)[slice(call.integer("start"), end)]),)


_operator(
    "Shape",
    15,
    "The sizes of the operand's axes",
    (Input("data", _ELEMENT.named("T")),),
    (Output("shape", _LENGTH),),
    _shape,
    (Attribute("start", "int", 0), Attribute("end", "int")),
)


def _size(b: Builder, call: Call) -> tuple[str, ...]:
    return (b.constant(np.array(call.tensor(0).size), "int64"),)


_operator(
    "Size",
    13,
    "How many elements the operand has",
    (Input("data", _ELEMENT.named("T")),),
    (Output("size", _LENGTH),),
    _size,
)


def _eye(b: Builder, call: Call) -> tuple[str, ...]:
    rows, columns = call.shape(0)
    number = call.attrs.get("dtype")
    dtype = NUMBERS[number] if isinstance(number, int) else call.tensor(0).dtype
    return (b.constant(np.eye(rows, columns, call.integer("k")), dtype),)


@rule
def dtype_is_known(call: Call) -> str | None:
    """dtype must be the number of float32, float16, bfloat16, int8, uint8, int32, int64 or bool"""
    return None if call.attrs.get("dtype", 1) in NUMBERS else f"dtype {call.attrs['dtype']}"


_operator(
    "EyeLike",
    9,
    "Ones on a diagonal of a matrix like the operand",
    (Input("input", _ELEMENT),),
    (Output("output", _OTHER),),
    _eye,
    (Attribute("dtype", "int"), Attribute("k", "int", 0)),
    (rank_within("input", 2, 2, "a matrix"), dtype_is_known),
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


def _range(b: Builder, call: Call) -> tuple[str, ...]:
    start, _, delta = (float(v.reshape(())) for v in call.values[:3] if v is not None)
    dtype, (count,) = _range_result(call)
    return (b.constant(start + delta * np.arange(count), dtype),)


_RANGE = Types("T", ("float32", "float16", "bfloat16", "int32", "int64"))
_operator(
    "Range",
    11,
    "Numbers from start to below limit in steps of delta",
    tuple(Input(name, _RANGE, constant=True) for name in ("start", "limit", "delta")),
    (Output("output", _RANGE),),
    _range,
    (Attribute("stash_type", "int", 1, since=27),),
    (single_values(0, 1, 2), delta_not_zero, range_is_finite),
    result=_range_result,
)


# --- the same values -------------------------------------------------------------------------------------


@rule
def inference(call: Call) -> str | None:
    """training_mode must be false: only inference is supported"""
    value = call.values[2] if len(call.values) > 2 else None
    return "training_mode true" if value is not None and bool(value.any()) else None


def _dropout(b: Builder, call: Call) -> tuple[str, ...]:
    mask = b.constant(np.ones(call.shape(0), bool), "bool") if call.wants(1) else ""
    return (b("Identity", name_of(call, 0)), mask)


_operator(
    "Dropout",
    7,
    "The operand: nothing is dropped in inference",
    (
        Input("data", Types("T", FLOATS)),
        Input("ratio", Types("T1", FLOATS), optional=True, constant=True, since=12),
        Input("training_mode", Types("T2", ("bool",)), optional=True, constant=True, since=12),
    ),
    (Output("output", Types("T", FLOATS)), Output("mask", Types("T2", ("bool",)), optional=True)),
    _dropout,
    (Attribute("ratio", "float", 0.5, until=11), Attribute("seed", "int", since=12)),
    (inference,),
)


def _cast_like(b: Builder, call: Call) -> tuple[str, ...]:
    return (b("Cast", name_of(call, 0), to=CAST_NUMBERS[call.tensor(1).dtype]),)


_operator(
    "CastLike",
    15,
    "The operand in the element type of another",
    (Input("input", _ELEMENT), Input("target_type", _OTHER)),
    (Output("output", _OTHER),),
    _cast_like,
    (
        Attribute("saturate", "int", 1, allowed=(0, 1), since=19),
        Attribute("round_mode", "string", "up", allowed=("up", "down", "nearest"), since=24),
    ),
)
