"""Histograms, and the ranges, scales and zero points that are chosen from them."""

from __future__ import annotations

import contextlib
import io
import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from compiler.graph import Array, GraphError
from compiler.quantise.ranges.calibration import METHODS, Settings, byte_scale, range_chooser
from compiler.quantise.ranges.histogram import MOST_BINS, Histogram
from onnx_oracle import _needed

BYTES = range(-128, 128)


def histogram(*parts: Array) -> Histogram:
    made = Histogram()
    for part in parts:
        made.add(np.asarray(part, np.float32))
    return made


def normal(count: int, scale: float = 1.0, seed: int = 1) -> Array:
    return np.asarray(np.random.default_rng(seed).standard_normal(count) * scale, np.float32)


# --- histograms -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1.0, 777.0, 1e30])
def test_bins_hold_what_numpy_counts(scale: float) -> None:
    values = normal(5000, scale)
    made = histogram(values)
    assert len(made.counts) <= MOST_BINS < 2 * len(made.counts) + 2
    counts, _ = np.histogram(values.astype(np.float64), made.edges)
    np.testing.assert_array_equal(made.counts, counts)
    assert Fraction(made.width).numerator == 1 or Fraction(made.width).denominator == 1
    assert (made.lowest, made.highest) == (values.min(), values.max())


def test_the_order_of_samples_does_not_matter() -> None:
    parts = [normal(300, scale, at) for at, scale in enumerate((1e-6, 1.0, 40.0))]
    made = [histogram(*order) for order in itertools.permutations(parts)]
    made.append(histogram(np.concatenate(parts)))
    for other in made[1:]:
        np.testing.assert_array_equal(other.counts, made[0].counts)
        np.testing.assert_array_equal(other.edges, made[0].edges)


def test_values_of_one_sign_reach_to_zero() -> None:
    made = histogram(np.array([3.0, 5.0]))
    assert (made.lowest, made.highest) == (0.0, 5.0)
    assert histogram(np.array([-2.0])).highest == 0.0
    assert histogram(np.zeros(7)).counts.sum() == 7
    assert histogram(np.zeros((0, 3))).counts.sum() == 0


def test_zeros_of_a_relu_are_zero() -> None:
    made = histogram(np.maximum(normal(1000), 0))
    assert made.centres[0] == 0.0


# --- scales ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_scales_are_those_of_onnxruntime(seed: int) -> None:
    """They are computed in exact arithmetic except for one rounding."""
    quant_utils: Any = pytest.importorskip("onnxruntime.quantization.quant_utils")
    rng = np.random.default_rng(seed)
    low, high = (
        float(np.float32(end)) for end in np.sort(rng.standard_normal(2) * 10.0 ** rng.integers(-6, 6))
    )
    ends = (np.array(-128, np.int8), np.array(127, np.int8))
    zero, scale = quant_utils.compute_scale_zp(np.array(low, np.float32), np.array(high, np.float32), *ends)
    made = byte_scale((low, high))
    assert (made.scale, made.zero) == (scale, zero)
    exact = (max(Fraction(high), Fraction(0)) - min(Fraction(low), Fraction(0))) / 255
    assert made.scale == np.float32(float(exact))


@pytest.mark.parametrize("bounds", [(0.0, 0.0), (0.0, 1e-44), (-1e-45, 0.0)])
def test_a_range_without_extent_has_a_scale(bounds: tuple[float, float]) -> None:
    made = byte_scale(bounds)
    assert (made.scale, made.zero) == (1.0, 0)


@pytest.mark.parametrize("bounds", [(0.0, 5.0), (-3.0, 0.0), (-1.0, 2.0), (1.0, 2.0), (-7.0, -3.0)])
def test_zero_is_a_byte_and_the_ends_are_within_half_a_step(bounds: tuple[float, float]) -> None:
    made = byte_scale(bounds)
    assert made.zero in BYTES
    low, high = min(bounds[0], 0.0), max(bounds[1], 0.0)
    assert abs((-128 - made.zero) * float(made.scale) - low) <= made.scale * 0.51
    assert abs((127 - made.zero) * float(made.scale) - high) <= made.scale * 0.51


# --- methods --------------------------------------------------------------------------------------------


def by_onnxruntime(method: str, values: Array, **more: Any) -> tuple[float, float]:
    """The range that onnxruntime's own collector of histograms chooses."""
    calibrate: Any = pytest.importorskip("onnxruntime.quantization.calibrate")
    given = {"symmetric": False, "num_bins": 2048, "num_quantized_bins": 128, "percentile": 99.99, **more}
    with contextlib.redirect_stdout(io.StringIO()):
        collector = calibrate.HistogramCollector(method=method, scenario="same", **given)
        collector.collect({"x": [values]})
        low, high = collector.compute_collection_result()["x"][:2]
    return float(low), float(high)


@pytest.mark.parametrize("share", [99.0, 99.9, 99.99])
@pytest.mark.parametrize("seed", range(3))
def test_percentiles_are_those_of_onnxruntime_and_numpy(share: float, seed: int) -> None:
    values = normal(40000, 3.0, seed)
    low, high = range_chooser(f"percentile:{share}")(histogram(values))
    bins = 8 * 2 * float(np.abs(values).max()) / 2048
    want = by_onnxruntime("percentile", values, percentile=share)
    assert (low, high) == pytest.approx(want, abs=bins)
    outside = (100 - share) / 2
    assert (low, high) == pytest.approx(tuple(np.percentile(values, [outside, 100 - outside])), abs=bins)


def test_min_max_and_all_percent_are_the_ends() -> None:
    values = normal(1000)
    ends = (values.min(), values.max())
    assert range_chooser("minmax")(histogram(values)) == ends
    assert range_chooser("percentile:100")(histogram(values)) == ends


def test_entropy_leaves_out_what_onnxruntime_leaves_out() -> None:
    """A few values far out do not justify the precision that all others would lose."""
    values = np.r_[normal(100000), [60.0, -60.0]].astype(np.float32)
    low, high = range_chooser("entropy")(histogram(values))
    assert high == -low
    want = by_onnxruntime("entropy", values)[1]
    assert high < 15 and want < 15
    assert range_chooser("entropy")(histogram(normal(100000)))[1] > 0.8 * normal(100000).max() or high > 3


@pytest.mark.parametrize("seed", range(3))
def test_least_squares_is_no_worse_than_any_cut(seed: int) -> None:
    """The error is computed from the values themselves; the bins change it only a little."""
    values = np.random.default_rng(seed).standard_t(3, 20000).astype(np.float32)

    def error(bounds: tuple[float, float]) -> float:
        how = byte_scale(bounds)
        whole = np.clip(np.rint(values / how.scale) + how.zero, -128, 127)
        return float(np.mean(((whole - how.zero) * float(how.scale) - values.astype(np.float64)) ** 2))

    found = error(range_chooser("mse")(histogram(values)))
    cuts = [
        error((float(values.min()) * part, float(values.max()) * part)) for part in np.arange(0.1, 1.01, 0.05)
    ]
    assert found <= 1.02 * min(cuts)
    assert found < error((float(values.min()), float(values.max())))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "values", [np.zeros(9), np.array([2.5]), np.array([-1e-3] * 5), np.maximum(normal(500), 0)]
)
def test_ranges_hold_zero_and_no_more_than_was_seen(method: str, values: Array) -> None:
    low, high = range_chooser(method)(histogram(values))
    ends = np.asarray(values, np.float32)
    assert min(ends.min(), 0.0) <= low <= 0.0 <= high <= max(ends.max(), 0.0)
    if values.min() >= 0:
        assert low == 0.0


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("maxmin", "unknown calibration 'maxmin'; allowed are minmax, percentile, entropy, mse"),
        ("entrop", "did you mean 'entropy'?"),
        ("percentile:49", "a share in percent above 50 and up to 100"),
        ("percentile:101", "a share in percent above 50 and up to 100"),
        ("percentile:much", "a share in percent above 50 and up to 100"),
        ("percentile:nan", "a share in percent above 50 and up to 100"),
        ("mse:3", "mse takes no number"),
    ],
)
def test_other_methods_are_refused(method: str, message: str) -> None:
    with pytest.raises(GraphError) as caught:
        Settings(method)
    assert message in str(caught.value)


@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan")])
def test_smoothing_is_by_a_share(share: float) -> None:
    with pytest.raises(GraphError, match="expected a number from 0 to 1"):
        Settings(smooth=share)


def test_the_oracle_is_there() -> None:
    assert _needed("onnxruntime.quantization")
