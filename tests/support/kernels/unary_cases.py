"""Operands of functions of one value, and their exact results."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

import mpmath
import numpy as np

import exact_functions
import exact_oracles as oracle
from exact_bench import Array, all_16_bits, random_patterns, run, special
from exact_fractions import Exact, rounded
from exact_oracles import FINITE, NAN, Reals
from tx8isa.numbers.formats import Format


def sources(fmt: Format, n: int) -> Array:
    """Every pattern of 16 bits; of 32 bits special, random and difficult ones."""
    if fmt.bits == 16:
        return all_16_bits()
    rng = np.random.default_rng(13)
    turns = (np.arange(1, n // 8 + 1) * (math.pi / 2)).astype(np.float32)
    near_one = (0x3F800000 + rng.integers(-5000, 5000, n // 8)).astype(np.uint32)
    ends = rng.uniform(-160, 160, n // 8).astype(np.float32)
    awkward = near_one, turns.view(np.uint32), ends.view(np.uint32)
    return np.concatenate([special(fmt), random_patterns(fmt, n, rng), *awkward])


@cache
def _numbers(fmt: Format, n: int) -> tuple[Array, Reals]:
    stored = sources(fmt, n)
    return stored, oracle.reals(fmt, stored)


LIMITS: dict[str, tuple[Exact, Exact, Exact, Exact]] = {
    "log2": ("nan", "+inf", "-inf", "-inf"),
    "ln": ("nan", "+inf", "-inf", "-inf"),
    "pow2": (Fraction(0), "+inf", Fraction(1), Fraction(1)),
    "exp": (Fraction(0), "+inf", Fraction(1), Fraction(1)),
    "exp_lp": (Fraction(0), "+inf", Fraction(1), Fraction(1)),
    "sin": ("nan", "nan", Fraction(0), "-0"),
    "cos": ("nan", "nan", Fraction(1), Fraction(1)),
    "tanh": (Fraction(-1), Fraction(1), Fraction(0), "-0"),
    "sigmoid": (Fraction(0), Fraction(1), Fraction(1, 2), Fraction(1, 2)),
    "softplus": (
        Fraction(0),
        "+inf",
        Fraction(int(mpmath.ldexp(mpmath.ln(2), 52)), 1 << 52),
        Fraction(int(mpmath.ldexp(mpmath.ln(2), 52)), 1 << 52),
    ),
}
"""Results at -inf, +inf, +0 and -0."""


def worst_ulps(name: str, fmt: Format, n: int) -> tuple[float, int]:
    """(largest error in ulp, the pattern it is at) of the numbers in the domain; the others must be NaN."""
    stored, x = _numbers(fmt, n)
    found = run(f"ct.{name}.v", fmt, (stored,), fmt, True)
    ordinary = (x.kind == FINITE) & (x.magnitude != 0)
    outside = x.kind == NAN
    if LIMITS[name][0] == "nan" and LIMITS[name][1] != "nan":  # a logarithm
        outside |= ordinary & x.negative
    nan = rounded(fmt, "nan", 0)
    assert (found[outside] == nan).all(), f"{name} {fmt.token}: {int(stored[outside][0]):#x} must give NaN"
    some = ordinary & ~outside
    errors = oracle.ulps(fmt, found[some], exact_functions.true_values(name, fmt, stored[some]))
    at = int(errors.argmax())
    return float(errors[at]), int(stored[some][at])
