"""Composite operators of arithmetic: powers, limits, reductions, normalizations, the largest elements."""

from __future__ import annotations

import numpy as np

from compiler.graph import FLOATS, INTEGERS, Array
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import Expansion, composite
from compiler.operators.expansion.parts import reshaped
from compiler.operators.record import Attribute, Call, Input, Operator, Output, Types, register, rule
from compiler.operators.types import (
    FLOAT,
    INT64,
    NUMERIC,
    axis_from_front,
    axis_in_range,
    broadcast_shapes,
    same_shape,
)

from .casting import CAST_NUMBERS
from .elementwise import operands_broadcast


def _clip(build: Builder, call: Call) -> tuple[str, ...]:
    x = call.name(0)
    if call.has(1):
        x = build("Max", x, call.name(1))
    if call.has(2):
        x = build("Min", x, call.name(2))
    return (x,)


@rule
def limits_are_scalars(call: Call) -> str | None:
    """min and max must have one element and rank 0"""
    wrong = [t for t in call.inputs[1:] if t is not None and t.rank]
    return f"'{wrong[0].name}' {list(wrong[0].shape)}" if wrong else None


composite(
    name="Clip",
    since=12,
    summary="The operand between two limits",
    inputs=(
        Input("input", NUMERIC),
        Input("min", NUMERIC, optional=True),
        Input("max", NUMERIC, optional=True),
    ),
    outputs=(Output("output", NUMERIC),),
    expansion=_clip,
    rules=(limits_are_scalars,),
)


def _pow_of_integers(build: Builder, call: Call) -> str:
    """With an exponent of floats. A whole result may be computed as a little less: 2**-20 is added."""
    build.precise = True
    number = CAST_NUMBERS["float32"]
    power = build("FloatPow", *(build("Cast", call.name(at), to=number) for at in (0, 1)))
    return build(
        "Cast", build("Mul", power, build.like(power, 1 + 2.0**-20)), to=CAST_NUMBERS[call.tensor(0).dtype]
    )


def _pow(build: Builder, call: Call) -> tuple[str, ...]:
    x, y = call.name(0), call.name(1)
    if not call.tensor(0).is_float and call.tensor(1).is_float:
        return (_pow_of_integers(build, call),)
    if not call.tensor(0).is_float:
        return (build("IntegerPow", x, build("Cast", y, to=CAST_NUMBERS[call.tensor(0).dtype])),)
    exponent = call.values[1]
    if exponent is not None and exponent.size == 1 and exponent.ndim <= call.tensor(0).rank:
        value = float(exponent.reshape(()))
        if value == 2.0:
            return (build("Mul", x, x),)
        if value == 0.5:
            return (build("Sqrt", x),)
    return (build("FloatPow", x, build("Cast", y, to=CAST_NUMBERS[call.tensor(0).dtype])),)


_BASE = Types("T", (*FLOATS, "int32", "int64"))
composite(
    name="Pow",
    since=12,
    summary="x**y, with broadcasting",
    inputs=(Input("X", _BASE), Input("Y", Types("T1", (*FLOATS, *INTEGERS)))),
    outputs=(Output("Z", _BASE),),
    expansion=_pow,
    rules=(operands_broadcast,),
)


def _prelu(build: Builder, call: Call) -> tuple[str, ...] | None:
    """Of integers; floats have a lowering."""
    x = call.name(0)
    if call.tensor(0).is_float:
        return None
    zero = build.like(x, 0)
    return (build("Add", build("Max", x, zero), build("Mul", build("Min", x, zero), call.name(1))),)


@rule
def slope_broadcasts(call: Call) -> str | None:
    """slope must broadcast to the shape of X"""
    fits = broadcast_shapes(call.shape(0), call.shape(1)) == call.shape(0)
    return None if fits else f"{list(call.shape(1))} to {list(call.shape(0))}"


def _sloped(call: Call, x: Array, slope: Array) -> tuple[Array, ...]:
    return (np.where(x < 0, slope * x, x),)


_SLOPED = Types("T", (*FLOATS, "int32", "int64"))
register(
    Operator(
        name="PRelu",
        since=7,
        summary="x, or slope x below zero",
        inputs=(Input("X", _SLOPED), Input("slope", _SLOPED)),
        outputs=(Output("Y", _SLOPED),),
        rules=(slope_broadcasts,),
        shapes=same_shape,
        reference=_sloped,
        expansion=_prelu,
    )
)


def _mean(build: Builder, call: Call) -> tuple[str, ...]:
    names = [tensor.name for tensor in call.inputs if tensor is not None]
    return (build("Mul", build("Sum", *names), build.like(names[0], 1 / len(names))),)


composite(
    name="Mean",
    since=8,
    summary="Mean of any number of operands, with broadcasting",
    inputs=(Input("data_0", FLOAT, variadic=True),),
    outputs=(Output("mean", FLOAT),),
    expansion=_mean,
    rules=(operands_broadcast,),
)


def _swiglu(build: Builder, call: Call) -> tuple[str, ...]:
    return (build("Mul", build("Swish", call.name(0), alpha=call.number("alpha")), call.name(1)),)


composite(
    name="SwiGLU",
    since=28,
    summary="A / (1 + exp(-alpha A)) times B",
    inputs=(Input("A", FLOAT), Input("B", FLOAT)),
    outputs=(Output("Y", FLOAT),),
    expansion=_swiglu,
    attributes=(Attribute("alpha", "float", 1.0),),
    rules=(operands_broadcast,),
)

# --- along one axis --------------------------------------------------------------------------------------


def _log_softmax(build: Builder, call: Call) -> tuple[str, ...]:
    x, axes = call.name(0), (call.integer("axis"),)
    below = build("Sub", x, build("ReduceMax", x, axes=axes))
    return (build("Sub", below, build("Log", build("ReduceSum", build("Exp", below), axes=axes))),)


composite(
    name="LogSoftmax",
    since=13,
    summary="ln(Softmax(x)) along an axis",
    inputs=(Input("input", FLOAT),),
    outputs=(Output("output", FLOAT),),
    expansion=_log_softmax,
    attributes=(Attribute("axis", "int", -1),),
    rules=(axis_in_range,),
)


def _lp_normalization(build: Builder, call: Call) -> tuple[str, ...]:
    x, axes = call.name(0), (call.integer("axis"),)
    op = "ReduceL1" if call.integer("p") == 1 else "ReduceL2"
    norm = build(op, x, axes=axes)
    nothing = build("Equal", norm, build.like(norm, 0))
    return (build("Where", nothing, build.like(x, 0), build("Div", x, norm)),)


composite(
    name="LpNormalization",
    since=1,
    summary="The operand divided by its L1 or L2 norm along an axis; 0 where that is 0",
    inputs=(Input("input", FLOAT),),
    outputs=(Output("output", FLOAT),),
    expansion=_lp_normalization,
    attributes=(Attribute("axis", "int", -1), Attribute("p", "int", 2, allowed=(1, 2))),
    rules=(axis_in_range,),
)


def _hardmax(build: Builder, call: Call) -> tuple[str, ...]:
    x, rank = call.name(0), call.tensor(0).rank
    axis = axis_from_front(call.integer("axis"), rank)
    places = np.arange(call.shape(0)[axis]).reshape(-1, *(1,) * (rank - axis - 1))
    first = build("TopIndices", x, axis=axis, count=1)
    return (
        build(
            "Cast", build("Equal", first, build.constant(places, "int64")), to=CAST_NUMBERS[build.dtype(x)]
        ),
    )


composite(
    name="Hardmax",
    since=13,
    summary="1 at the first largest element along an axis, else 0",
    inputs=(Input("input", FLOAT),),
    outputs=(Output("output", FLOAT),),
    expansion=_hardmax,
    attributes=(Attribute("axis", "int", -1),),
    rules=(axis_in_range,),
)


@rule
def axis_has_elements(call: Call) -> str | None:
    """The axis must have an element"""
    axis = axis_from_front(call.integer("axis"), call.tensor(0).rank)
    return None if call.shape(0)[axis] else f"shape {list(call.shape(0))} with axis {axis}"


def _arg(largest: int) -> Expansion:
    def expansion(build: Builder, call: Call) -> tuple[str, ...]:
        axis = axis_from_front(call.integer("axis"), call.tensor(0).rank)
        found = build(
            "TopIndices",
            call.name(0),
            axis=axis,
            count=1,
            largest=largest,
            last=call.integer("select_last_index"),
        )
        if call.integer("keepdims"):
            return (found,)
        return (reshaped(build, found, *(size for at, size in enumerate(build.shape(found)) if at != axis)),)

    return expansion


for _name, _largest in (("ArgMax", 1), ("ArgMin", 0)):
    composite(
        name=_name,
        since=12,
        summary=f"Index of the {'largest' if _largest else 'smallest'} element along an axis",
        inputs=(Input("data", NUMERIC),),
        outputs=(Output("reduced", INT64),),
        expansion=_arg(_largest),
        attributes=(
            Attribute("axis", "int", 0),
            Attribute("keepdims", "int", 1, allowed=(0, 1)),
            Attribute("select_last_index", "int", 0, allowed=(0, 1)),
        ),
        rules=(axis_in_range, axis_has_elements),
    )


@rule
def k_fits(call: Call) -> str | None:
    """K must be 1 to the size of the axis"""
    size = call.shape(0)[axis_from_front(call.integer("axis"), call.tensor(0).rank)]
    wanted = (call.value_ints(1) or (0,))[0]
    return None if 1 <= wanted <= size else f"K = {wanted} of {size}"


def _top_k(build: Builder, call: Call) -> tuple[str, ...]:
    axis, count = call.integer("axis"), (call.value_ints(1) or (0,))[0]
    indices = build("TopIndices", call.name(0), axis=axis, count=count, largest=call.integer("largest"))
    return (build("GatherElements", call.name(0), indices, axis=axis), indices)


composite(
    name="TopK",
    since=11,
    summary="The largest or smallest elements along an axis, in order, and their indices",
    inputs=(Input("X", NUMERIC), Input("K", INT64, constant=True)),
    outputs=(Output("Values", NUMERIC), Output("Indices", Types("I", ("int64",)))),
    expansion=_top_k,
    attributes=(
        Attribute("axis", "int", -1),
        Attribute("largest", "int", 1, allowed=(0, 1)),
        Attribute("sorted", "int", 1, allowed=(0, 1)),
    ),
    rules=(axis_in_range, k_fits),
)
