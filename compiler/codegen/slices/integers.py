"""Integers in the scratchpad that the vector engine converts to FP32 and back.

The converts know signed bytes only. An unsigned byte with its highest bit inverted is the signed byte whose
value is 128 less.
"""

from __future__ import annotations

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel
from tx8isa.numbers.formats import Format

from .vector import Vector, convert

OFFSET = 128
"""The value of an unsigned byte minus that of the signed byte with the highest bit inverted."""

_BITS = 8
"""Bits of a byte, the unit that the instruction repeats; it ignores an incomplete unit."""


def integers_to_fp32(kernel: Kernel, dst: Value, src: Value, n: Value, fmt: Format) -> None:
    """dst = src, ``n`` elements of INT8, UINT8 or INT32; unsigned bytes are overwritten."""
    if fmt is not Format.UINT8:
        convert(kernel, dst, src, n, fmt, Format.FP32)
        return
    _invert_signs(kernel, src, n)
    convert(kernel, dst, src, n, Format.INT8, Format.FP32)
    Vector(kernel, Format.FP32, n).vs("add", dst, dst, OFFSET)


def fp32_to_bytes(kernel: Kernel, dst: Value, src: Value, n: Value, fmt: Format) -> None:
    """dst = src to nearest even within the range of INT8 or UINT8; ``src`` is overwritten for UINT8."""
    if fmt is Format.UINT8:
        Vector(kernel, Format.FP32, n).vs("add", src, src, -OFFSET)
    convert(kernel, dst, src, n, Format.FP32, Format.INT8)
    if fmt is Format.UINT8:
        _invert_signs(kernel, dst, n)


def _invert_signs(kernel: Kernel, data: Value, n: Value) -> None:
    """Invert the highest bit of ``n`` bytes."""
    signs = kernel.buffer("signs", 1)
    kernel.emit("td.memset.int8", dst=signs, value=1 << (_BITS - 1), n=1)
    kernel.emit("ct.xor.bv.bvubv", dst=data, src0=data, src1=signs, n=n * _BITS, unit=_BITS)
