"""Number formats of the chip: codes, widths, and exact conversion between bit patterns and reals.

The codes are those of docs/isa.md, Formats (spec). The widening and narrowing functions define every
rounding. They are plain integer and binary64 code, which the emulator compiles unchanged.
"""

from __future__ import annotations

from enum import IntEnum

from tx8isa.errors import Tx8Error

from .primitives import bits64, from_bits64


class FormatError(Tx8Error):
    """A format name that does not exist."""


class Format(IntEnum):
    """``Data_Format``: the element types an operand may have, with the code the registers hold."""

    INT8 = 0
    INT16 = 1
    FP16 = 2
    BF16 = 3
    INT32 = 4
    FP32 = 5
    TF32 = 6
    BOOL = 7
    UINT8 = 8
    UINT16 = 9
    UINT32 = 10
    INT64 = 11
    UINT64 = 12

    @property
    def token(self) -> str:
        """Spelling in assembly, images and graphs: ``fp16``."""
        return _TOKENS[self]

    @property
    def bits(self) -> int:
        """Storage bits of one element; BOOL is packed, TF32 occupies a whole word."""
        return _BITS[self]

    @property
    def is_float(self) -> bool:
        return self in FLOATS

    @classmethod
    def parse(cls, token: str) -> Format:
        """Return the format spelt ``token``; FormatError names the allowed ones."""
        try:
            return cls[token.upper()]
        except KeyError:
            allowed = " ".join(f.token for f in cls)
            raise FormatError(f"unknown format '{token}': expected one of {allowed}") from None


_TOKENS = {fmt: fmt.name.lower() for fmt in Format}
_BITS = {
    Format.INT8: 8,
    Format.INT16: 16,
    Format.FP16: 16,
    Format.BF16: 16,
    Format.INT32: 32,
    Format.FP32: 32,
    Format.TF32: 32,
    Format.BOOL: 1,
    Format.UINT8: 8,
    Format.UINT16: 16,
    Format.UINT32: 32,
    Format.INT64: 64,
    Format.UINT64: 64,
}

FLOATS = (Format.FP16, Format.BF16, Format.FP32, Format.TF32)
INTEGERS = (Format.INT8, Format.INT16, Format.INT32)
DMA_FORMATS = tuple(Format)[: Format.BOOL + 1]
MOVE_FORMATS = (*INTEGERS, *FLOATS)

STORAGE_BITS = tuple(_BITS[f] for f in Format)
"""Storage bits by format code."""

EXPONENT_BITS = (0, 0, 5, 8, 0, 8, 8)
"""Width of the exponent field by format code; 0 marks an integer."""

MANTISSA_BITS = (0, 0, 10, 7, 0, 23, 10)
"""Stored mantissa bits that carry value, by format code; TF32 keeps 10 of its 23."""


def holds(wide: Format, narrow: Format) -> bool:
    """Return True if every number of the float format ``narrow`` is a number of ``wide``."""
    return EXPONENT_BITS[wide] >= EXPONENT_BITS[narrow] and MANTISSA_BITS[wide] >= MANTISSA_BITS[narrow]


class Rounding(IntEnum):
    """``rnd_mode`` (docs/isa.md, Rounding modes, spec); codes 5..15 are illegal (proposed)."""

    RNE = 0
    RTZ = 1
    RUP = 2
    RDN = 3
    STOCHASTIC = 4


_EXPONENT64 = 0x7FF
_FRACTION64 = (1 << 52) - 1


def largest_number(fmt: Format) -> float:
    """Return the largest finite number of a float format."""
    return float((2.0 - 2.0 ** -MANTISSA_BITS[fmt]) * 2.0 ** (2 ** (EXPONENT_BITS[fmt] - 1) - 1))


def canonical_nan(exponent_bits: int, mantissa_bits: int) -> int:
    """The quiet NaN of arithmetic (docs/isa.md, Number model, proposed): sign 0, top mantissa bit 1."""
    return ((1 << exponent_bits) - 1) << mantissa_bits | 1 << (mantissa_bits - 1)


def widen(bits: int, exponent_bits: int, mantissa_bits: int) -> float:
    """The real number of a float pattern; every format fits binary64 exactly.

    ``bits`` is a pattern of 1 + exponent_bits + mantissa_bits bits. NaN payloads are not kept.
    """
    bias = (1 << (exponent_bits - 1)) - 1
    fraction = bits & ((1 << mantissa_bits) - 1)
    exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1)
    sign = (bits >> (exponent_bits + mantissa_bits)) & 1
    if exponent == (1 << exponent_bits) - 1:
        wide = (_EXPONENT64 << 52) | (fraction << (52 - mantissa_bits))
        return from_bits64(sign << 63 | wide)
    if exponent == 0:
        scale = from_bits64((1023 + 1 - bias - mantissa_bits) << 52)
        magnitude = float(fraction) * scale
        return -magnitude if sign else magnitude
    wide = ((exponent - bias + 1023) << 52) | (fraction << (52 - mantissa_bits))
    return from_bits64(sign << 63 | wide)


def rounds_up(mode: int, negative: int, lowest: int, rest: int, half: int, random: int) -> bool:
    """Return True if a magnitude is rounded away from zero.

    ``lowest`` is the last kept bit, ``rest`` the dropped bits as an integer, ``half`` the value of half a
    unit in the same scale, ``random`` a value in 0..2*half-1 used by the stochastic mode alone.
    """
    if mode == 0:
        return rest > half or (rest == half and lowest == 1)
    if mode == 2:
        return rest != 0 and negative == 0
    if mode == 3:
        return rest != 0 and negative == 1
    if mode == 4:
        return random < rest
    return False


def narrow(x: float, exponent_bits: int, mantissa_bits: int, mode: int, random: int) -> int:
    """Pattern of ``x`` rounded once to a float format of ``1 + exponent_bits + mantissa_bits`` bits.

    Subnormal results are kept. Overflow gives infinity or the largest finite value, as IEEE 754 requires for
    the mode (stochastic: infinity). NaN gives the canonical NaN. ``random``: 52 random bits for mode 4.
    ``rounding.rounded`` rounds arrays in the same way, to nearest even.
    """
    pattern = bits64(x)
    negative = (pattern >> 63) & 1
    exponent = (pattern >> 52) & _EXPONENT64
    fraction = pattern & _FRACTION64
    sign = negative << (exponent_bits + mantissa_bits)
    infinity = ((1 << exponent_bits) - 1) << mantissa_bits
    if exponent == _EXPONENT64:
        return canonical_nan(exponent_bits, mantissa_bits) if fraction else sign | infinity
    bias = (1 << (exponent_bits - 1)) - 1
    target = exponent - 1023 + bias
    significand = fraction | 1 << 52 if exponent else fraction
    drop = 52 - mantissa_bits
    if target < 1:
        drop += 1 - target
        target = 1
    if drop > 54:
        # Below a quarter of the smallest number: only "not zero" and the probability of mode 4 matter.
        significand = (significand >> min(drop - 54, 63)) | (1 if significand else 0)
        drop = 54
    kept = significand >> drop
    rest = significand & ((1 << drop) - 1)
    random = random << (drop - 52) if drop > 52 else random >> (52 - drop)
    if rounds_up(mode, negative, kept & 1, rest, 1 << (drop - 1), random):
        kept += 1
    # The hidden bit of `kept` raises the exponent field by one, and a carry out of the mantissa by another.
    result = ((target - 1) << mantissa_bits) + kept
    if result >= infinity:
        toward_zero = mode == 1 or (mode == 2 and negative == 1) or (mode == 3 and negative == 0)
        result = infinity - 1 if toward_zero else infinity
    return sign | result


def sum_error(a: float, b: float, total: float) -> float:
    """Exact rounding error of the binary64 sum ``total`` of two numbers (two-sum)."""
    kept = total - a
    return (a - (total - kept)) + (b - kept)


def round_to_odd(x: float, error: float) -> float:
    """Move ``x`` to its odd neighbour when the exact result is ``x + error`` with a non-zero error.

    ``x`` is the nearest binary64 and ``error`` has the sign of its rounding error. An odd last bit marks the
    result as inexact, so that a second rounding to a narrower format is correct in every mode.
    """
    pattern = bits64(x)
    away = 1 if (error > 0.0) == (x > 0.0) else -1
    moves = (error != 0.0) & (x - x == 0.0) & (pattern & 1 == 0)
    return from_bits64(pattern + away) if moves else x


def integer_from(x: float, mode: int, low: int, high: int, random: int) -> int:
    """``x`` rounded to an integer by ``mode`` and saturated to low..high; NaN gives 0 (proposed)."""
    if x != x:
        return 0
    if x >= 2147483648.0:
        return high
    if x <= -2147483649.0:
        return low
    magnitude = -x if x < 0.0 else x
    whole = int(magnitude)
    rest = int((magnitude - float(whole)) * 4503599627370496.0)
    exact = float(whole) + float(rest) * (1.0 / 4503599627370496.0) == magnitude
    if not exact and rest == 0:
        rest = 1  # smaller than the grid of 2**-52, yet not zero
    negative = 1 if x < 0.0 else 0
    if rounds_up(mode, negative, whole & 1, rest, 1 << 51, random):
        whole += 1
    value = -whole if negative else whole
    return min(max(value, low), high)
