"""Operands of the matrix engine, which takes FP16, BF16 and TF32.

An FP32 value is the sum of two TF32 values, hi = round(x) and lo = round(x - hi), up to a relative error of
2**-22. A product of FP32 matrices is accumulated in FP32 as hi*hi + hi*lo + lo*hi; what is left out is below
2**-21 of each term. Values that round to an infinite hi have no lo: beyond 3.4e38 the result is NaN.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Argument, Kernel
from compiler.evaluation.storage import all_finite, within_range
from compiler.graph import Array
from tx8isa.numbers.formats import Format
from tx8isa.numbers.packing import storage_dtype
from tx8isa.numbers.rounding import rounded

from .aligned import Aligned, slice_buffer
from .vector import Vector, convert


def engine_format(compute: Format) -> Format:
    """The format of the matrix engine's operands for a compute format."""
    return Format.TF32 if compute is Format.FP32 else compute


def part_count(compute: Format) -> int:
    """Number of operands of the engine that represent one operand of a product."""
    return 2 if compute is Format.FP32 else 1


PRODUCTS = ((0, 0), (0, 1), (1, 0))
"""Pairs of parts that are multiplied; only the first pair if an operand has one part."""


def stored(data: Array, fmt: Format) -> Array:
    """Constants rounded to a format (``within_range``), in the dtype whose elements hold its bits."""
    if not fmt.is_float:
        return np.asarray(data).astype(storage_dtype(fmt))
    array = np.asarray(data)
    if fmt is not Format.TF32 and array.dtype == storage_dtype(fmt) and all_finite(array, fmt):
        return array  # large weights need no detour over binary64
    return rounded(within_range(array, fmt), fmt)


def constant_parts(data: Array, compute: Format) -> list[Array]:
    """The parts of a constant operand of the matrix engine."""
    if compute is not Format.FP32:
        return [stored(data, compute)]
    single = np.asarray(data).astype(np.float32)
    high = rounded(single, Format.TF32)
    return [high, rounded(single - high, Format.TF32)]


def split(kernel: Kernel, source: Aligned, squares: bool = False) -> list[Aligned]:
    """The parts of an operand of the matrix engine that is in the scratchpad.

    Low parts of ``squares`` are not negative, and 0 for infinity, so that an infinite sum stays infinite.
    """
    if source.fmt is not Format.FP32:
        return [source]
    grid, channels, n = source.grid, source.channels, source.elements
    high = slice_buffer(kernel, "hi", Format.TF32, grid, channels)
    low = slice_buffer(kernel, "lo", Format.TF32, grid, channels)
    rounding = "rtz" if squares else "rne"
    kernel.emit("ct.cvt.fp32.tf32", dst=high.base, src0=source.base, n=n, rnd=rounding)
    vector = Vector(kernel, Format.FP32, n)
    vector.vv("sub", low.base, source.base, high.base)
    if squares:
        vector.vs("max", low.base, low.base, 0.0)  # of NaN, the difference of infinities, too
    convert(kernel, low.base, low.base, n, Format.FP32, Format.TF32)
    return [high, low]


def multiply_parts(
    kernel: Kernel,
    mnemonic: str,
    left: tuple[str, Sequence[Value]],
    right: tuple[str, Sequence[Value]],
    out: Value,
    accumulate: bool,
    operands: dict[str, Argument],
) -> None:
    """Emit the products of all parts into ``out``; with ``accumulate`` they are added to its FP32 content.

    ``left`` and ``right``: operand name and one address per part.
    """
    pairs = PRODUCTS if len(left[1]) > 1 else PRODUCTS[:1]
    for step, (a, b) in enumerate(pairs):
        arguments: dict[str, Argument] = {left[0]: left[1][a], right[0]: right[1][b], "out": out, **operands}
        if accumulate or step:
            arguments["psum"] = out
        kernel.emit(mnemonic, **arguments)
