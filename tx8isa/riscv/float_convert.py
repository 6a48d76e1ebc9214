"""Conversions between the formats of F and D and to and from integers, as in ``float_arithmetic.py``."""

from __future__ import annotations

from tx8isa.numbers.primitives import s32, s64, u32, u64

from .float_arithmetic import (
    FINITE,
    INFINITY,
    NV,
    NX,
    QUIET,
    SIGNALING,
    TOP,
    ZERO,
    Form,
    away,
    infinity,
    jam,
    leading,
    nan,
    pack,
    sign_bit,
    unpack,
)

Integer = tuple[int, int]
INT32, UINT32, INT64, UINT64 = (32, 1), (32, 0), (64, 1), (64, 0)
"""Integer types of conversions: (bits, signed)."""


def convert(a: int, source: Form, form: Form, rm: int) -> tuple[int, int]:
    """Convert a number to another format; a NaN loses sign and payload."""
    sign, exponent, significand, kind = unpack(a, source)
    if kind >= QUIET:
        return nan(form), NV if kind == SIGNALING else 0
    if kind == INFINITY:
        return infinity(form, sign), 0
    if kind == ZERO:
        return infinity(form, sign) & sign_bit(form), 0
    return pack(sign, exponent, significand, form, rm)


def to_integer(a: int, form: Form, rm: int, integer: Integer) -> tuple[int, int]:
    """Round a number to an integer, sign-extended from its width; saturates out of range.

    A NaN gives the largest integer.
    """
    bits, signed = integer
    sign, exponent, significand, kind = unpack(a, form)
    if kind == ZERO:
        return 0, 0
    if kind != FINITE or exponent > 63:
        return extreme(0 if kind >= QUIET else sign, bits, signed), NV
    if exponent == 63:
        exact = sign == 1 and significand == 1 << TOP if signed else sign == 0
        return (s64(significand << 1), 0) if exact and bits == 64 else (extreme(sign, bits, signed), NV)
    whole, rest = significand, 0
    if exponent < TOP - 1:  # above, no format has bits below the integer
        quarters = jam(significand, TOP - 2 - exponent)
        whole, rest = quarters >> 2, quarters & 3
        if away(rm, sign, whole & 1, rest, 2):
            whole += 1
    elif exponent == TOP - 1:
        whole = significand >> 1
    limit = 1 << (31 if signed else 32)
    if bits == 32 and (whole >= limit if signed == 0 or sign == 0 else whole > limit):
        return extreme(sign, bits, signed), NV
    if signed == 0 and sign == 1 and whole != 0:
        return extreme(sign, bits, signed), NV
    value = -whole if sign else whole
    return (s32(value) if bits == 32 else value), NX if rest else 0


def extreme(sign: int, bits: int, signed: int) -> int:
    """The integer to which too small (sign 1) or too large numbers saturate."""
    if signed == 0:
        return 0 if sign else -1
    return s64(-(1 << (bits - 1))) if sign else s64((1 << (bits - 1)) - 1)


def from_integer(word: int, integer: Integer, form: Form, rm: int) -> tuple[int, int]:
    """Convert an integer, the low bits of a word, to the nearest number."""
    bits, signed = integer
    value = word
    if bits == 32:
        value = s32(word) if signed else u32(word)
    if value == 0:
        return 0, 0
    sign = 1 if signed and value < 0 else 0
    if value < 0 and (sign == 0 or value == s64(1 << 63)):
        return pack(sign, 63, s64(u64(value) >> u64(1)) | value & 1, form, rm)
    magnitude = -value if sign else value
    shift = leading(magnitude)
    return pack(sign, TOP - shift, magnitude << shift, form, rm)
