"""Arithmetic with broadcasting: sums, products, quotients, remainders, powers, limits."""

from __future__ import annotations

import numpy as np

from compiler.graph import FLOATS, INTEGERS, Array, GraphError
from compiler.operators.boxes.forms import elementwise, everywhere
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.record import Attribute, Call, Input, Law, Operator, Output, Types, register, rule
from compiler.operators.types import FLOAT, NUMERIC, broadcast_result, operands_broadcast

from .casting import CAST_NUMBERS
from .elementwise import binary, variadic


def _quotient(a: Array, b: Array) -> Array:
    """Divide; integers are rounded toward zero (ONNX Div 14), and a zero divisor has no meaning."""
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    if not np.all(b):
        raise GraphError(["integer division by zero; the divisor must hold no zero"])
    quotient, remainder = np.floor_divide(a, b), np.remainder(a, b)
    inexact_negative = (remainder != 0) & ((a < 0) != (b < 0))
    return np.asarray((quotient + inexact_negative).astype(a.dtype))


binary("Add", 7, "a + b with broadcasting", np.add, laws=Law.SUM)
binary("Sub", 7, "a - b with broadcasting", np.subtract)
binary("Mul", 7, "a * b with broadcasting", np.multiply)
binary("Div", 7, "a / b with broadcasting; integers round toward zero", _quotient)
variadic("Sum", "Sum of any number of operands, with broadcasting", np.add, FLOAT, laws=Law.SUM)
_CHOOSES = Law.EXACT | Law.RISING
variadic("Max", "Largest of any number of operands, with broadcasting", np.maximum, laws=_CHOOSES)
variadic("Min", "Smallest of any number of operands, with broadcasting", np.minimum, laws=_CHOOSES)


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
    precise=True,
    uniform=everywhere,
)


def _mod(call: Call, a: Array, b: Array) -> tuple[Array, ...]:
    return (np.asarray(np.fmod(a, b) if call.integer("fmod") else np.mod(a, b)),)


register(
    Operator(
        name="Mod",
        since=10,
        summary="Remainder with broadcasting; its sign is that of B, with fmod that of A",
        inputs=(Input("A", NUMERIC), Input("B", NUMERIC)),
        outputs=(Output("C", NUMERIC),),
        attributes=(Attribute("fmod", "int", 0, allowed=(0, 1)),),
        rules=(operands_broadcast,),
        shapes=broadcast_result,
        reference=_mod,
        needs=elementwise,
    )
)


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
    wrong = [tensor for tensor in call.inputs[1:] if tensor is not None and tensor.rank]
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
    laws=_CHOOSES,
    uniform=everywhere,
)

# --- powers ----------------------------------------------------------------------------------------------


def _power(call: Call, x: Array, y: Array) -> tuple[Array, ...]:
    return (np.asarray(np.power(x, y)),)


def _register_power(name: str, summary: str, types: Types) -> None:
    """Register a power whose base and exponent have one type; Pow expands to it."""
    register(
        Operator(
            name=name,
            since=1,
            summary=summary,
            inputs=(Input("X", types), Input("Y", types)),
            outputs=(Output("Z", types),),
            rules=(operands_broadcast,),
            shapes=broadcast_result,
            reference=_power,
            needs=elementwise,
            internal=True,
        )
    )


_register_power("FloatPow", "x**y of floats", FLOAT)
_register_power("IntegerPow", "x**y of integers", Types("T", INTEGERS))


def _integers_to_float_power(build: Builder, call: Call) -> str:
    """Raise integers to an exponent of floats in FP32, and truncate the result.

    The power may be slightly below the exact integer, so 2**-20 of it is added first.
    """
    build.precise = True
    number = CAST_NUMBERS["float32"]
    power = build("FloatPow", *(build("Cast", call.name(at), to=number) for at in (0, 1)))
    raised = build("Mul", power, build.like(power, 1 + 2.0**-20))
    return build("Cast", raised, to=CAST_NUMBERS[call.tensor(0).dtype])


def _pow(build: Builder, call: Call) -> tuple[str, ...]:
    x, y = call.name(0), call.name(1)
    if not call.tensor(0).is_float and call.tensor(1).is_float:
        return (_integers_to_float_power(build, call),)
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
    uniform=everywhere,
)
