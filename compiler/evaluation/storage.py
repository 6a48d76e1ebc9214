"""The formats in which ``tx8cc --dtype`` stores floats, and constants that a format does not reach."""

from __future__ import annotations

import numpy as np

from compiler.graph import Array
from tx8isa.numbers.formats import EXPONENT_BITS, MANTISSA_BITS, Format, widen

STORAGE = {fmt.token: fmt for fmt in (Format.FP32, Format.TF32, Format.FP16, Format.BF16)}
"""Storage formats by the names that users give them."""


def within_range(values: Array, fmt: Format) -> Array:
    """Constants with finite numbers that a format does not reach replaced by its largest ones.

    Exporters write masks as 0 or 1 times the lowest FP32 number: times an infinity they would be NaN. A
    number by itself that would become 0 is there to keep a divisor or the operand of a Log from being 0: it
    becomes the smallest number of the format.
    """
    exponent_bits, mantissa_bits = EXPONENT_BITS[fmt], MANTISSA_BITS[fmt]
    smallest = widen(1, exponent_bits, mantissa_bits)
    largest = widen((((1 << exponent_bits) - 1) << mantissa_bits) - 1, exponent_bits, mantissa_bits)
    if values.size == 1 and 0.0 < abs(float(values.reshape(()))) < smallest:
        return np.copysign(smallest, values).astype(np.float64)
    if values.size == 0 or (float(values.max()) <= largest and float(values.min()) >= -largest):
        return values
    wide = values.astype(np.float64)
    return np.where(np.isinf(wide), wide, np.clip(wide, -largest, largest))


def all_finite(values: Array, fmt: Format) -> bool:
    """Whether an array in the storage dtype of a float format has neither infinities nor NaN.

    Their exponents have all bits set, so the largest magnitude decides; integers are compared faster.
    """
    bits = np.dtype(f"u{values.dtype.itemsize}")
    magnitude = (1 << (EXPONENT_BITS[fmt] + MANTISSA_BITS[fmt])) - 1
    infinity = magnitude & -(1 << MANTISSA_BITS[fmt])
    return values.size == 0 or int((values.view(bits) & bits.type(magnitude)).max()) < infinity
