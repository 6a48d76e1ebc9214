"""Operators between bytes other than products: each computes in floats and quantises the result.

Their expansions are DequantizeLinear, the operator in FP32, and QuantizeLinear. The rewrites treat the result
like any quantised graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.expansion.parts import reshaped
from compiler.operators.quantised.quantisation import scales_usable
from compiler.operators.record import Attribute, Call, Input, Output, Rule, Types, rule
from compiler.operators.types import BYTES, axis_in_range, axis_of, operands_broadcast, rank_within
from compiler.operators.windows.geometry import AUTO_PAD, CEIL_MODE, PADS, POOL_SHAPE, STRIDES

from .fused import channels_first, channels_last

BYTE, SINGLE = Types("T", BYTES), Types("S", ("float32",))
_CHANNELS_LAST = Attribute("channels_last", "int", 0, allowed=(0, 1))


def as_floats(build: Builder, call: Call, at: int) -> str:
    """Return the operand at a position as floats; scale and zero point, which may be omitted, come next."""
    return build("DequantizeLinear", *(call.name(place) for place in range(at, at + 3) if call.has(place)))


def as_bytes(build: Builder, call: Call, value: str, at: int, dtype: str) -> str:
    """Quantise floats to bytes of a type.

    The scale is the operand at a position, the zero point the next one.
    """
    zero = call.name(at + 1) or build.constant(np.zeros(build.shape(call.name(at))), dtype)
    return build("QuantizeLinear", value, call.name(at), zero)


def one_value_each(*places: int) -> Rule:
    """Make the rule that the operands at these positions have one element."""

    def check(call: Call) -> str | None:
        many = [call.tensor(at) for at in places if call.has(at) and call.tensor(at).size != 1]
        return f"'{many[0].name}' {list(many[0].shape)}" if many else None

    return Rule("Scales and zero points must have one value each", check)


def _operand(name: str, prefix: str, optional: bool = True) -> tuple[Input, Input, Input]:
    """Return the declarations of an operand, its scale and its zero point."""
    zero = Input(f"{prefix}_zero_point", BYTE, optional=optional)
    return Input(name, BYTE), Input(f"{prefix}_scale", SINGLE), zero


def _result(prefix: str, optional: bool = True) -> tuple[Input, Input]:
    """Return the declarations of the scale and the zero point of the result."""
    return Input(f"{prefix}_scale", SINGLE), Input(f"{prefix}_zero_point", BYTE, optional=optional)


# --- element by element ----------------------------------------------------------------------------------


def _two(op: str) -> Callable[[Builder, Call], tuple[str, ...]]:
    def expansion(build: Builder, call: Call) -> tuple[str, ...]:
        made = build(op, as_floats(build, call, 0), as_floats(build, call, 3))
        return (as_bytes(build, call, made, 6, call.tensor(0).dtype),)

    return expansion


for _op, _summary in (("Add", "Sum"), ("Mul", "Product")):
    composite(
        name=f"com.microsoft.QLinear{_op}",
        since=1,
        summary=f"{_summary} of quantised operands, quantised, with broadcasting",
        inputs=(*_operand("A", "A"), *_operand("B", "B"), *_result("C")),
        outputs=(Output("C", BYTE),),
        expansion=_two(_op),
        rules=(one_value_each(1, 2, 4, 5, 6, 7), scales_usable((1, 4), (6,)), operands_broadcast),
        precise=True,
    )


def _one(op: str, *names: str) -> Callable[[Builder, Call], tuple[str, ...]]:
    def expansion(build: Builder, call: Call) -> tuple[str, ...]:
        attrs = {name: call.attrs[name] for name in names}
        made = build(op, as_floats(build, call, 0), **attrs)
        return (as_bytes(build, call, made, 3, call.tensor(0).dtype),)

    return expansion


composite(
    name="com.microsoft.QLinearSigmoid",
    since=1,
    summary="Sigmoid of a quantised operand, quantised",
    inputs=(*_operand("X", "X"), *_result("Y")),
    outputs=(Output("Y", BYTE),),
    expansion=_one("Sigmoid"),
    rules=(one_value_each(1, 2, 3, 4), scales_usable((1,), (3,))),
    precise=True,
)

composite(
    name="com.microsoft.QLinearLeakyRelu",
    since=1,
    summary="LeakyRelu of a quantised operand, quantised",
    inputs=(*_operand("X", "X"), *_result("Y")),
    outputs=(Output("Y", BYTE),),
    expansion=_one("LeakyRelu", "alpha"),
    attributes=(Attribute("alpha", "float", 0.01),),
    rules=(one_value_each(1, 2, 3, 4), scales_usable((1,), (3,))),
    precise=True,
)


def _softmax(build: Builder, call: Call) -> tuple[str, ...]:
    """Expand Softmax; before operator set 13 it is over all axes from ``axis`` together."""
    x, axis, shape = as_floats(build, call, 0), axis_of(call), call.shape(0)
    if call.integer("opset") >= 13:
        made = build("Softmax", x, axis=axis)
    else:
        flat = reshaped(build, x, math.prod(shape[:axis]), math.prod(shape[axis:]))
        made = reshaped(build, build("Softmax", flat, axis=-1), *shape)
    return (as_bytes(build, call, made, 3, call.tensor(0).dtype),)


composite(
    name="com.microsoft.QLinearSoftmax",
    since=1,
    summary="Softmax of a quantised operand, quantised",
    inputs=(
        Input("X", BYTE),
        Input("X_scale", SINGLE),
        Input("x_zero_point", BYTE, optional=True),
        *_result("y", optional=False),
    ),
    outputs=(Output("Y", BYTE),),
    expansion=_softmax,
    attributes=(Attribute("axis", "int", -1), Attribute("opset", "int", required=True, minimum=1)),
    rules=(one_value_each(1, 2, 3, 4), scales_usable((1,), (3,)), axis_in_range),
    precise=True,
)


def _where(build: Builder, call: Call) -> tuple[str, ...]:
    made = build("Where", call.name(0), as_floats(build, call, 1), as_floats(build, call, 4))
    return (as_bytes(build, call, made, 7, call.tensor(1).dtype),)


composite(
    name="com.microsoft.QLinearWhere",
    since=1,
    summary="Elements of one of two quantised operands, by a condition, quantised",
    inputs=(
        Input("condition", Types("B", ("bool",))),
        *_operand("X", "x", optional=False),
        *_operand("Y", "y", optional=False),
        *_result("z", optional=False),
    ),
    outputs=(Output("Z", BYTE),),
    expansion=_where,
    rules=(one_value_each(2, 3, 5, 6, 7, 8), scales_usable((2, 5), (7,)), operands_broadcast),
    precise=True,
)

# --- pools and means -------------------------------------------------------------------------------------


def _pooled(build: Builder, call: Call, op: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Expand a pool, between transposes if the channels are the last axis."""
    x, last = as_floats(build, call, 0), bool(call.integer("channels_last"))
    attrs = {name: call.attrs[name] for name in names if name in call.attrs}
    made = build(op, channels_first(build, x) if last else x, **attrs)
    made = channels_last(build, made) if last else made
    return (as_bytes(build, call, made, 3, call.tensor(0).dtype),)


_POOL = (AUTO_PAD, CEIL_MODE, Attribute("count_include_pad", "int", 0, allowed=(0, 1)))
_WINDOW = (*_POOL, POOL_SHAPE, PADS, STRIDES)

composite(
    name="com.microsoft.QLinearAveragePool",
    since=1,
    summary="Average over a sliding window of a quantised operand, quantised",
    inputs=(
        Input("X", BYTE),
        Input("x_scale", SINGLE),
        Input("x_zero_point", BYTE, optional=True),
        *_result("y"),
    ),
    outputs=(Output("Y", BYTE),),
    expansion=lambda build, call: _pooled(build, call, "AveragePool", tuple(a.name for a in _WINDOW)),
    attributes=(*_WINDOW, _CHANNELS_LAST),
    rules=(
        rank_within("X", 3, 5, "1-D to 3-D pooling"),
        one_value_each(1, 2, 3, 4),
        scales_usable((1,), (3,)),
    ),
    precise=True,
)

composite(
    name="com.microsoft.QLinearGlobalAveragePool",
    since=1,
    summary="Average over all positions of a quantised operand, quantised",
    inputs=(*_operand("X", "x", optional=False), *_result("y", optional=False)),
    outputs=(Output("Y", BYTE),),
    expansion=lambda build, call: _pooled(build, call, "GlobalAveragePool", ()),
    attributes=(_CHANNELS_LAST,),
    rules=(
        rank_within("X", 3, None, "batch, channels, space"),
        one_value_each(1, 2, 3, 4),
        scales_usable((1,), (3,)),
    ),
    precise=True,
)

composite(
    name="com.microsoft.QLinearReduceMean",
    since=1,
    summary="Mean over axes of a quantised operand, quantised",
    inputs=(*_operand("data", "data"), *_result("reduced")),
    outputs=(Output("reduced", BYTE),),
    expansion=_one("ReduceMean", "axes", "keepdims"),
    attributes=(
        Attribute("axes", "ints", required=True),
        Attribute("keepdims", "int", required=True, allowed=(0, 1)),
    ),
    rules=(one_value_each(1, 2, 3, 4), scales_usable((1,), (3,))),
    precise=True,
)

# --- concatenation ---------------------------------------------------------------------------------------


@rule
def parts_are_triples(call: Call) -> str | None:
    """inputs must be tensors of bytes, each followed by its scale, a float, and its zero point, a byte"""
    parts = call.inputs[2:]
    if len(parts) % 3:
        return f"{len(parts)} operands"
    wanted = (BYTES, ("float32",), BYTES)
    for at, tensor in enumerate(parts):
        if tensor is None or tensor.dtype not in wanted[at % 3] or (at % 3 and tensor.size != 1):
            return f"operand {at + 2}: " + (f"{tensor.dtype} {list(tensor.shape)}" if tensor else "omitted")
    return None


def _joined(build: Builder, call: Call) -> tuple[str, ...]:
    parts = [as_floats(build, call, at) for at in range(2, len(call.inputs), 3)]
    made = build("Concat", *parts, axis=call.integer("axis"))
    return (as_bytes(build, call, made, 0, call.tensor(1).dtype),)


composite(
    name="com.microsoft.QLinearConcat",
    since=1,
    summary="Quantised operands joined along an axis, quantised",
    inputs=(
        Input("Y_scale", SINGLE),
        Input("Y_zero_point", BYTE),
        Input("inputs", Types("", (*BYTES, "float32")), variadic=True),
    ),
    outputs=(Output("Y", BYTE),),
    expansion=_joined,
    attributes=(Attribute("axis", "int", required=True),),
    rules=(one_value_each(0, 1), scales_usable((), (0,)), parts_are_triples),
    precise=True,
)
