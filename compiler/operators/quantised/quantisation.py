"""Quantisation: floats to integers of 8 and 16 bits and back."""

from __future__ import annotations

import numpy as np

from compiler.graph import FLOATS, Shape
from compiler.operators.elements.casting import CAST_NUMBERS, NUMBERS, as_type
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.expansion.parts import broadcast, reshaped, sliced
from compiler.operators.record import Attribute, Call, Input, Output, Rule, Types, rule
from compiler.operators.types import BYTES, FLOAT, axis_from_front, axis_of

from .integers import OFFSET

_SHORT = (*BYTES, "int16", "uint16")
SCALE = Types("S", ("float32", "float16", "bfloat16"))
_FLOAT32 = CAST_NUMBERS["float32"]


def _along(build: Builder, call: Call, name: str) -> str:
    """Return a scale or zero point per element or block of axis, in a shape that broadcasts to X."""
    size = call.attrs.get("block_size")
    if isinstance(size, int) and size:
        return _repeated(build, name, axis_of(call), size, call.shape(0))
    if not build.shape(name) or build.shape(name) == (1,) or len(build.shape(name)) > 1:
        return reshaped(build, name) if build.shape(name) == (1,) else name
    return reshaped(build, name, -1, *(1,) * (call.tensor(0).rank - axis_of(call) - 1))


def _repeated(build: Builder, name: str, axis: int, size: int, shape: Shape) -> str:
    """Expand one value per block of ``size`` elements of an axis to one per element; the last block may be
    shorter."""
    blocks = build.shape(name)
    with_ones = reshaped(build, name, *blocks[: axis + 1], 1, *blocks[axis + 1 :])
    wide = broadcast(build, with_ones, (*blocks[: axis + 1], size, *blocks[axis + 1 :]))
    flat = reshaped(build, wide, *blocks[:axis], blocks[axis] * size, *blocks[axis + 1 :])
    return sliced(build, flat, axis, 0, shape[axis])


def quantised(build: Builder, x: str, scale: str, zero: str, dtype: str) -> str:
    """Return round(x / scale) + zero, limited to the range of a type; ``zero`` may be empty."""
    if dtype not in BYTES:
        return _quantised_in_steps(build, x, scale, zero, dtype)
    made = build("QuantiseInt8", x, *_single(build, scale, zero, dtype))
    return build("OffsetBinary", made) if dtype == "uint8" else made


def _quantised_in_steps(build: Builder, x: str, scale: str, zero: str, dtype: str) -> str:
    """Quantise to integers that the engines do not have: each step is exact in FP32 if it is not cut off."""
    made = build("Round", build("Div", as_type(build, x, "float32"), as_type(build, scale, "float32")))
    if zero:
        made = build("Add", made, as_type(build, zero, "float32"))
    limits = np.iinfo(dtype)
    made = build("Min", build("Max", made, build.like(made, limits.min)), build.like(made, limits.max))
    return build("Cast", made, to=CAST_NUMBERS[dtype])


def dequantised(build: Builder, x: str, scale: str, zero: str) -> str:
    """Return (x - zero) scale of bytes, in float32; ``zero`` may be empty."""
    dtype = build.dtype(x)
    signed = build("OffsetBinary", x) if dtype == "uint8" else x
    return build("DequantiseInt8", signed, *_single(build, scale, zero, dtype))


def _single(build: Builder, scale: str, zero: str, dtype: str) -> list[str]:
    """Return scale and zero point in binary32, for signed bytes; a zero point of 0 is omitted."""
    operands = [scale if build.dtype(scale) == "float32" else build("Cast", scale, to=_FLOAT32)]
    known = build.constants.get(zero) if zero else np.zeros(())
    if known is not None and dtype == "int8" and not known.any():
        return operands
    point = build("Cast", zero, to=_FLOAT32) if zero else build.constant(np.zeros(()), "float32")
    if dtype == "uint8":
        point = build("Sub", point, build.constant(np.array(OFFSET), "float32"))
    return [*operands, point]


@rule
def scales_fit(call: Call) -> str | None:
    """The scale must be one value, one per element of axis, or with block_size one per block of axis, and the
    zero point must have its shape"""
    rank, shape, scale = call.tensor(0).rank, call.shape(0), call.shape(1)
    axis, size = call.integer("axis"), call.attrs.get("block_size", 0)
    found = f"{list(scale)} for {list(shape)}, axis {axis}, block_size {size}"
    if call.has(2) and call.tensor(2).size != call.tensor(1).size:
        return f"{list(scale)} and {list(call.shape(2))}"
    if scale in ((), (1,)):
        return found if size else None
    if not -rank <= axis < rank or not isinstance(size, int) or size < 0:
        return found
    axis = axis_from_front(axis, rank)
    if size:
        blocks = (*shape[:axis], -(-shape[axis] // size), *shape[axis + 1 :])
        return None if scale == blocks else found
    return None if scale == (shape[axis],) else found


def scales_usable(read: tuple[int, ...], divided_by: tuple[int, ...] = ()) -> Rule:
    """Make the rule for known scales: operands that multiply, and operands that divide."""

    def check(call: Call) -> str | None:
        for at in (*read, *divided_by):
            value = call.values[at] if at < len(call.values) else None
            if value is None:
                continue
            wide = value.astype(np.float64).reshape(-1)
            wrong = ~np.isfinite(wide) | (wide <= 0.0 if at in divided_by else False)
            if wrong.any():
                return f"{wide[wrong.argmax()]:g} in '{call.name(at)}'"
        return None

    return Rule("Scales must be finite, and scales that divide must be above 0", check)


def _wanted(call: Call, default: int) -> int:
    """Return the number of the element type that output_dtype asks for."""
    given = call.attrs.get("output_dtype")
    return given if isinstance(given, int) and given else default


def _quantise(build: Builder, call: Call) -> tuple[str, ...]:
    scale = _along(build, call, call.name(1))
    zero = _along(build, call, call.name(2)) if call.has(2) else ""
    dtype = build.dtype(zero) if zero else NUMBERS[_wanted(call, CAST_NUMBERS["uint8"])]
    return (quantised(build, call.name(0), scale, zero, dtype),)


_AXIS, _BLOCK = Attribute("axis", "int", 1), Attribute("block_size", "int", 0, since=21)
_OUTPUT_DTYPE = Attribute("output_dtype", "int", 0, allowed=(0, *(CAST_NUMBERS[t] for t in _SHORT)), since=21)
_FLOAT_DTYPE = Attribute("output_dtype", "int", 0, allowed=(0, *(CAST_NUMBERS[t] for t in FLOATS)), since=23)
composite(
    name="QuantizeLinear",
    since=13,
    summary="round(x / y_scale) + y_zero_point, within the range of the type",
    inputs=(
        Input("x", FLOAT.named("T1")),
        Input("y_scale", SCALE.named("T2"), constant=False),
        Input("y_zero_point", Types("T3", _SHORT), optional=True),
    ),
    outputs=(Output("y", Types("T3", _SHORT)),),
    expansion=_quantise,
    attributes=(
        _AXIS,
        _BLOCK,
        _OUTPUT_DTYPE,
        Attribute("precision", "int", 0, allowed=(0, _FLOAT32), since=23),
        Attribute("saturate", "int", 1, allowed=(0, 1), since=19),
    ),
    rules=(scales_fit, scales_usable((), (1,))),
    precise=True,
    quantised=True,
)


def _dequantise(build: Builder, call: Call) -> tuple[str, ...]:
    scale = _along(build, call, call.name(1))
    if call.tensor(0).dtype in BYTES:
        return (_dequantised_bytes(build, call, scale),)
    x = as_type(build, call.name(0), "float32")
    if call.has(2):
        x = build("Sub", x, as_type(build, _along(build, call, call.name(2)), "float32"))
    made = build("Mul", x, as_type(build, scale, "float32"))
    return (as_type(build, made, NUMBERS[_wanted(call, CAST_NUMBERS[build.dtype(scale)])]),)


def _dequantised_bytes(build: Builder, call: Call, scale: str) -> str:
    zero = _along(build, call, call.name(2)) if call.has(2) else ""
    made = dequantised(build, call.name(0), scale, zero)
    return as_type(build, made, NUMBERS[_wanted(call, CAST_NUMBERS[build.dtype(scale)])])


composite(
    name="DequantizeLinear",
    since=13,
    summary="(x - x_zero_point) x_scale",
    inputs=(
        Input("x", Types("T1", (*_SHORT, "int32"))),
        Input("x_scale", SCALE.named("T2")),
        Input("x_zero_point", Types("T1", (*_SHORT, "int32")), optional=True),
    ),
    outputs=(Output("y", SCALE.named("T2")),),
    expansion=_dequantise,
    attributes=(_AXIS, _BLOCK, _FLOAT_DTYPE),
    rules=(scales_fit, scales_usable((1,))),
    precise=True,
    quantised=True,
)


def _dynamic(build: Builder, call: Call) -> tuple[str, ...]:
    x = call.name(0)
    zero, axes = build.like(x, 0), tuple(range(call.tensor(0).rank))
    low = build("Min", build("ReduceMin", x, axes=axes, keepdims=0), zero)
    high = build("Max", build("ReduceMax", x, axes=axes, keepdims=0), zero)
    scale = build("Div", build("Sub", high, low), build.like(x, 255))
    point = quantised(build, build("Neg", low), scale, "", "uint8")
    return (quantised(build, x, scale, point, "uint8"), scale, point)


composite(
    name="DynamicQuantizeLinear",
    since=11,
    summary="The operand as uint8, with the scale and zero point of its own range",
    inputs=(Input("x", Types("T1", ("float32",))),),
    outputs=(
        Output("y", Types("T2", ("uint8",))),
        Output("y_scale", Types("S", ("float32",))),
        Output("y_zero_point", Types("T2", ("uint8",))),
    ),
    expansion=_dynamic,
    precise=True,
    quantised=True,
)
