"""Arrays rounded to the float formats, compared with exact fractions and with the definition for one
number."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tx8isa.numbers.formats import EXPONENT_BITS, MANTISSA_BITS, Format, Rounding, narrow, widen
from tx8isa.numbers.packing import storage_dtype
from tx8isa.numbers.rounding import rounded

FORMATS = (Format.FP32, Format.TF32, Format.FP16, Format.BF16)
normal_range = st.floats(2.0**-14, 2.0**15, allow_subnormal=False)


def nearest_even(value: float, bits: int) -> Fraction:
    """Round a positive number to ``bits`` fraction bits with exact arithmetic."""
    _, exponent = math.frexp(value)
    step = Fraction(2) ** (exponent - 1 - bits)
    return round(Fraction(value) / step) * step


@given(normal_range, st.sampled_from(FORMATS), st.booleans())
def test_rounding_is_correct(value: float, fmt: Format, negative: bool) -> None:
    sign = -1 if negative else 1
    got = rounded(np.array([sign * value]), fmt)
    assert Fraction(float(got[0])) == sign * nearest_even(value, MANTISSA_BITS[fmt])


@given(st.integers(128, 255), st.integers(-40, -10), st.sampled_from([-1, 0, 1]))
def test_rounding_to_bfloat16_next_to_a_tie(significand: int, exponent: int, side: int) -> None:
    value = significand / 128 + 2.0**-8 + side * 2.0**exponent
    got = rounded(np.array([value]), Format.BF16)
    assert Fraction(float(got[0])) == nearest_even(value, 7)


@given(st.floats(width=32, min_value=2.0**-100, max_value=2.0**100), st.booleans())
def test_rounding_to_tf32(value: float, negative: bool) -> None:
    sign = -1 if negative else 1
    got = rounded(np.array([sign * value]), Format.TF32)
    assert Fraction(float(got[0])) == sign * nearest_even(value, 10)


@pytest.mark.parametrize("fmt", FORMATS)
def test_special_values_survive_rounding(fmt: Format) -> None:
    values = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e300])
    got = rounded(values, fmt).astype(np.float64)
    np.testing.assert_array_equal(got, [np.nan, np.inf, -np.inf, 0.0, -0.0, np.inf])
    assert np.signbit(got[4])


@pytest.mark.parametrize("fmt", FORMATS)
@given(st.lists(st.floats(), min_size=1))
@example([2.0**127 * (2 - 2.0**-8), 2.0**127 * (2 - 2.0**-11), 3.4028235677973366e38, 65520.0, 65519.999])
@example([2.0**-134, 2.0**-137, 2.0**-150, 2.0**-25, 1.5 * 2.0**-149, -(2.0**-1074)])
def test_rounding_is_that_of_the_definition(fmt: Format, values: list[float]) -> None:
    exponent_bits, mantissa_bits = EXPONENT_BITS[fmt], MANTISSA_BITS[fmt]
    patterns = [narrow(value, exponent_bits, mantissa_bits, Rounding.RNE, 0) for value in values]
    wanted = [widen(pattern, exponent_bits, mantissa_bits) for pattern in patterns]
    got = rounded(np.array(values), fmt)
    assert got.dtype == storage_dtype(fmt)
    np.testing.assert_array_equal(got.astype(np.float64), wanted)
    assert (np.signbit(got.astype(np.float64)) | np.isnan(wanted)).tolist() == [
        math.copysign(1, value) < 0 or math.isnan(value) for value in wanted
    ]


def test_what_tf32_drops_is_zero() -> None:
    bits = rounded(np.array([np.nan, 1 / 3, -1e30]), Format.TF32).view(np.uint32)
    assert (bits & 0x1FFF).tolist() == [0, 0, 0]
    assert bits[0] == 0x7FC00000


def test_a_single_number_stays_one() -> None:
    for fmt in FORMATS:
        assert rounded(np.array(0.1), fmt).shape == ()


def test_subnormal_bfloat16() -> None:
    tiny = float(ml_dtypes.finfo(ml_dtypes.bfloat16).smallest_subnormal)
    got = rounded(np.array([tiny, 1.5 * tiny, 0.5 * tiny, 0.75 * tiny]), Format.BF16)
    assert [float(value) / tiny for value in got] == [1.0, 2.0, 0.0, 1.0]
