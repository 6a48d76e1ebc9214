"""Transcendental functions against mpmath: within 1 ulp of the format, and their limits."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from test_kernels_oracles import (
    RNE,
    Exact,
    exact,
    is_negative,
    number,
    rounded,
    run_unary,
    scale,
    unary_sources,
)

from tx8isa.formats import FLOATS, Format

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "log2": lambda x: mpmath.log(x, 2),
    "ln": mpmath.log,
    "pow2": lambda x: mpmath.power(2, x),
    "exp": mpmath.exp,
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "tanh": mpmath.tanh,
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "softplus": lambda x: x if x > 20 else mpmath.log1p(mpmath.exp(x)),
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "leakyrelu": lambda x: x if x >= 0 else x * mpmath.mpf(0.01),
}
LIMITS: dict[str, tuple[Exact | None, ...]] = {
    "log2": ("nan", "+inf", "-inf"),
    "ln": ("nan", "+inf", "-inf"),
    "pow2": (Fraction(0), "+inf", Fraction(1)),
    "exp": (Fraction(0), "+inf", Fraction(1)),
    "sin": ("nan", "nan", Fraction(0)),
    "cos": ("nan", "nan", Fraction(1)),
    "tanh": (Fraction(-1), Fraction(1), Fraction(0)),
    "sigmoid": (Fraction(0), Fraction(1), Fraction(1, 2)),
    "softplus": (Fraction(0), "+inf", None),
    "rsqrt": ("nan", Fraction(0), "+inf"),
    "leakyrelu": ("-inf", "+inf", Fraction(0)),
}  # fmt: skip
"""Results at -inf, +inf and +0 (docs/isa.md, Functions); None: ln 2, which the general comparison covers."""


def ulps(fmt: Format, pattern: int, true: Any) -> float:
    """Distance of a finite stored result from the true value, in units of the last place of the format."""
    s = scale(fmt)
    magnitude = abs(true)
    if magnitude > 2**140:
        return 0.0 if pattern >> s.unused & (s.sign - 1) == s.infinity else float("inf")
    low = s.below(Fraction(*_ratio(magnitude))) if magnitude > mpmath.mpf(2) ** -400 else 0
    found = exact(fmt, pattern)
    if low >= s.infinity - 1:  # near the end of the range: infinity or the largest value
        return 0.0 if (pattern >> s.unused & (s.sign - 1)) >= s.infinity - 1 else float("inf")
    if isinstance(found, str) and found != "-0":
        return float("inf")
    step = s.value(low + 1) - s.value(low)
    return float(abs(mpmath.mpf(number(found).numerator) / number(found).denominator - true) / _mpf(step))


def _mpf(x: Fraction) -> Any:
    return mpmath.mpf(x.numerator) / x.denominator


def _ratio(x: Any) -> tuple[int, int]:
    mantissa, exponent = int(x.man), int(x.exp)
    return (mantissa << exponent, 1) if exponent >= 0 else (mantissa, 1 << -exponent)


def compare_function(name: str, fmt: Format, n: int, everything: bool) -> float:
    """The worst error in ulp; domain errors must be NaN."""
    sources = unary_sources(fmt, n, everything)
    worst = 0.0
    nan = rounded(fmt, "nan", RNE)
    with mpmath.workprec(200):
        for x, pattern in zip(sources.tolist(), run_unary(name, fmt, sources), strict=True):
            value = exact(fmt, x)
            if value == "nan" or (name in ("log2", "ln", "rsqrt") and is_negative(value) and value != "-0"):
                assert pattern == nan, f"{name} {x:#x}: {pattern:#x}"
            elif value not in ("+inf", "-inf", "-0", 0):
                worst = max(worst, ulps(fmt, pattern, FUNCTIONS[name](_mpf(number(value)))))
    return worst


def check_limits(name: str, fmt: Format) -> None:
    s = scale(fmt)
    dtype = np.uint16 if fmt.bits == 16 else np.uint32
    sources = np.array([(s.sign | s.infinity) << s.unused, s.infinity << s.unused, 0], dtype)
    for pattern, expected in zip(run_unary(name, fmt, sources), LIMITS[name], strict=True):
        if expected is not None:
            assert pattern == rounded(fmt, expected, RNE), f"{name} {fmt!r}"


@pytest.mark.parametrize("fmt", [Format.FP16, Format.FP32])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_within_one_ulp(name: str, fmt: Format) -> None:
    worst = compare_function(name, fmt, 100, False)
    assert worst <= 1.0, f"{name} {fmt!r}: {worst} ulp"


@pytest.mark.long
@pytest.mark.parametrize("fmt", FLOATS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_within_one_ulp_everywhere(name: str, fmt: Format) -> None:
    worst = compare_function(name, fmt, 20_000, True)
    print(f"{name} {fmt.token}: worst {worst:.4f} ulp")
    assert worst <= 1.0
    check_limits(name, fmt)


@pytest.mark.parametrize("fmt", [Format.FP16, Format.FP32])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_limits_of_functions(name: str, fmt: Format) -> None:
    check_limits(name, fmt)
