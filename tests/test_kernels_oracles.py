"""Arithmetic against an oracle that shares no code with the emulator: fractions.

``rounded`` finds the pattern of an exact value by comparing it with the values of neighbouring patterns.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from math import isqrt
from typing import Any

import numpy as np
import pytest
from test_kernels import RECORDS, SPECIAL, Tile, patterns

from tx8isa.formats import FLOATS, Format

DST, SRC0, SRC1 = 0x8000, 0x1000, 0x4000
RNE, RTZ, RUP, RDN = range(4)
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


def add(a: Exact, b: Exact) -> Exact:
    if "nan" in (a, b) or {a, b} == {"+inf", "-inf"}:
        return "nan"
    for x in (a, b):
        if x in ("+inf", "-inf"):
            return x
    total = number(a) + number(b)
    return "-0" if a == b == "-0" else total


def sub(a: Exact, b: Exact) -> Exact:
    return add(a, negated(b))


def _signed(magnitude: Exact, a: Exact, b: Exact) -> Exact:
    return negated(magnitude) if is_negative(a) != is_negative(b) else magnitude


def mul(a: Exact, b: Exact) -> Exact:
    infinite = a in ("+inf", "-inf"), b in ("+inf", "-inf")
    if "nan" in (a, b) or (infinite[0] and not infinite[1] and not number(b)):
        return "nan"
    if infinite[1] and not infinite[0] and not number(a):
        return "nan"
    return _signed("+inf" if any(infinite) else abs(number(a) * number(b)), a, b)


def div(a: Exact, b: Exact) -> Exact:
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


ARITHMETIC: dict[str, Callable[[Exact, Exact], Exact]] = {"add": add, "sub": sub, "mul": mul, "div": div}


def pairs(fmt: Format, n: int, seed: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Operands: every pair of special patterns, then random ones, half of them of near exponents."""
    rng = np.random.default_rng(seed)
    special = [(a, b) for a in SPECIAL[fmt] for b in SPECIAL[fmt]]
    a, b = patterns(fmt, n, rng), patterns(fmt, n, rng)
    near = rng.random(n) < 0.3
    mask = (1 << (LAYOUT[fmt][1] + LAYOUT[fmt][2] + 2)) - 1
    b = np.where(near, (a & ~np.array(mask, a.dtype)) | (b & np.array(mask, a.dtype)), b)
    left, right = (np.array([p[k] for p in special], a.dtype) for k in (0, 1))
    return np.concatenate([left, a]), np.concatenate([right, b]).astype(a.dtype)


def run_pairs(name: str, fmt: Format, mode: int, a: Any, b: Any, compiled: bool = True) -> list[int]:
    """The results of the kernel, a piece of the scratchpad at a time."""
    found: list[int] = []
    piece = 0x3000 // a.itemsize
    tile = Tile(0)
    names = {operand.name for operand in RECORDS[name].operands}
    for at in range(0, len(a), piece):
        x, y = a[at : at + piece], b[at : at + piece]
        for base, data in ((SRC0, x), (SRC1, y)):
            tile.spm[base : base + data.nbytes] = data.view(np.uint8)
        operands = {"dst": DST, "src0": SRC0, "src1": SRC1, "n": len(x), "rnd": mode}
        tile.run(name, fmt, compiled, {k: v for k, v in operands.items() if k in names})
        found += tile.spm[DST : DST + x.nbytes].view(a.dtype).tolist()
    return found


def compare_arithmetic(name: str, fmt: Format, n: int, compiled: bool) -> None:
    a, b = pairs(fmt, n, 7)
    for mode in (RNE, RTZ, RUP, RDN):
        found = run_pairs(f"ct.{name}.vv", fmt, mode, a, b, compiled)
        for x, y, pattern in zip(a.tolist(), b.tolist(), found, strict=True):
            result = ARITHMETIC[name](exact(fmt, x), exact(fmt, y))
            where = f"{name} {x:#x} {y:#x} {fmt!r} mode {mode}"
            assert pattern == rounded(fmt, result, mode), f"{where}: {pattern:#x}"


@pytest.mark.parametrize("fmt", FLOATS)
@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_is_rounded_once_in_every_mode(name: str, fmt: Format) -> None:
    compare_arithmetic(name, fmt, 100, fmt is Format.FP32)


@pytest.mark.long
@pytest.mark.parametrize("fmt", FLOATS)
@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_on_many_operands(name: str, fmt: Format) -> None:
    compare_arithmetic(name, fmt, 100_000, True)


def test_the_oracle_itself() -> None:
    """Known values, so that a wrong oracle cannot agree with a wrong kernel."""
    assert rounded(Format.FP16, Fraction(65519), RNE) == 0x7BFF
    assert rounded(Format.FP16, Fraction(65520), RNE) == 0x7C00
    assert rounded(Format.FP16, Fraction(10**9), RTZ) == 0x7BFF
    assert rounded(Format.FP32, Fraction(1, 3), RNE) == 0x3EAAAAAB
    assert rounded(Format.FP32, Fraction(1, 3), RDN) == 0x3EAAAAAA
    assert rounded(Format.FP32, Fraction(-1, 3), RDN) == 0xBEAAAAAB
    assert rounded(Format.BF16, Fraction(1, 2**134), RNE) == 0
    assert rounded(Format.TF32, Fraction(1, 3), RNE) == 0x3EAAA000
    assert exact(Format.FP16, 0x3555) == Fraction(1365, 4096)
    assert rounded(Format.FP16, "-0", RNE) == 0x8000


def run_unary(name: str, fmt: Format, sources: np.ndarray[Any, Any]) -> list[int]:
    return run_pairs(f"ct.{name}.v", fmt, RNE, sources, sources)


def unary_sources(fmt: Format, n: int, everything: bool) -> np.ndarray[Any, Any]:
    """All patterns of a 16-bit format, or a stride of them with the special ones; random ones of 32 bits."""
    if fmt.bits == 16:
        stride = 1 if everything else 65536 // n | 1
        return np.array([*SPECIAL[fmt], *range(0, 65536, stride)], np.uint16)
    return np.concatenate([np.array(SPECIAL[fmt], np.uint32), patterns(fmt, n, np.random.default_rng(3))])


def root(x: Fraction) -> Fraction:
    """Square root to 200 bits, inexact ones marked by an odd last bit."""
    shift = 400 + 2 * max(0, x.denominator.bit_length())
    scaled = (x.numerator << shift) // x.denominator
    low = isqrt(scaled)
    inexact = low * low != scaled or (x.numerator << shift) % x.denominator
    return Fraction(2 * low + (1 if inexact else 0), 2 << shift // 2)


def exact_unary(name: str, x: Exact) -> Exact:
    """abs, neg, recip, square, sqrt, relu of one value."""
    if name == "relu":
        return x if x == "+inf" or (not isinstance(x, str) and x > 0) else Fraction(0)
    if x == "nan":
        return x
    if name == "abs":
        return negated(x) if is_negative(x) else x
    if name == "neg":
        return sub(Fraction(0), x)
    if name == "square":
        return mul(x, x)
    if name == "recip":
        return div(Fraction(1), x)
    if isinstance(x, str):
        return "nan" if x == "-inf" else x
    return "nan" if x < 0 else root(x)


EXACT_UNARY = ("abs", "neg", "square", "recip", "sqrt", "relu")


def compare_unary(name: str, fmt: Format, n: int, everything: bool) -> None:
    sources = unary_sources(fmt, n, everything)
    for x, pattern in zip(sources.tolist(), run_unary(name, fmt, sources), strict=True):
        expected = rounded(fmt, exact_unary(name, exact(fmt, x)), RNE)
        assert pattern == expected, f"{name} {x:#x} {fmt!r}: {pattern:#x}, expected {expected:#x}"


@pytest.mark.parametrize("fmt", [Format.FP16, Format.FP32])
@pytest.mark.parametrize("name", EXACT_UNARY)
def test_exact_unary(name: str, fmt: Format) -> None:
    compare_unary(name, fmt, 500, False)


@pytest.mark.long
@pytest.mark.parametrize("fmt", FLOATS)
@pytest.mark.parametrize("name", EXACT_UNARY)
def test_exact_unary_on_many_operands(name: str, fmt: Format) -> None:
    compare_unary(name, fmt, 100_000, True)
