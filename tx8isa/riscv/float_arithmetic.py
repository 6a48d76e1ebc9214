"""IEEE 754 arithmetic of the RISC-V F and D instructions, in integers, over bit patterns.

Source: RISC-V manual, volume I, chapters "F" and "D"; IEEE 754-2008 (spec). ``form`` is (exponent
bits, stored mantissa bits); patterns are unsigned 32-bit or any 64-bit words; ``rm`` is one of the five
rounding modes. Results come as (pattern, flags). Nothing here depends on the modes or the flags of a host.

A finite number is unpacked into sign, exponent and significand: ``significand * 2**(exponent - 62)`` with the
leading one at bit 62. Dropped non-zero bits of a shift set the lowest bit ("jammed"), which is enough for
correct rounding.
"""

from __future__ import annotations

from tx8isa.numbers.formats import canonical_nan
from tx8isa.numbers.primitives import mulhu, s64, u32, u64

Form = tuple[int, int]
SINGLE, DOUBLE = (8, 23), (11, 52)

RNE, RTZ, RDN, RUP, RMM, DYN = 0, 1, 2, 3, 4, 7
"""Codes of the rounding modes; DYN takes the one in frm. 5 and 6 are reserved."""
NX, UF, OF, DZ, NV = 1, 2, 4, 8, 16
"""Accrued exceptions: inexact, underflow, overflow, division by zero, invalid."""

ZERO, FINITE, INFINITY, QUIET, SIGNALING = 0, 1, 2, 3, 4
"""Kinds of patterns; QUIET and later ones are NaN."""

TOP = 62
"""Bit of the leading one of a significand."""
_BOXED = -1 << 32


def unbox(word: int) -> int:
    """The binary32 in an f register; a value that is not NaN-boxed counts as the canonical NaN."""
    return u32(word) if word >> 32 == -1 else 0x7FC00000


def boxed(result: tuple[int, int]) -> tuple[int, int]:
    """A binary32 result as an f register holds it, the upper half all ones; and its flags."""
    return result[0] | _BOXED, result[1]


def one(form: Form) -> int:
    """Pattern of 1.0."""
    exponent_bits, mantissa_bits = form
    return ((1 << (exponent_bits - 1)) - 1) << mantissa_bits


def sign_bit(form: Form) -> int:
    """Pattern of -0.0."""
    exponent_bits, mantissa_bits = form
    return s64(1 << (exponent_bits + mantissa_bits))


def nan(form: Form) -> int:
    """The NaN of every operation."""
    exponent_bits, mantissa_bits = form
    return canonical_nan(exponent_bits, mantissa_bits)


def infinity(form: Form, sign: int) -> int:
    """Pattern of an infinity."""
    exponent_bits, mantissa_bits = form
    return s64(sign << (exponent_bits + mantissa_bits) | ((1 << exponent_bits) - 1) << mantissa_bits)


def unpack(bits: int, form: Form) -> tuple[int, int, int, int]:
    """(sign, exponent, significand, kind); exponent and significand are valid for finite numbers only."""
    exponent_bits, mantissa_bits = form
    sign = bits >> (exponent_bits + mantissa_bits) & 1
    exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1)
    fraction = bits & ((1 << mantissa_bits) - 1)
    bias = (1 << (exponent_bits - 1)) - 1
    if exponent == (1 << exponent_bits) - 1:
        if fraction == 0:
            return sign, 0, 0, INFINITY
        return sign, 0, 0, QUIET if fraction >> (mantissa_bits - 1) else SIGNALING
    if exponent == 0:
        if fraction == 0:
            return sign, 0, 0, ZERO
        shift = leading(fraction)
        return sign, 1 - bias + TOP - mantissa_bits - shift, fraction << shift, FINITE
    return sign, exponent - bias, (fraction | 1 << mantissa_bits) << (TOP - mantissa_bits), FINITE


def leading(value: int) -> int:
    """Left shift that brings the leading one of ``0 < value < 2**63`` to bit 62."""
    shift = 0
    step = 32
    while step > 0:
        if value < 1 << (63 - step):
            value <<= step
            shift += step
        step >>= 1
    return shift


def jam(value: int, shift: int) -> int:
    """``value >> shift`` of a non-negative word, for any shift >= 0, the dropped bits jammed."""
    if shift > TOP:
        return 1 if value else 0
    return value >> shift | (1 if value & ((1 << shift) - 1) else 0)


def away(rm: int, sign: int, lowest: int, rest: int, half: int) -> bool:
    """Return True if a magnitude is rounded up; ``half``: half a kept unit, ``rest``: the dropped bits."""
    if rm == RNE:
        return rest > half or (rest == half and lowest == 1)
    if rm == RDN:
        return rest != 0 and sign == 1
    if rm == RUP:
        return rest != 0 and sign == 0
    return rm == RMM and rest >= half


def pack(sign: int, exponent: int, significand: int, form: Form, rm: int) -> tuple[int, int]:
    """Round an unpacked number once; the lowest bit of the significand may be jammed.

    Underflow: the result is inexact and, rounded with an unbounded exponent, still below the normal range.
    """
    exponent_bits, mantissa_bits = form
    drop = TOP - mantissa_bits
    half, below = 1 << (drop - 1), (1 << drop) - 1
    field = exponent + (1 << (exponent_bits - 1)) - 1
    top = (1 << exponent_bits) - 1
    underflow = 0
    if field < 1:
        kept = significand >> drop
        carried = away(rm, sign, kept & 1, significand & below, half) and kept == (2 << mantissa_bits) - 1
        underflow = 0 if field == 0 and carried else UF
        significand = jam(significand, 1 - field)
        field = 1
    kept, rest = significand >> drop, significand & below
    if away(rm, sign, kept & 1, rest, half):
        kept += 1
    negative = sign << (exponent_bits + mantissa_bits)
    # The hidden bit of `kept` raises the exponent field by one, a carry out of the mantissa by another.
    if field >= top or (field - 1 << mantissa_bits) + kept >= top << mantissa_bits:
        to_infinity = rm in (RNE, RMM) or (rm == RDN and sign == 1) or (rm == RUP and sign == 0)
        largest = (top << mantissa_bits) - (0 if to_infinity else 1)
        return s64(negative | largest), OF | NX
    return s64(negative | (field - 1 << mantissa_bits) + kept), (NX | underflow) if rest else 0


def jam_pair(high: int, low: int, shift: int) -> tuple[int, int]:
    """``jam`` of a 128-bit number whose upper word is not negative."""
    if shift == 0:
        return high, low
    if shift < 64:
        lost = 1 if u64(u64(low) << u64(64 - shift)) != 0 else 0
        return high >> shift, s64(u64(low) >> u64(shift) | u64(high) << u64(64 - shift)) | lost
    if shift == 64:
        return 0, high | (1 if low else 0)
    return 0, jam(high, shift - 64) | (1 if low else 0)


def fused(a: int, b: int, c: int, rm: int, form: Form) -> tuple[int, int]:
    """a * b + c, rounded once. With b = 1.0 a sum; with c a zero of the product's sign a product."""
    sign_a, exponent_a, significand_a, kind_a = unpack(a, form)
    sign_b, exponent_b, significand_b, kind_b = unpack(b, form)
    sign_c, exponent_c, significand_c, kind_c = unpack(c, form)
    sign = sign_a ^ sign_b
    invalid = (kind_a == INFINITY and kind_b == ZERO) or (kind_a == ZERO and kind_b == INFINITY)
    if kind_a >= QUIET or kind_b >= QUIET or kind_c >= QUIET or invalid:
        signals = kind_a == SIGNALING or kind_b == SIGNALING or kind_c == SIGNALING
        return nan(form), NV if signals or invalid else 0
    if kind_a == INFINITY or kind_b == INFINITY:
        if kind_c == INFINITY and sign_c != sign:
            return nan(form), NV
        return infinity(form, sign), 0
    if kind_c == INFINITY:
        return infinity(form, sign_c), 0
    if kind_a == ZERO or kind_b == ZERO:
        if kind_c == ZERO and sign_c != sign:
            return sign_bit(form) if rm == RDN else 0, 0
        return s64(c), 0
    high, low = mulhu(significand_a, significand_b), s64(significand_a * significand_b)
    product = exponent_a + exponent_b
    if kind_c == ZERO:
        return pack_pair(sign, product, high, low, form, rm)
    return sum_pair(sign, product, high, low, sign_c, exponent_c, significand_c >> 2, form, rm)


def sum_pair(
    sign: int,
    exponent: int,
    high: int,
    low: int,
    sign_c: int,
    exponent_c: int,
    other: int,
    form: Form,
    rm: int,
) -> tuple[int, int]:
    """A product (as in ``pack_pair``) plus ``other`` * 2**(exponent_c - 60)."""
    rest = 0
    if exponent > exponent_c:
        other, rest = jam_pair(other, rest, exponent - exponent_c)
    else:
        high, low = jam_pair(high, low, exponent_c - exponent)
        exponent = exponent_c
    if sign == sign_c:
        total = s64(low + rest)
        return pack_pair(sign, exponent, high + other + (1 if u64(total) < u64(low) else 0), total, form, rm)
    if high < other or (high == other and u64(low) < u64(rest)):
        sign = sign_c
        high, low, other, rest = other, rest, high, low
    high -= other + (1 if u64(low) < u64(rest) else 0)
    low = s64(low - rest)
    if high == 0 and low == 0:
        return sign_bit(form) if rm == RDN else 0, 0
    return pack_pair(sign, exponent, high, low, form, rm)


def pack_pair(sign: int, exponent: int, high: int, low: int, form: Form, rm: int) -> tuple[int, int]:
    """Round ``(high * 2**64 + low) * 2**(exponent - 124)``, not zero, 0 <= high < 2**63."""
    if high == 0:
        high, low = s64(u64(low) >> u64(2)), s64(low << 62)
        exponent -= TOP
    shift = leading(high)
    if shift:
        high = high << shift | s64(u64(low) >> u64(64 - shift))
        low = s64(u64(low) << u64(shift))
    return pack(sign, exponent + 2 - shift, high | (1 if low else 0), form, rm)


def multiply(a: int, b: int, rm: int, form: Form) -> tuple[int, int]:
    """a * b."""
    return fused(a, b, (a ^ b) & sign_bit(form), rm, form)


def divide(a: int, b: int, rm: int, form: Form) -> tuple[int, int]:
    """a / b."""
    sign_a, exponent_a, significand_a, kind_a = unpack(a, form)
    sign_b, exponent_b, significand_b, kind_b = unpack(b, form)
    sign = sign_a ^ sign_b
    if kind_a >= QUIET or kind_b >= QUIET:
        return nan(form), NV if kind_a == SIGNALING or kind_b == SIGNALING else 0
    if kind_a == kind_b and kind_a != FINITE:
        return nan(form), NV
    if kind_a == INFINITY:
        return infinity(form, sign), 0
    if kind_b == ZERO:
        return infinity(form, sign), DZ
    if kind_a == ZERO or kind_b == INFINITY:
        return infinity(form, sign) & sign_bit(form), 0
    exponent = exponent_a - exponent_b
    rest, divisor = significand_a >> 2, significand_b >> 2
    if rest < divisor:
        rest <<= 1
        exponent -= 1
    quotient = 0
    for _ in range(form[1] + 3):
        quotient <<= 1
        if rest >= divisor:
            rest -= divisor
            quotient |= 1
        rest <<= 1
    return pack(sign, exponent, quotient << (TOP - form[1] - 2) | (1 if rest else 0), form, rm)


def square_root(a: int, rm: int, form: Form) -> tuple[int, int]:
    """Square root, two bits of the radicand at a time."""
    sign, exponent, significand, kind = unpack(a, form)
    if kind >= QUIET:
        return nan(form), NV if kind == SIGNALING else 0
    if kind == ZERO:
        return s64(a), 0
    if sign == 1:
        return nan(form), NV
    if kind == INFINITY:
        return infinity(form, 0), 0
    radicand = u64(significand) << u64(exponent & 1)
    root = rest = 0
    for _ in range(form[1] + 3):
        rest = rest << 2 | s64(u64(radicand) >> u64(62))
        radicand = u64(radicand << u64(2))
        trial = root << 2 | 1
        root <<= 1
        if rest >= trial:
            rest -= trial
            root |= 1
    return pack(0, exponent >> 1, root << (TOP - form[1] - 2) | (1 if rest else 0), form, rm)


def ordered(a: int, form: Form) -> int:
    """An integer that orders numbers as their values do; both zeros give 0."""
    magnitude = a & s64(sign_bit(form) - 1)
    return -magnitude if a & sign_bit(form) else magnitude


def smaller(a: int, b: int, form: Form) -> tuple[int, int]:
    """minimumNumber: one NaN gives the other operand, -0 is less than +0."""
    kind_a, kind_b = unpack(a, form)[3], unpack(b, form)[3]
    flags = NV if kind_a == SIGNALING or kind_b == SIGNALING else 0
    if kind_a >= QUIET:
        return (nan(form) if kind_b >= QUIET else b), flags
    if kind_b >= QUIET:
        return a, flags
    key_a, key_b = ordered(a, form), ordered(b, form)
    return (a if key_a < key_b or (key_a == key_b and a & sign_bit(form) != 0) else b), flags


def larger(a: int, b: int, form: Form) -> tuple[int, int]:
    """maximumNumber: the mirror of ``smaller``."""
    flip = sign_bit(form)
    result, flags = smaller(a ^ flip, b ^ flip, form)
    kind = unpack(result, form)[3]
    return (nan(form) if kind >= QUIET else result ^ flip), flags


def equal(a: int, b: int, form: Form) -> tuple[int, int]:
    """Quiet comparison: only a signaling NaN is invalid."""
    kind_a, kind_b = unpack(a, form)[3], unpack(b, form)[3]
    if kind_a >= QUIET or kind_b >= QUIET:
        return 0, NV if kind_a == SIGNALING or kind_b == SIGNALING else 0
    return (1 if ordered(a, form) == ordered(b, form) else 0), 0


def less(a: int, b: int, form: Form) -> tuple[int, int]:
    """a < b; any NaN is invalid."""
    if unpack(a, form)[3] >= QUIET or unpack(b, form)[3] >= QUIET:
        return 0, NV
    return (1 if ordered(a, form) < ordered(b, form) else 0), 0


def less_or_equal(a: int, b: int, form: Form) -> tuple[int, int]:
    """a <= b; any NaN is invalid."""
    if unpack(a, form)[3] >= QUIET or unpack(b, form)[3] >= QUIET:
        return 0, NV
    return (1 if ordered(a, form) <= ordered(b, form) else 0), 0


def classify(a: int, form: Form) -> int:
    """The bit of fclass: -inf, -normal, -subnormal, -0, +0, +subnormal, +normal, +inf, signaling, quiet."""
    sign, exponent, _, kind = unpack(a, form)
    if kind >= QUIET:
        return 1 << 8 if kind == SIGNALING else 1 << 9
    rank = 3 if kind == INFINITY else 2
    if kind == ZERO:
        rank = 0
    elif kind == FINITE and exponent < 2 - (1 << (form[0] - 1)):
        rank = 1
    return 1 << (3 - rank if sign else 4 + rank)
