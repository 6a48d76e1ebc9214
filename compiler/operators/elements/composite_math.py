"""Composite operators of arithmetic: powers, limits, reductions, normalizations, the largest elements."""

from __future__ import annotations

import numpy as np

from compiler.graph import FLOATS, INTEGERS, Array
from compiler.operators.expansion import Builder, Expansion
from compiler.operators.parts import reshaped
from compiler.operators.record import Attribute, Call, Input, Operator, Output, Types, register, rule
from compiler.operators.shapes.composite_shapes import _operator, name_of
from compiler.operators.types import FLOAT, INT64, NUMERIC, axis_in_range, broadcast_shapes, same_shape
from compiler.operators.types import normalized as from_front

from .casting import CAST_NUMBERS
from .elementwise import operands_broadcast


def _clip(b: Builder, call: Call) -> tuple[str, ...]:
    x = name_of(call, 0)
    if call.has(1):
        x = b("Max", x, name_of(call, 1))
    if call.has(2):
        x = b("Min", x, name_of(call, 2))
    return (x,)


@rule
def limits_are_scalars(call: Call) -> str | None:
    """min and max must have one element and rank 0"""
    wrong = [t for t in call.inputs[1:] if t is not None and t.rank]
    return f"'{wrong[0].name}' {list(wrong[0].shape)}" if wrong else None


_operator(
    "Clip",
    12,
    "The operand between two limits",
    (Input("input", NUMERIC), Input("min", NUMERIC, optional=True), Input("max", NUMERIC, optional=True)),
    (Output("output", NUMERIC),),
    _clip,
    rules=(limits_are_scalars,),
)


def _pow_of_integers(b: Builder, call: Call) -> str:
    """With an exponent of floats. A whole result may be computed as a little less: 2**-20 is added."""
    b.precise = True
    number = CAST_NUMBERS["float32"]
    power = b("FloatPow", *(b("Cast", name_of(call, at), to=number) for at in (0, 1)))
    return b("Cast", b("Mul", power, b.like(power, 1 + 2.0**-20)), to=CAST_NUMBERS[call.tensor(0).dtype])


def _pow(b: Builder, call: Call) -> tuple[str, ...]:
    x, y = name_of(call, 0), name_of(call, 1)
    if not call.tensor(0).is_float and call.tensor(1).is_float:
        return (_pow_of_integers(b, call),)
    if not call.tensor(0).is_float:
        return (b("IntegerPow", x, b("Cast", y, to=CAST_NUMBERS[call.tensor(0).dtype])),)
    exponent = call.values[1]
    if exponent is not None and exponent.size == 1 and exponent.ndim <= call.tensor(0).rank:
        value = float(exponent.reshape(()))
        if value == 2.0:
            return (b("Mul", x, x),)
        if value == 0.5:
            return (b("Sqrt", x),)
    return (b("FloatPow", x, b("Cast", y, to=CAST_NUMBERS[call.tensor(0).dtype])),)


_BASE = Types("T", (*FLOATS, "int32", "int64"))
_operator(
    "Pow",
    12,
    "x**y, with broadcasting",
    (Input("X", _BASE), Input("Y", Types("T1", (*FLOATS, *INTEGERS)))),
    (Output("Z", _BASE),),
    _pow,
    rules=(operands_broadcast,),
)


def _prelu(b: Builder, call: Call) -> tuple[str, ...] | None:
    """Of integers; floats have a lowering."""
    x = name_of(call, 0)
    if call.tensor(0).is_float:
        return None
    zero = b.like(x, 0)
    return (b("Add", b("Max", x, zero), b("Mul", b("Min", x, zero), name_of(call, 1))),)


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


def _mean(b: Builder, call: Call) -> tuple[str, ...]:
    names = [tensor.name for tensor in call.inputs if tensor is not None]
    return (b("Mul", b("Sum", *names), b.like(names[0], 1 / len(names))),)


_operator(
    "Mean",
    8,
    "Mean of any number of operands, with broadcasting",
    (Input("data_0", FLOAT, variadic=True),),
    (Output("mean", FLOAT),),
    _mean,
    rules=(operands_broadcast,),
)


def _swiglu(b: Builder, call: Call) -> tuple[str, ...]:
    return (b("Mul", b("Swish", name_of(call, 0), alpha=call.number("alpha")), name_of(call, 1)),)


_operator(
    "SwiGLU",
    28,
    "A / (1 + exp(-alpha A)) times B",
    (Input("A", FLOAT), Input("B", FLOAT)),
    (Output("Y", FLOAT),),
    _swiglu,
    (Attribute("alpha", "float", 1.0),),
    (operands_broadcast,),
)

# --- along one axis --------------------------------------------------------------------------------------


def _log_softmax(b: Builder, call: Call) -> tuple[str, ...]:
    x, axes = name_of(call, 0), (call.integer("axis"),)
    below = b("Sub", x, b("ReduceMax", x, axes=axes))
    return (b("Sub", below, b("Log", b("ReduceSum", b("Exp", below), axes=axes))),)


_operator(
    "LogSoftmax",
    13,
    "ln(Softmax(x)) along an axis",
    (Input("input", FLOAT),),
    (Output("output", FLOAT),),
    _log_softmax,
    (Attribute("axis", "int", -1),),
    (axis_in_range,),
)


def _lp_normalization(b: Builder, call: Call) -> tuple[str, ...]:
    x, axes = name_of(call, 0), (call.integer("axis"),)
    op = "ReduceL1" if call.integer("p") == 1 else "ReduceL2"
    norm = b(op, x, axes=axes)
    nothing = b("Equal", norm, b.like(norm, 0))
    return (b("Where", nothing, b.like(x, 0), b("Div", x, norm)),)


_operator(
    "LpNormalization",
    1,
    "The operand divided by its L1 or L2 norm along an axis; 0 where that is 0",
    (Input("input", FLOAT),),
    (Output("output", FLOAT),),
    _lp_normalization,
    (Attribute("axis", "int", -1), Attribute("p", "int", 2, allowed=(1, 2))),
    (axis_in_range,),
)


def _hardmax(b: Builder, call: Call) -> tuple[str, ...]:
    x, rank = name_of(call, 0), call.tensor(0).rank
    axis = from_front(call.integer("axis"), rank)
    places = np.arange(call.shape(0)[axis]).reshape(-1, *(1,) * (rank - axis - 1))
    first = b("TopIndices", x, axis=axis, count=1)
    return (b("Cast", b("Equal", first, b.constant(places, "int64")), to=CAST_NUMBERS[b.dtype(x)]),)


_operator(
    "Hardmax",
    13,
    "1 at the first largest element along an axis, else 0",
    (Input("input", FLOAT),),
    (Output("output", FLOAT),),
    _hardmax,
    (Attribute("axis", "int", -1),),
    (axis_in_range,),
)


@rule
def axis_has_elements(call: Call) -> str | None:
    """The axis must have an element"""
    axis = from_front(call.integer("axis"), call.tensor(0).rank)
    return None if call.shape(0)[axis] else f"shape {list(call.shape(0))} with axis {axis}"


def _arg(largest: int) -> Expansion:
    def expansion(b: Builder, call: Call) -> tuple[str, ...]:
        axis = from_front(call.integer("axis"), call.tensor(0).rank)
        found = b(
            "TopIndices",
            name_of(call, 0),
            axis=axis,
            count=1,
            largest=largest,
            last=call.integer("select_last_index"),
        )
        if call.integer("keepdims"):
            return (found,)
        return (reshaped(b, found, *(size for at, size in enumerate(b.shape(found)) if at != axis)),)

    return expansion


for _name, _largest in (("ArgMax", 1), ("ArgMin", 0)):
    _operator(
        _name,
        12,
        f"Index of the {'largest' if _largest else 'smallest'} element along an axis",
        (Input("data", NUMERIC),),
        (Output("reduced", INT64),),
        _arg(_largest),
        (
            Attribute("axis", "int", 0),
            Attribute("keepdims", "int", 1, allowed=(0, 1)),
            Attribute("select_last_index", "int", 0, allowed=(0, 1)),
        ),
        (axis_in_range, axis_has_elements),
    )


@rule
def k_fits(call: Call) -> str | None:
    """K must be 1 to the size of the axis"""
    size = call.shape(0)[from_front(call.integer("axis"), call.tensor(0).rank)]
    wanted = (call.value_ints(1) or (0,))[0]
    return None if 1 <= wanted <= size else f"K = {wanted} of {size}"


def _top_k(b: Builder, call: Call) -> tuple[str, ...]:
    axis, count = call.integer("axis"), (call.value_ints(1) or (0,))[0]
    indices = b("TopIndices", name_of(call, 0), axis=axis, count=count, largest=call.integer("largest"))
    return (b("GatherElements", name_of(call, 0), indices, axis=axis), indices)


_operator(
    "TopK",
    11,
    "The largest or smallest elements along an axis, in order, and their indices",
    (Input("X", NUMERIC), Input("K", INT64, constant=True)),
    (Output("Values", NUMERIC), Output("Indices", Types("I", ("int64",)))),
    _top_k,
    (
        Attribute("axis", "int", -1),
        Attribute("largest", "int", 1, allowed=(0, 1)),
        Attribute("sorted", "int", 1, allowed=(0, 1)),
    ),
    (axis_in_range, k_fits),
)
