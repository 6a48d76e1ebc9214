"""Conversions between stored formats and binary32, the format fast kernels compute in.

A stored number is an unsigned bit pattern (an int), a binary32 is ``numpy.float32``. Widening is exact.
Narrowing rounds once, nearest even, and every NaN becomes the canonical one, 0x7E00, 0x7FC0 or 0x7FC00000
(docs/isa.md, Number model, proposed). FP16 and BF16 sums, differences and products computed in binary32
and narrowed once are the correctly rounded results, because 24 >= 2*11 + 2 significand bits. TF32 has the
exponent range of binary32 and 11 significand bits, so its products below the normal range would be rounded
twice. So its kernels compute in binary64.
"""

from __future__ import annotations

import struct

import numpy as np

NAN_FP16 = 0x7E00
NAN_BF16 = 0x7FC0
NAN_FP32 = 0x7FC00000


def bits_f32(bits: int) -> np.float32:
    """The binary32 with this 32-bit pattern."""
    return np.uint32(bits & 0xFFFFFFFF).view(np.float32)


def f32_bits(x: np.float32) -> int:
    """Bit pattern of a binary32, NaN payload included."""
    return int(np.float32(x).view(np.uint32))


def single(x: float) -> np.float32:
    """Round a number to binary32, nearest even; constants of binary32 expressions are wrapped in it."""
    return np.float32(x)


def fp16_to_f32(bits: int) -> np.float32:
    """Widen FP16; a NaN keeps its sign and payload and becomes quiet."""
    bits &= 0xFFFF
    sign, magnitude = (bits & 0x8000) << 16, bits & 0x7FFF
    if magnitude > 0x7C00:
        return bits_f32(sign | 0x7FC00000 | magnitude << 13)
    value = struct.unpack("<e", struct.pack("<H", bits))[0]
    return np.float32(value)


def bf16_to_f32(bits: int) -> np.float32:
    """Widen BF16: the pattern is the upper half of the binary32."""
    return bits_f32((bits & 0xFFFF) << 16)


def tf32_to_f32(bits: int) -> np.float32:
    """Read a stored TF32: the low 13 bits are ignored (docs/isa.md, Number model)."""
    return bits_f32(bits & 0xFFFFE000)


def f32_to_fp16(x: np.float32) -> int:
    """Round to FP16, nearest even; subnormals kept, overflow gives infinity, NaN is canonical."""
    if x != x:
        return NAN_FP16
    return int(np.float32(x).astype(np.float16).view(np.uint16))


def f32_to_bf16(x: np.float32) -> int:
    """Round to BF16, nearest even; NaN is canonical."""
    if x != x:
        return NAN_BF16
    bits = f32_bits(x)
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def f32_to_tf32(x: np.float32) -> int:
    """Round to TF32, nearest even; the low 13 bits are zero, NaN is canonical."""
    if x != x:
        return NAN_FP32
    bits = f32_bits(x)
    return (bits + 0xFFF + (bits >> 13 & 1)) & 0xFFFFE000


def f32_to_fp32(x: np.float32) -> int:
    """The pattern to store for an FP32 result: NaN is canonical, everything else unchanged."""
    return NAN_FP32 if x != x else f32_bits(x)
