"""The formats in which ``tx8cc --dtype`` stores floats, and constants beyond the range of a format."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np

from compiler.graph import Array, Graph, GraphError
from tx8isa.numbers.formats import EXPONENT_BITS, MANTISSA_BITS, Format, widen
from tx8isa.tools.suggestions import hint

STORAGE = {fmt.token: fmt for fmt in (Format.FP32, Format.TF32, Format.FP16, Format.BF16)}
"""Storage formats by the names that users give them."""
DEFAULT_DTYPE = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
"""Compute formats by the graph's float dtype, used when no format is chosen."""


def default_dtype(graph: Graph) -> str:
    """The compute format of the graph's first float tensor; fp32 if it has none."""
    names = [tensor.dtype for tensor in (*graph.inputs, *graph.outputs) if tensor.is_float]
    return DEFAULT_DTYPE[names[0]] if names else "fp32"


def compute_format(dtype: str) -> Format:
    """The format of a --dtype; GraphError if it is not supported."""
    if dtype == "int8":
        floats = f"formats that need none are {', '.join(STORAGE)}"
        raise GraphError([f"--dtype int8 needs samples of the inputs: --calibrate FILE.npz; {floats}"])
    if dtype == "auto":
        raise GraphError(["--dtype auto: formats are chosen by tx8cc and tx8.compile, before they compile"])
    if dtype not in STORAGE:
        allowed = f"{', '.join(STORAGE)}, auto, and int8 with samples of the inputs"
        near = hint(dtype, (*STORAGE, "auto", "int8"))
        raise GraphError([f"unknown dtype '{dtype}'; allowed are {allowed}{near}"])
    return Format.parse(dtype)


def within_range(values: Array, fmt: Format) -> Array:
    """Return constants whose finite numbers beyond the format's range are replaced by its largest ones.

    Exporters write masks as 0 or 1 times the lowest FP32 number; times an infinity they would be NaN. A
    single number that would become 0 usually keeps a divisor or the operand of a Log from being 0. It becomes
    the smallest number of the format.
    """
    exponent_bits, mantissa_bits = EXPONENT_BITS[fmt], MANTISSA_BITS[fmt]
    smallest = widen(1, exponent_bits, mantissa_bits)
    largest = widen((((1 << exponent_bits) - 1) << mantissa_bits) - 1, exponent_bits, mantissa_bits)
    if values.size == 1 and 0.0 < abs(float(values.reshape(()))) < smallest:
        return np.copysign(smallest, values).astype(np.float64)
    if values.size == 0:
        return values
    low, high = extremes(values)
    if high <= largest and low >= -largest:
        return values
    wide = values.astype(np.float64)
    return np.where(np.isinf(wide), wide, np.clip(wide, -largest, largest))


def extremes(values: Array) -> tuple[float, float]:
    """The smallest and the largest number of a float array that is not empty; NaN if it has one.

    Numbers of two bytes are compared as integers, which NumPy does many times as fast. Positive numbers are
    in the order of their bits, negative ones in the opposite order.
    """
    if values.dtype not in _SHORT:
        return float(values.min()), float(values.max())
    signed, unsigned = values.view(np.int16), values.view(np.uint16)
    greatest, furthest = int(signed.max()), int(unsigned.max())
    high = greatest if greatest >= 0 else int(unsigned.min())
    low = furthest if furthest >= _SIGN else int(signed.min())
    found = np.array([low, high], np.uint16).view(values.dtype).astype(np.float64)
    least, most = (math.nan,) * 2 if np.isnan(found).any() else found
    return float(least), float(most)


_SHORT = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))
_SIGN = 1 << 15
"""The bit of the sign of a number of two bytes."""


def all_finite(values: Array, fmt: Format) -> bool:
    """True if an array in the storage dtype of a float format has neither infinities nor NaN.

    Their exponents have all bits set, so the largest magnitudes with both signs decide; integers are compared
    faster.
    """
    sign = 1 << (EXPONENT_BITS[fmt] + MANTISSA_BITS[fmt])
    infinity = (sign - 1) & -(1 << MANTISSA_BITS[fmt])
    if values.size == 0:
        return True
    each = values.dtype.itemsize
    above, below = int(values.view(f"i{each}").max()), int(values.view(f"u{each}").max())
    return above < infinity and below < sign + infinity
