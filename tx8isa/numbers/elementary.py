"""Elementary functions: the meaning of the transcendental instructions.

Only additions, multiplications, divisions and bit patterns are used, no library calls, whose last bit would
depend on the host. Operands are binary32 numbers. ``exp``, ``pow2`` and ``exp_low_precision`` calculate in
binary32; their results are within 1 ulp. The others calculate in binary64 with a relative error below 2**-31,
so that one rounding to at most 24 significant bits is within 0.51 ulp. The tests print the worst cases. The
polynomials are minimax approximations by the Remez algorithm.

Only the reduction of large angles has branches, so that loops over the other functions are vectorised.
"""

from __future__ import annotations

from .primitives import add32, bits32, bits64, divide, from_bits32, from_bits64, mul32, s64, sqrt, u32, u64

INFINITY = float("inf")
NAN = float("nan")

_LN2_HIGH = 6.93147180369123816490e-01  # 32 significant bits, so that a small integer times it is exact
_LN2_LOW = 1.90821492927058770002e-10
_LOG2_E = 1.4426950408889634
_LOG2_E_FP32 = 1.44269502162933349609375  # FP32 0x3FB8AA3B, of exp_lp (docs/isa.md, Functions, board)

_INTEGER = 6755399441055744.0  # 1.5 * 2**52: adding it rounds to a whole number
_INTEGER_BITS = 0x4338 << 48
_BIAS = 1023


def _power(y: float) -> tuple[float, float]:
    """(2**k, 2**r - 1) where k is the integer next to y and r = y - k; k stays in -300..300.

    The relative error of 2**r - 1 is 2**-32.
    """
    y = 300.0 if y > 300.0 else y
    y = -300.0 if y < -300.0 else y
    shifted = y + (_INTEGER + _BIAS)
    r = y - (shifted - (_INTEGER + _BIAS))
    p = 1.5252732376357992e-05
    p = p * r + 0.00015461329790837015
    p = p * r + 0.0013333669404763438
    p = p * r + 0.009618057037574486
    p = p * r + 0.055504107276379853
    p = p * r + 0.24022650920045702
    p = p * r + 0.6931471805815644
    return from_bits64(s64(bits64(shifted) << 52)), p * r


def _exp_wide(x: float) -> float:
    """e**x, limited to e**-300 .. e**300, which is beyond the range of every format."""
    whole, part = _power(x * _LOG2_E)
    return whole + whole * part


_ROUND32 = 12582912.0 + 254.0  # 1.5 * 2**23 and twice the bias of an exponent
_ROUND14 = 768.0  # a binary32 sum with it keeps 14 bits after the point
_LN2_SHORT = 0.693359375  # 9 significant bits
_LN2_REST = -0.00021219444170128554
_LOG2_E_32 = 1.4426950216293335
_LN2_32 = 0.6931471824645996


def _scaled_exp(shifted: float, r: float, low: float) -> float:
    """2**k * e**(r + low) in binary32, for abs(r) <= 0.35, abs(low) below half a unit of r, k in ``shifted``.

    The errors of the sums add up to less than 1 ulp. The scale is applied in two steps, of which only the
    second can leave the normal range. So a subnormal result is rounded once more, and overflow gives
    infinity.
    """
    p = 0.0013814462581649423
    p = add32(mul32(p, r), 0.008368780836462975)
    p = add32(mul32(p, r), 0.04166839271783829)
    p = add32(mul32(p, r), 0.1666651964187622)
    p = add32(mul32(p, r), 0.4999999403953552)
    value = add32(1.0, add32(r, add32(mul32(mul32(r, r), p), low)))
    bits = bits32(shifted)
    half = bits >> 1
    return mul32(mul32(value, from_bits32(half << 23)), from_bits32((bits - half) << 23))


def exp(x: float) -> float:
    """e**x of a binary32 x, within 1 ulp of binary32."""
    none = x < -105.0
    x = 89.0 if x > 89.0 else x
    x = 0.0 if none else x
    shifted = add32(mul32(x, _LOG2_E_32), _ROUND32)
    k = add32(shifted, -_ROUND32)
    near = add32(x, -mul32(k, _LN2_SHORT))  # exact
    rest = mul32(k, _LN2_REST)
    r = add32(near, -rest)
    return 0.0 if none else _scaled_exp(shifted, r, add32(add32(near, -r), -rest))


def pow2(x: float) -> float:
    """2**x of a binary32 x, within 1 ulp of binary32."""
    none = x < -151.0
    x = 129.0 if x > 129.0 else x
    x = 0.0 if none else x
    shifted = add32(x, _ROUND32)
    t = add32(x, -add32(shifted, -_ROUND32))
    head = add32(add32(t, _ROUND14), -_ROUND14)
    near = mul32(head, _LN2_SHORT)  # exact
    rest = add32(mul32(head, _LN2_REST), mul32(add32(t, -head), _LN2_32))
    r = add32(near, rest)
    return 0.0 if none else _scaled_exp(shifted, r, add32(add32(near, -r), rest))


def exp_low_precision(x: float) -> float:
    """pow2 of one FP32 product x * log2(e) (docs/isa.md, Functions, board)."""
    return pow2(mul32(x, _LOG2_E_FP32))


_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
_EXPONENT_OFFSET = 1024


def _exponent_and_log(x: float) -> tuple[float, float]:
    """(k, ln(m)) with x = m * 2**k, m from sqrt(1/2) to sqrt(2), for a positive normal x.

    ln(m) is the odd series of (m-1)/(m+1), with a relative error of 2**-37.
    """
    bits = bits64(x)
    biased = s64(u64(s64(bits - _SQRT_HALF_BITS + (_EXPONENT_OFFSET << 52))) >> 52)
    m = from_bits64(s64(bits - s64(s64(biased - _EXPONENT_OFFSET) << 52)))
    k = from_bits64(biased | _INTEGER_BITS) - (_INTEGER + _EXPONENT_OFFSET)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    p = 0.23581611501385374
    p = p * z + 0.28537340080051515
    p = p * z + 0.4000033463531647
    p = p * z + 0.666666656482375
    return k, s * (2.0 + z * p)


def _ln_positive(x: float) -> float:
    k, part = _exponent_and_log(x)
    return k * _LN2_HIGH + (k * _LN2_LOW + part)


def _positive(x: float) -> float:
    """Return x if it is above zero and finite, otherwise a number that has a logarithm."""
    return x if x > 0.0 and x < INFINITY else 1.0


def _logarithm(x: float, value: float) -> float:
    """Return ``value`` if x has a logarithm, otherwise the limit of the logarithm or NaN."""
    if x == _positive(x):
        return value
    if x == 0.0:
        return -INFINITY
    return x if x > 0.0 else NAN


def ln(x: float) -> float:
    """Natural logarithm; -inf at zero, NaN below it."""
    return _logarithm(x, _ln_positive(_positive(x)))


def log2(x: float) -> float:
    """Logarithm to base 2; -inf at zero, NaN below it."""
    k, part = _exponent_and_log(_positive(x))
    return _logarithm(x, k + part * _LOG2_E)


def tanh(x: float) -> float:
    """Hyperbolic tangent: t / (t + 2) with t = e**2x - 1."""
    whole, part = _power(x * (2.0 * _LOG2_E))
    t = (whole - 1.0) + whole * part
    return x if x == 0.0 else t / (t + 2.0)


def sigmoid(x: float) -> float:
    """1 / (1 + e**-x)."""
    return 1.0 / (1.0 + _exp_wide(-x))


def softplus(x: float) -> float:
    """ln(1 + e**x); above 20 a value that rounds to x in every format (docs/isa.md, Functions, proposed)."""
    t = _exp_wide(x if x < 20.0 else 20.0)
    total = 1.0 + t
    lost = t - (total - 1.0)  # the sum's rounding error; it matters while t is small and total near 1
    return _ln_positive(total) + (lost if t < 1.0 else 0.0) + ((20.0 if x < 20.0 else x) - 20.0)


def rsqrt(x: float) -> float:
    """1 / sqrt(x); +inf at +0, NaN below zero."""
    return divide(1.0, sqrt(x))


NEAR = 262144.0
"""Angles below it are reduced in binary64, because the nearest multiple of pi has at most 18 bits."""
_PI_HIGH = 3.1415926534682512  # 32 significant bits: its product with a number of 21 bits is exact
_PI_LOW = 1.2154201013012384e-10
_PER_PI = 0.3183098861837907


def _sin_half_turn(r: float) -> float:
    """sin(r) for abs(r) <= pi/2, to 2**-35; keeps the sign of a zero."""
    z = r * r
    p = -2.388878912896173e-08
    p = p * z + 2.7525377727206693e-06
    p = p * z - 0.0001984086808170518
    p = p * z + 0.008333331107638231
    p = p * z - 0.16666666626126983
    return r * (1.0 + z * p)


def sin_near(x: float) -> float:
    """Sine of an angle below ``NEAR``; NaN of NaN."""
    shifted = x * _PER_PI + _INTEGER
    k = shifted - _INTEGER
    value = _sin_half_turn((x - k * _PI_HIGH) - k * _PI_LOW)
    return from_bits64(bits64(value) ^ s64(bits64(shifted) << 63))


def cos_near(x: float) -> float:
    """Cosine of an angle below ``NEAR``, exact at zero; NaN of NaN."""
    shifted = (x * _PER_PI - 0.5) + _INTEGER
    k = (shifted - _INTEGER) + 0.5
    value = _sin_half_turn((k * _PI_HIGH - x) + k * _PI_LOW)
    return 1.0 if x == 0.0 else from_bits64(bits64(value) ^ s64(bits64(shifted) << 63))


_TWO_OVER_PI = (0, 0, 0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB)
"""2/pi, 32 bits at a time (a mathematical constant), the binary point after the second word."""


def _quarter_turns(x: float) -> tuple[int, float]:
    """(quadrant, rest): abs(x) = (quadrant + rest) * pi/2, modulo 4 quadrants, rest in -0.5..0.5. ``x`` has
    at most 24 significant bits and is at least 2**-26. Its significand times 2/pi is needed only modulo 4.
    From there on, 96 bits of 2/pi leave 94 bits after the point, whatever the exponent (reduction of Payne
    and Hanek).
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
    """32 bits of the table from bit ``position``."""
    word = position >> 5
    shift = position & 31
    if shift == 0:
        return _TWO_OVER_PI[word]
    return u32(_TWO_OVER_PI[word] << shift) | (_TWO_OVER_PI[word + 1] >> (32 - shift))


def _angle_of(quadrant: int, rest: float) -> float:
    """sin((quadrant + rest) * pi/2)."""
    t = rest * 1.5707963267948966
    value = _sin_half_turn(1.5707963267948966 - abs(t)) if quadrant & 1 == 1 else _sin_half_turn(t)
    return -value if quadrant & 2 == 2 else value


def sin(x: float) -> float:
    """Sine of x radians, exact range reduction; NaN of an infinity."""
    if not abs(x) >= NEAR:
        return sin_near(x)
    if x - x != 0.0:
        return NAN
    quadrant, rest = _quarter_turns(x)
    value = _angle_of(quadrant, rest)
    return -value if x < 0.0 else value


def cos(x: float) -> float:
    """Cosine of x radians, exact range reduction; NaN of an infinity."""
    if not abs(x) >= NEAR:
        return cos_near(x)
    if x - x != 0.0:
        return NAN
    quadrant, rest = _quarter_turns(x)
    return _angle_of((quadrant + 1) & 3, rest)
