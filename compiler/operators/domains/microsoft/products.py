"""Products of quantised matrices whose results are floats, or bytes of any scale.

With known weights and scales they are written with DequantizeLinear, from which rewrites make products of
bytes. Otherwise they are a MatMulInteger whose sums are multiplied by the scales.
"""

from __future__ import annotations

import math

import numpy as np

from compiler.operators.elements.casting import CAST_NUMBERS
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.expansion.parts import permuted, reshaped
from compiler.operators.quantised.integers import OFFSET
from compiler.operators.quantised.quantisation import scales_usable
from compiler.operators.record import Attribute, Call, Input, Output, Rule, Types
from compiler.operators.types import BYTES, rank_within

from .bytes import SINGLE, as_bytes, one_value_each

_FLOAT32 = CAST_NUMBERS["float32"]
_TA, _TB = Types("T1", BYTES), Types("T2", BYTES)


def _are_known(build: Builder, call: Call, *places: int) -> bool:
    """Return True if the given operands at these positions are constants."""
    return all(call.name(at) in build.constants for at in places if call.has(at))


def scaled(build: Builder, sums: str, *scales: str) -> str:
    """Multiply sums by scales; the scales are multiplied first, from the left."""
    factor = scales[0]
    for scale in scales[1:]:
        factor = build("Mul", factor, scale)
    return build("Mul", build("Cast", sums, to=_FLOAT32), factor)


def _dequantised(build: Builder, call: Call, places: tuple[int, int, int], axis: int) -> str:
    """Dequantise a known operand by a node; ``places``: positions of operand, scale and zero point.

    Unsigned bytes become the equivalent signed bytes, which products take.
    """
    name, scale, zero = (call.name(at) for at in places)
    if build.dtype(name) == "uint8":
        point = build.constants[zero] if zero else np.zeros(build.shape(scale))
        zero = build.constant(point.astype(np.int64) - OFFSET, "int8")
        name = build.constant(build.constants[name].astype(np.int64) - OFFSET, "int8")
    return build.kept("DequantizeLinear", name, scale, *([zero] if zero else []), axis=axis)


def per_column(operand: int, transposed: str, *places: int) -> Rule:
    """Make the rule that operands have one element, or one for each column of the operand ``operand``.

    ``transposed`` names the attribute that asks for its rows instead.
    """

    def check(call: Call) -> str | None:
        turned = bool(transposed) and bool(call.integer(transposed))
        columns = call.shape(operand)[0 if turned else -1]
        for at in places:
            if call.has(at) and call.tensor(at).size != 1 and call.shape(at) != (columns,):
                return f"'{call.name(at)}' {list(call.shape(at))} with B {list(call.shape(operand))}"
        return None

    return Rule("Scales and zero points of B must have one value, or one for each column", check)


# --- results in floats -----------------------------------------------------------------------------------


def _dynamic(build: Builder, call: Call) -> tuple[str, ...]:
    """Expand a product whose computed operand has a scale that is known only at run time."""
    build.precise = True
    x, scale, zero = build.several("DynamicQuantizeLinear", 3, call.name(0))
    sums = build("MatMulInteger", x, call.name(1), zero, call.name(3))
    product = scaled(build, sums, scale, call.name(2))
    return (build("Add", product, call.name(4)) if call.has(4) else product,)


composite(
    name="com.microsoft.DynamicQuantizeMatMul",
    since=1,
    summary="Matrix product of A, quantised by its own range, with quantised weights, as floats, plus bias",
    inputs=(
        Input("A", SINGLE),
        Input("B", _TB),
        Input("b_scale", SINGLE),
        Input("b_zero_point", _TB, optional=True),
        Input("bias", SINGLE, optional=True),
    ),
    outputs=(Output("Y", SINGLE),),
    expansion=_dynamic,
    rules=(rank_within("A", 1, None, "rows"), per_column(1, "", 2, 3), scales_usable((2,))),
)


def _to_float(build: Builder, call: Call) -> tuple[str, ...]:
    if _are_known(build, call, 1, 2, 3, 4, 5):
        given = [call.name(at) for at in (0, 2, 4) if call.has(at)]
        x = build("DequantizeLinear", *given)
        product = build("MatMul", x, _dequantised(build, call, (1, 3, 5), call.tensor(1).rank - 1))
    else:
        build.precise = True
        sums = build("MatMulInteger", call.name(0), call.name(1), call.name(4), call.name(5))
        product = scaled(build, sums, call.name(2), call.name(3))
    return (build("Add", product, call.name(6)) if call.has(6) else product,)


composite(
    name="com.microsoft.MatMulIntegerToFloat",
    since=1,
    summary="Matrix product of quantised operands as floats, plus bias",
    inputs=(
        Input("A", _TA),
        Input("B", _TB),
        Input("a_scale", SINGLE),
        Input("b_scale", SINGLE),
        Input("a_zero_point", _TA, optional=True),
        Input("b_zero_point", _TB, optional=True),
        Input("bias", SINGLE, optional=True),
    ),
    outputs=(Output("Y", SINGLE),),
    expansion=_to_float,
    rules=(
        rank_within("A", 1, None, "rows"),
        one_value_each(2, 4),
        per_column(1, "", 3, 5),
        scales_usable((2, 3)),
    ),
)

# --- QGemm -----------------------------------------------------------------------------------------------


def _qgemm(build: Builder, call: Call) -> tuple[str, ...]:
    """Expand QGemm, whose addend C is in the unit of the sums."""
    a = permuted(build, call.name(0), 1, 0) if call.integer("transA") else call.name(0)
    alpha = call.number("alpha")
    a_scale = call.name(1)
    if alpha != 1:
        a_scale = build("Mul", build.like(a_scale, alpha), a_scale)
    columns = call.shape(3)[0 if call.integer("transB") else 1]
    is_row = not call.has(6) or call.tensor(6).size == math.prod(call.shape(6)[-1:]) == columns
    if is_row and _are_known(build, call, 1, 2, 3, 4, 5, 6):
        made = _gemm_of_known(build, call, a, a_scale)
        return (made if not call.has(7) else as_bytes(build, call, made, 7, _result_type(call)),)
    build.precise = True
    b = permuted(build, call.name(3), 1, 0) if call.integer("transB") else call.name(3)
    sums = build("MatMulInteger", a, b, call.name(2), call.name(5))
    sums = build("Add", sums, call.name(6)) if call.has(6) else sums
    made = scaled(build, sums, a_scale, call.name(4))
    return (made if not call.has(7) else as_bytes(build, call, made, 7, _result_type(call)),)


def _result_type(call: Call) -> str:
    """Return the type of a result's bytes: its zero point's, else A's."""
    return call.tensor(8 if call.has(8) else 0).dtype


def _gemm_of_known(build: Builder, call: Call, a: str, a_scale: str) -> str:
    """Return the Gemm of the dequantised operands."""
    turned = call.integer("transB")
    operands = [build("DequantizeLinear", a, a_scale, call.name(2))]
    operands.append(_dequantised(build, call, (3, 4, 5), 0 if turned else 1))
    if call.has(6):
        unit = build("Mul", a_scale, call.name(4))
        operands.append(build.kept("DequantizeLinear", reshaped(build, call.name(6), -1), unit, axis=0))
    return build("Gemm", *operands, transB=turned)


def _qgemm_dtype(call: Call) -> str:
    return _result_type(call) if call.has(7) else "float32"


def _qgemm_shape(call: Call) -> tuple[int, ...]:
    rows = call.shape(0)[1 if call.integer("transA") else 0]
    return rows, call.shape(3)[0 if call.integer("transB") else 1]


def _matrices(call: Call) -> str | None:
    shapes = call.shape(0), call.shape(3)
    if len(shapes[0]) == len(shapes[1]) == 2:
        inner = shapes[0][0 if call.integer("transA") else 1], shapes[1][1 if call.integer("transB") else 0]
        if inner[0] == inner[1]:
            return None
    return " and ".join(str(list(shape)) for shape in shapes)


composite(
    name="com.microsoft.QGemm",
    since=1,
    summary="alpha * A' @ B' + C of quantised matrices; floats, or quantised if y_scale is given",
    inputs=(
        Input("A", _TA),
        Input("a_scale", SINGLE),
        Input("a_zero_point", _TA),
        Input("B", _TB),
        Input("b_scale", SINGLE),
        Input("b_zero_point", _TB),
        Input("C", Types("TC", ("int32",)), optional=True),
        Input("y_scale", SINGLE, optional=True),
        Input("y_zero_point", Types("TYZ", BYTES), optional=True),
    ),
    outputs=(Output("Y", Types("TY", ("float32", *BYTES))),),
    expansion=_qgemm,
    attributes=(
        Attribute("alpha", "float", 1.0),
        Attribute("transA", "int", 0, allowed=(0, 1)),
        Attribute("transB", "int", 0, allowed=(0, 1)),
    ),
    rules=(
        Rule("A and B must be matrices, and the columns of A as many as the rows of B", _matrices),
        one_value_each(1, 2, 7, 8),
        per_column(3, "transB", 4, 5),
        scales_usable((1, 4), (7,)),
    ),
    result=lambda call: (_qgemm_dtype(call), _qgemm_shape(call)),
)
