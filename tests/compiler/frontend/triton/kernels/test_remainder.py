"""Remainders of floats, which are exact and have the sign of the dividend, as fmod of C."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from triton_launches import Array
from triton_texts import element_of, kind, result

_FORMATS: dict[type, tuple[int, int]] = {
    np.float32: (-149, 127),
    np.float16: (-24, 15),
    ml_dtypes.bfloat16: (-133, 127),
}
"""Types with the exponents of their smallest and their largest numbers."""
SPECIAL = (0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 2.0, 3.0, 0.5, -7.25)


def _remainders(x: Array, y: Array) -> Array:
    block = kind(x.shape, element_of(x))
    return result(f"    %r = arith.remf %xv, %yv : {block}\n", "r", x, x=x, y=y)


def _same(got: Array, want: Array) -> bool:
    """Return True if all numbers are equal, zeros with their signs, and NaN where the other is NaN."""
    a, b = got.astype(np.float64), want.astype(np.float64)
    return bool((((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))).all())


def _fmod(x: Array, y: Array) -> Array:
    """In binary64 the C library's function is exact, and so is the rounding of its result."""
    with np.errstate(all="ignore"):
        return np.fmod(x.astype(np.float64), y.astype(np.float64)).astype(x.dtype)


@pytest.mark.parametrize("dtype", _FORMATS)
def test_numbers_of_all_magnitudes(dtype: type) -> None:
    """The dividend is up to 2**276 times the divisor; some are multiples of it."""
    numbers, (low, high) = np.random.default_rng(1), _FORMATS[dtype]

    def drawn(count: int) -> Array:
        exponents = numbers.integers(low, high + 1, count).astype(np.float64)
        drawn: Array = (numbers.uniform(-1, 1, count) * np.exp2(exponents)).astype(dtype)
        return drawn

    x, y = drawn(1024), drawn(1024)
    x[:128], y[:128] = (numbers.standard_normal(128) * 9).astype(dtype), numbers.uniform(-2, 2, 128)
    y[128:256] = numbers.uniform(-2, 2, 128)
    x[128:256] = (y[128:256].astype(np.float64) * numbers.integers(-9, 10, 128)).astype(dtype)
    largest = float(ml_dtypes.finfo(dtype).max)
    x[256:260], y[256:260] = [largest, -largest, largest, 2.0**low], [2.0**low, 3 * 2.0**low, largest, 1]
    assert _same(_remainders(x, y), _fmod(x, y))


@pytest.mark.parametrize("dtype", _FORMATS)
def test_zeros_infinities_and_nan(dtype: type) -> None:
    pairs: list[Any] = [(a, b) for a in SPECIAL for b in SPECIAL]
    pairs += [(1.0, 1.0)] * (128 - len(pairs))
    x, y = (np.array(side, dtype) for side in zip(*pairs, strict=True))
    assert _same(_remainders(x, y), _fmod(x, y))


def test_single_numbers_and_those_that_are_known() -> None:
    x = np.array([7.5, -7.5, 2.0, 9.25], np.float32)
    block = kind((4,), "f32")
    lines = (
        "    %n = arith.constant 1.000000e+01 : f32\n    %d = arith.constant 4.000000e+00 : f32\n"
        f"    %k = arith.remf %n, %d : f32\n    %ks = tt.splat %k : f32 -> {block}\n"
        f"    %v = tt.load %x : !tt.ptr<f32>\n    %l = arith.remf %v, %d : f32\n"
        f"    %ls = tt.splat %l : f32 -> {block}\n    %ds = tt.splat %d : f32 -> {block}\n"
        f"    %a = arith.remf %xv, %ds : {block}\n    %b = arith.addf %a, %ks : {block}\n"
        f"    %r = arith.addf %b, %ls : {block}\n"
    )
    want = np.fmod(x, np.float32(4)) + np.float32(2) + np.float32(3.5)
    assert np.array_equal(result(lines, "r", x, x=x), want)
