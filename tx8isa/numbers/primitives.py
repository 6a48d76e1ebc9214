"""The vocabulary in which instruction bodies are written.

Each function has two implementations. The plain Python one here is the definition. The emulator substitutes a
machine-code one by name when it compiles a body. Integers are Python ints here and 64-bit machine words
there, so a body keeps every value inside 64 bits by calling ``u64`` or ``s64``. Floats are IEEE binary64 in
both, without contraction or reordering, so the bits agree.
"""

from __future__ import annotations

import math
import struct

_MASK64 = (1 << 64) - 1
_MASK32 = (1 << 32) - 1


def u64(value: int) -> int:
    """The low 64 bits as an unsigned integer."""
    return value & _MASK64


def s64(value: int) -> int:
    """The low 64 bits as a two's complement integer."""
    value &= _MASK64
    return value - (1 << 64) if value >> 63 else value


def u32(value: int) -> int:
    """The low 32 bits as an unsigned integer."""
    return value & _MASK32


def s32(value: int) -> int:
    """The low 32 bits as a two's complement integer."""
    value &= _MASK32
    return value - (1 << 32) if value >> 31 else value


def mulh(a: int, b: int) -> int:
    """Upper 64 bits of the signed 128-bit product of two signed words."""
    return s64((a * b) >> 64)


def mulhu(a: int, b: int) -> int:
    """Upper 64 bits of the unsigned product; operands are words of any sign, taken as unsigned."""
    return s64((u64(a) * u64(b)) >> 64)


def mulhsu(a: int, b: int) -> int:
    """Upper 64 bits of signed ``a`` times unsigned ``b``."""
    return s64((a * u64(b)) >> 64)


def bits64(x: float) -> int:
    """Bit pattern of a binary64 as a signed 64-bit integer: bit 63, the sign, makes it negative."""
    return int(struct.unpack("<q", struct.pack("<d", x))[0])


def from_bits64(bits: int) -> float:
    """The binary64 whose pattern is the low 64 bits of ``bits``."""
    return float(struct.unpack("<d", struct.pack("<Q", bits & _MASK64))[0])


def sqrt(x: float) -> float:
    """Correctly rounded binary64 square root; NaN below zero, -0 of -0."""
    if x != x or x < 0.0:
        return math.nan
    return math.sqrt(x)


def divide(a: float, b: float) -> float:
    """IEEE binary64 quotient: division by zero gives a signed infinity; every NaN result is ``math.nan``."""
    if b == 0.0:
        if a == 0.0 or a != a:
            return math.nan
        return math.copysign(math.inf, a) * math.copysign(1.0, b)
    quotient = a / b
    return quotient if quotient == quotient else math.nan


def fma32(a: float, b: float, c: float) -> float:
    """Fused multiply-add of binary32 values: ``a*b + c`` rounded once to binary32, nearest even.

    The operands are floats that hold binary32 values, or all three ``numpy.float32``; the result is of their
    type. Every NaN result is the positive quiet NaN without payload.

    The product of two binary32 is exact in binary64. Its sum with ``c`` is rounded to odd there (the error
    of the addition is known exactly), so that the final rounding to binary32 is the only one.
    """
    kind = type(c)
    product = float(a) * float(b)
    addend = float(c)
    total = product + addend
    if total - total != 0.0:  # infinity or NaN: nothing to correct
        return kind(total if total == total else math.nan)
    kept = total - product
    error = (product - (total - kept)) + (addend - kept)
    if error != 0.0:
        bits = bits64(total)
        if bits & 1 == 0:
            toward_larger = (error > 0.0) == (total > 0.0)
            total = from_bits64(bits + 1 if toward_larger else bits - 1)
    return kind(f32(total))


def fma64(a: float, b: float, c: float) -> float:
    """Fused multiply-add: ``a*b + c`` rounded once, nearest even; NaN results are ``math.nan``."""
    plain = a * b + c
    if math.isfinite(a) and math.isfinite(b) and not math.isfinite(c):
        return c if c == c else math.nan  # the rounded product may overflow where the exact one does not
    if not (math.isfinite(a) and math.isfinite(b)):
        return plain if plain == plain else math.nan
    (p, q), (r, s), (t, u) = a.as_integer_ratio(), b.as_integer_ratio(), c.as_integer_ratio()
    exact = p * r * u + t * q * s
    if exact == 0:
        return plain  # the product is exact then, and the sum has the sign of a zero sum
    try:
        return exact / (q * s * u)  # the quotient of two integers is correctly rounded
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def f32(x: float) -> float:
    """``x`` rounded to binary32, nearest even; overflow gives an infinity, NaN is ``math.nan``."""
    if x != x:
        return math.nan
    try:
        return float(struct.unpack("<f", struct.pack("<f", x))[0])
    except OverflowError:
        return math.copysign(math.inf, x)


def add32(a: float, b: float) -> float:
    """Binary32 sum of two binary32 numbers, all held by binary64; the payload of a NaN is unspecified."""
    return f32(a + b)


def mul32(a: float, b: float) -> float:
    """Binary32 product, as ``add32``."""
    return f32(a * b)


def bits32(x: float) -> int:
    """Bit pattern, 32 bits unsigned, of a binary32 number held by binary64."""
    return int(struct.unpack("<I", struct.pack("<f", x))[0])


def from_bits32(bits: int) -> float:
    """The binary32 whose pattern is the low 32 bits of ``bits``, held by binary64."""
    return float(struct.unpack("<f", struct.pack("<I", bits & _MASK32))[0])
