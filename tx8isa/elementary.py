"""Elementary functions in plain binary64: the meaning of the transcendental instructions.

Only additions, multiplications, divisions and bit patterns are used, never a library call whose last bit
depends on the host. Each result is within 2**-40 of the exact value (relative), so that one rounding to a
format of at most 24 significant bits is within 1 ulp of it; the tests print the worst case.
"""

from __future__ import annotations

from .primitives import bits64, divide, f32, floor, from_bits64, s64, sqrt, u32

INFINITY = float("inf")
NAN = float("nan")

_LN2_HIGH = 6.93147180369123816490e-01  # 32 significant bits, so that a small integer times it is exact
_LN2_LOW = 1.90821492927058770002e-10
_LOG2_E = 1.4426950408889634
_LN2 = 0.6931471805599453
_SQRT_HALF = 0.7071067811865476
_LOG2_E_FP32 = 1.44269502162933349609375  # FP32 0x3FB8AA3B, of exp_lp (docs/isa.md, Functions, board)


def _power_of_two(exponent: float) -> float:
    """2**exponent for an integral exponent in -1022..1023."""
    return from_bits64((int(exponent) + 1023) << 52)


def _exp_small(r: float) -> float:
    """e**r for abs(r) <= 0.35: Taylor to the 13th power, remainder below 2**-58."""
    p = 1.0 / 6227020800.0
    p = p * r + 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    return p * r * r + r + 1.0


def exp(x: float) -> float:
    """e**x; results outside the FP32 range are 0 or infinity."""
    if x != x:
        return NAN
    if x > 200.0:
        return INFINITY
    if x < -200.0:
        return 0.0
    k = floor(x * _LOG2_E + 0.5)
    return _exp_small((x - k * _LN2_HIGH) - k * _LN2_LOW) * _power_of_two(k)


def pow2(x: float) -> float:
    """2**x; results outside the FP32 range are 0 or infinity."""
    if x != x:
        return NAN
    if x > 300.0:
        return INFINITY
    if x < -300.0:
        return 0.0
    k = floor(x + 0.5)
    return _exp_small((x - k) * _LN2) * _power_of_two(k)


def exp_low_precision(x: float) -> float:
    """pow2 of one FP32 product x * log2(e) (docs/isa.md, Functions, board)."""
    return pow2(f32(x * _LOG2_E_FP32))


def _log_mantissa(m: float) -> float:
    """ln(m) for m in sqrt(1/2)..sqrt(2), by the odd series of (m-1)/(m+1)."""
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    p = 1.0 / 21.0
    p = p * z + 1.0 / 19.0
    p = p * z + 1.0 / 17.0
    p = p * z + 1.0 / 15.0
    p = p * z + 1.0 / 13.0
    p = p * z + 1.0 / 11.0
    p = p * z + 1.0 / 9.0
    p = p * z + 1.0 / 7.0
    p = p * z + 1.0 / 5.0
    p = p * z + 1.0 / 3.0
    return 2.0 * (s + s * z * p)


def _exponent(x: float) -> int:
    """The k with x / 2**k in sqrt(1/2)..sqrt(2), for a positive normal binary64."""
    k = ((bits64(x) >> 52) & 0x7FF) - 1023
    mantissa = from_bits64((bits64(x) & ((1 << 52) - 1)) | (1023 << 52))
    return k + 1 if mantissa > 2.0 * _SQRT_HALF else k


def ln(x: float) -> float:
    """Natural logarithm; -inf at zero, NaN below it."""
    if x != x or x < 0.0:
        return NAN
    if x == 0.0:
        return -INFINITY
    if x == INFINITY:
        return x
    k = float(_exponent(x))
    return k * _LN2_HIGH + (k * _LN2_LOW + _log_mantissa(x * _power_of_two(-k)))


def log2(x: float) -> float:
    """Logarithm to base 2; -inf at zero, NaN below it."""
    if x != x or x < 0.0:
        return NAN
    if x == 0.0:
        return -INFINITY
    if x == INFINITY:
        return x
    k = float(_exponent(x))
    return k + _log_mantissa(x * _power_of_two(-k)) * _LOG2_E


def tanh(x: float) -> float:
    """Hyperbolic tangent."""
    size = abs(x)
    if size < 0.001953125:
        z = x * x
        return x + x * z * (-1.0 / 3.0 + z * (2.0 / 15.0))
    value = 1.0 - 2.0 / (exp(2.0 * size) + 1.0)
    return -value if x < 0.0 else value


def sigmoid(x: float) -> float:
    """1 / (1 + e**-x)."""
    return 1.0 / (1.0 + exp(-x))


def softplus(x: float) -> float:
    """ln(1 + e**x); x itself above 20 (docs/isa.md, Functions, proposed)."""
    if x > 20.0:
        return x
    t = exp(x)
    if t < 0.00048828125:
        return t + t * t * (-0.5 + t * (1.0 / 3.0 - t * 0.25))
    return ln(1.0 + t)


def rsqrt(x: float) -> float:
    """1 / sqrt(x); +inf at +0, NaN below zero."""
    return divide(1.0, sqrt(x))


_TWO_OVER_PI = (
    0, 0, 0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB,
)  # fmt: skip
"""2/pi, 32 bits at a time (a mathematical constant), the binary point after the second word."""


def _quarter_turns(x: float) -> tuple[int, float]:
    """(quadrant, rest): abs(x) = (quadrant + rest) * pi/2, modulo 4 quadrants, rest in -0.5..0.5.

    ``x`` has at most 24 significant bits and is at least 2**-26. Of the product of its significand with
    2/pi only the bits below 4 matter: 96 bits of 2/pi from there on leave 94 bits after the point, whatever
    the exponent (reduction of Payne and Hanek).
    """
    exponent = ((bits64(x) >> 52) & 0x7FF) - 1023 - 23
    significand = ((bits64(x) & ((1 << 52) - 1)) | (1 << 52)) >> 29
    first = exponent - 2 + 64
    low = significand * _bits_of_two_over_pi(first + 64)
    middle = significand * _bits_of_two_over_pi(first + 32) + (low >> 32)
    high = significand * _bits_of_two_over_pi(first) + (middle >> 32)
    turns = s64((u32(high) << 32) | u32(middle))
    quadrant = ((turns >> 62) & 3) + ((turns >> 61) & 1)
    rest = float(s64(turns << 2)) * 2.0**-64 + float(u32(low)) * 2.0**-94
    return quadrant & 3, rest


def _bits_of_two_over_pi(position: int) -> int:
    """32 bits of the table from bit ``position`` on."""
    word = position >> 5
    shift = position & 31
    if shift == 0:
        return _TWO_OVER_PI[word]
    return u32(_TWO_OVER_PI[word] << shift) | (_TWO_OVER_PI[word + 1] >> (32 - shift))


def _sin_part(t: float) -> float:
    """sin(t) for abs(t) <= pi/4, Taylor to the 17th power."""
    z = t * t
    p = 1.0 / 355687428096000.0
    p = -1.0 / 1307674368000.0 + p * z
    p = 1.0 / 6227020800.0 + p * z
    p = -1.0 / 39916800.0 + p * z
    p = 1.0 / 362880.0 + p * z
    p = -1.0 / 5040.0 + p * z
    p = 1.0 / 120.0 + p * z
    p = -1.0 / 6.0 + p * z
    return t + t * z * p


def _cos_part(t: float) -> float:
    """cos(t) for abs(t) <= pi/4, Taylor to the 16th power."""
    z = t * t
    p = 1.0 / 20922789888000.0
    p = -1.0 / 87178291200.0 + p * z
    p = 1.0 / 479001600.0 + p * z
    p = -1.0 / 3628800.0 + p * z
    p = 1.0 / 40320.0 + p * z
    p = -1.0 / 720.0 + p * z
    p = 1.0 / 24.0 + p * z
    p = -0.5 + p * z
    return 1.0 + z * p


def _of_quadrant(quadrant: int, rest: float) -> float:
    """sin((quadrant + rest) * pi/2)."""
    t = rest * 1.5707963267948966
    value = _cos_part(t) if quadrant & 1 == 1 else _sin_part(t)
    return -value if quadrant & 2 == 2 else value


def sin(x: float) -> float:
    """Sine of x radians, exact range reduction; NaN of an infinity."""
    if x - x != 0.0:
        return NAN
    if abs(x) < 2.0**-26:
        return x
    quadrant, rest = _quarter_turns(x)
    value = _of_quadrant(quadrant, rest)
    return -value if x < 0.0 else value


def cos(x: float) -> float:
    """Cosine of x radians, exact range reduction; NaN of an infinity."""
    if x - x != 0.0:
        return NAN
    if abs(x) < 2.0**-26:
        return 1.0
    quadrant, rest = _quarter_turns(x)
    return _of_quadrant((quadrant + 1) & 3, rest)
