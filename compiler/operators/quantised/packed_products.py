"""Products with known weights of few bits, which stay packed in DDR."""

from __future__ import annotations

import numpy as np

from compiler.graph import Array, Box
from compiler.operators.record import Attribute, Call, Input, Operator, Output, Types, register, rule
from compiler.operators.types import FLOAT

_NUMBERS = Types("B", ("int8",))


@rule
def numbers_fit(call: Call) -> str | None:
    """W must be a matrix with as many rows as the last axis of A, with a scale for each column of a block of
    rows, and a zero point for each scale or none"""
    a, w, blocks = call.shape(0), call.shape(1), 0
    if len(a) >= 2 and len(w) == 2 and w[0] == a[-1] and all(w):
        blocks = -(-w[0] // call.integer("block_size"))
    found = [call.shape(at) for at in (2, 3) if call.has(at)]
    if blocks and all(shape == (blocks, w[1]) for shape in found):
        return None
    return f"{list(a)} and {list(w)} with {' and '.join(str(list(shape)) for shape in found)}"


@rule
def numbers_have_so_few_bits(call: Call) -> str | None:
    """The numbers in W must have the number of bits that the attribute says"""
    half, value = 1 << (call.integer("bits") - 1), call.values[1]
    if value is None or (int(value.min()) >= -half and int(value.max()) < half):
        return None
    return f"{value.min()} to {value.max()} in {2 * half} numbers around 0"


def dequantised(numbers: Array, scale: Array, zero: Array | None, block: int) -> Array:
    """Return (numbers - zero) scale in binary64; row r belongs to block r // ``block``."""
    row = np.arange(numbers.shape[0]) // block
    centred = numbers.astype(np.float64) - (0.0 if zero is None else zero.astype(np.float64)[row])
    return np.asarray(centred * scale.astype(np.float64)[row])


def _product(call: Call, a: Array, w: Array, scale: Array, zero: Array | None = None) -> tuple[Array, ...]:
    return (np.asarray(np.matmul(a, dequantised(w, scale, zero, call.integer("block_size")))),)


def _needs(call: Call, number: int, box: Box) -> tuple[Box | None, ...]:
    rows, columns = box.intervals[:-1], box.intervals[-1]
    scales = (None if t is None else Box(((0, t.shape[0]), columns)) for t in call.inputs[2:])
    inner = (0, call.shape(1)[0])
    return Box((*rows, inner)), Box((inner, columns)), *scales


register(
    Operator(
        name="PackedMatMul",
        since=1,
        summary="Matrix product with known numbers of few bits, less zero points, times scales of blocks",
        inputs=(
            Input("A", FLOAT),
            Input("W", _NUMBERS),
            Input("scale", FLOAT),
            Input("zero", _NUMBERS, optional=True),
        ),
        outputs=(Output("Y", FLOAT),),
        attributes=(
            Attribute("bits", "int", required=True, allowed=(2, 4, 8)),
            Attribute("block_size", "int", required=True, minimum=1),
        ),
        rules=(numbers_fit, numbers_have_so_few_bits),
        shapes=lambda call: ((*call.shape(0)[:-1], call.shape(1)[1]),),
        reference=_product,
        needs=_needs,
        internal=True,
    )
)
