"""Stored numbers as fractions, and back: exact, slow, and easy to believe.

``rounded`` finds the pattern of an exact value by comparing it with the values of neighbouring patterns. It
shares no code with the emulator; ``exact_oracles`` does the same for whole arrays and is judged by it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from fractions import Fraction
from functools import cache

from tx8isa.numbers.formats import Format

RNE, RTZ, RUP, RDN, STOCHASTIC = range(5)
LAYOUT = {Format.FP16: (5, 10, 0), Format.BF16: (8, 7, 0), Format.FP32: (8, 23, 0), Format.TF32: (8, 10, 13)}
"""Exponent bits, mantissa bits, unused low bits (IEEE 754, and docs/isa.md, Formats)."""

Exact = Fraction | str
"""A finite value, or "nan", "+inf", "-inf", "-0" (a zero whose sign is minus; Fraction(0) is plus)."""


def exact(fmt: Format, pattern: int) -> Exact:
    """The value of a stored pattern."""
    exponent_bits, mantissa_bits, unused = LAYOUT[fmt]
    pattern >>= unused
    mantissa = pattern % (1 << mantissa_bits)
    exponent = pattern >> mantissa_bits & ((1 << exponent_bits) - 1)
    negative = pattern >> (mantissa_bits + exponent_bits)
    if exponent == (1 << exponent_bits) - 1:
        return "nan" if mantissa else ("-inf" if negative else "+inf")
    bias = (1 << (exponent_bits - 1)) - 1
    if exponent:
        mantissa += 1 << mantissa_bits
    value = mantissa * Fraction(2) ** (max(exponent, 1) - bias - mantissa_bits)
    if negative:
        return -value if value else "-0"
    return value


def number(x: Exact) -> Fraction:
    return Fraction(0) if x == "-0" else Fraction(x)


class Scale:
    """All finite magnitudes of a format as integers in units of its smallest subnormal, found by formula."""

    def __init__(self, fmt: Format) -> None:
        self.exponent_bits, self.mantissa_bits, self.unused = LAYOUT[fmt]
        self.unit = Fraction(2) ** (2 - (1 << (self.exponent_bits - 1)) - self.mantissa_bits)
        self.infinity = ((1 << self.exponent_bits) - 1) << self.mantissa_bits
        self.sign = 1 << (self.exponent_bits + self.mantissa_bits)

    def value(self, magnitude: int) -> Fraction:
        """The value of a sign-less pattern; the pattern of infinity counts as the next power of two."""
        exponent, mantissa = divmod(magnitude, 1 << self.mantissa_bits)
        if exponent == 0:
            return mantissa * self.unit
        return (mantissa + (1 << self.mantissa_bits)) * self.unit * (1 << (exponent - 1))

    def below(self, x: Fraction) -> int:
        """The largest magnitude pattern whose value is at most ``x``, infinity at most."""
        return bisect_left(range(self.infinity + 1), True, key=lambda p: self.value(p) > x) - 1


@cache
def scale(fmt: Format) -> Scale:
    return Scale(fmt)


def rounded(fmt: Format, x: Exact, mode: int) -> int:
    """The stored pattern of an exact value in a deterministic mode."""
    s = scale(fmt)
    nan = s.infinity | 1 << (s.mantissa_bits - 1)
    special = {"nan": nan, "+inf": s.infinity, "-inf": s.sign | s.infinity}
    if isinstance(x, str):
        return (s.sign if x == "-0" else special[x]) << s.unused
    negative = x < 0
    low = s.below(abs(x))
    pattern = low
    if low == s.infinity:  # beyond the largest finite value and its rounding interval
        away = mode == RNE or mode == (RDN if negative else RUP)
        pattern = s.infinity if away else s.infinity - 1
    elif abs(x) != s.value(low):
        rest, step = abs(x) - s.value(low), s.value(low + 1) - s.value(low)
        nearer = 2 * rest > step or (2 * rest == step and low & 1)
        pattern += {RNE: bool(nearer), RTZ: False, RUP: not negative, RDN: negative}[mode]
    return (pattern | (s.sign if negative else 0)) << s.unused


def negated(x: Exact) -> Exact:
    names = {"+inf": "-inf", "-inf": "+inf", "nan": "nan", "-0": Fraction(0)}
    if isinstance(x, str):
        return names[x]
    return -x if x else "-0"


def is_negative(x: Exact) -> bool:
    return x in ("-inf", "-0") if isinstance(x, str) else x < 0


def add(a: Exact, b: Exact, mode: int = RNE) -> Exact:
    """A sum. Numbers of opposite sign that cancel give -0 when rounding down, otherwise +0 (IEEE 754,
    6.3)."""
    if "nan" in (a, b) or {a, b} == {"+inf", "-inf"}:
        return "nan"
    for x in (a, b):
        if x in ("+inf", "-inf"):
            return x
    total = number(a) + number(b)
    signs = is_negative(a), is_negative(b)
    return "-0" if not total and (any(signs) if mode == RDN else all(signs)) else total


def sub(a: Exact, b: Exact, mode: int = RNE) -> Exact:
    return add(a, negated(b), mode)


def _signed(magnitude: Exact, a: Exact, b: Exact) -> Exact:
    return negated(magnitude) if is_negative(a) != is_negative(b) else magnitude


def mul(a: Exact, b: Exact, mode: int = RNE) -> Exact:
    """A product: the same number in every mode, as a quotient."""
    infinite = a in ("+inf", "-inf"), b in ("+inf", "-inf")
    if "nan" in (a, b) or (infinite[0] and not infinite[1] and not number(b)):
        return "nan"
    if infinite[1] and not infinite[0] and not number(a):
        return "nan"
    return _signed("+inf" if any(infinite) else abs(number(a) * number(b)), a, b)


def div(a: Exact, b: Exact, mode: int = RNE) -> Exact:
    infinite = a in ("+inf", "-inf"), b in ("+inf", "-inf")
    if "nan" in (a, b) or all(infinite):
        return "nan"
    if infinite[0]:
        return _signed("+inf", a, b)
    if infinite[1]:
        return _signed(Fraction(0), a, b)
    if not number(b):
        return _signed("+inf", a, b) if number(a) else "nan"
    return _signed(abs(number(a) / number(b)), a, b)


ARITHMETIC: dict[str, Callable[[Exact, Exact, int], Exact]] = {"add": add, "sub": sub, "mul": mul, "div": div}
