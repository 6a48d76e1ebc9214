"""Chooses the ranges of values that bytes represent, from histograms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from compiler.graph import Array, GraphError
from tx8isa.tools.suggestions import hint

from .histogram import Histogram

Range = tuple[float, float]
"""The least and the largest value; zero lies between them."""

LEVELS = 256
LOWEST = -128
_STEPS = 64
"""Candidates for each end of a range."""
_PERCENTILE = 99.99


@dataclass(frozen=True)
class Settings:
    """Settings of quantisation.

    ``method``: how ranges are chosen, a name of ``METHODS``. percentile may have the share of the values that
    is inside the range, as in ``percentile:99.9``. ``correct_bias``: subtract the mean error of weights from
    biases. ``equalise``: scale the channels between two products so that the weights on both sides have equal
    ranges. ``smooth``: None, or the share, between 0 and 1, of the spread of channels that moves from values
    into weights.
    """

    method: str = "mse"
    correct_bias: bool = True
    equalise: bool = False
    smooth: float | None = None

    def __post_init__(self) -> None:
        """Raise GraphError for an unknown method or a wrong number."""
        range_chooser(self.method)
        if self.smooth is not None and not 0.0 <= self.smooth <= 1.0:
            raise GraphError([f"smoothing by {self.smooth:g}: expected a number from 0 to 1"])


@dataclass(frozen=True)
class ByteScale:
    """Scale and zero point of signed bytes: a byte ``b`` stands for ``(b - zero) * scale``."""

    scale: np.float32
    zero: int


def byte_scale(bounds: Range) -> ByteScale:
    """Return the scale and zero point with which bytes cover a range."""
    low, high = min(bounds[0], 0.0), max(bounds[1], 0.0)
    step = (high - low) / (LEVELS - 1)
    if step < np.finfo(np.float32).tiny:
        return ByteScale(np.float32(1.0), 0)
    return ByteScale(np.float32(step), round(LOWEST - low / step))


def range_chooser(method: str) -> Callable[[Histogram], Range]:
    """Return the function that chooses a range by a method; GraphError for an unknown method."""
    name, _, argument = method.partition(":")
    if name not in METHODS:
        raise GraphError(
            [f"unknown calibration '{method}'; allowed are {', '.join(METHODS)}{hint(name, METHODS)}"]
        )
    if name != "percentile":
        if argument:
            raise GraphError([f"calibration '{method}': {name} takes no number"])
        return METHODS[name]
    share = _number(argument) if argument else _PERCENTILE
    if not 50.0 < share <= 100.0:
        wanted = "a share in percent above 50 and up to 100, as in percentile:99.9"
        raise GraphError([f"calibration '{method}': expected {wanted}"])
    return lambda histogram: _percentile(histogram, share)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return -1.0


def _all_values(histogram: Histogram) -> Range:
    return histogram.lowest, histogram.highest


def _percentile(histogram: Histogram, share: float = _PERCENTILE) -> Range:
    """Return the range that contains a share of the values; as many values are below as above it."""
    total, counts = int(histogram.counts.sum()), np.cumsum(histogram.counts)
    outside = total * (100.0 - share) / 200.0
    low = int(np.searchsorted(counts, outside, side="right"))
    high = int(np.searchsorted(counts, total - outside, side="left"))
    edges = histogram.edges
    return min(max(edges[low], histogram.lowest), 0.0), max(min(edges[high + 1], histogram.highest), 0.0)


def _entropy(histogram: Histogram) -> Range:
    """Return the largest magnitude for which the distributions of the bytes and of the values differ least.

    Differences are Kullback-Leibler divergences. Values beyond the ends count as the ends.
    """
    largest = max(-histogram.lowest, histogram.highest)
    best, found = np.inf, _all_values(histogram)
    for step in range(_STEPS, _STEPS // 16, -1):
        limit = largest * step / _STEPS
        bounds = max(histogram.lowest, -limit), min(histogram.highest, limit)
        divergence = _divergence(histogram, bounds)
        if divergence < best:
            best, found = divergence, bounds
    return found


def _divergence(histogram: Histogram, bounds: Range) -> float:
    """Return the divergence, in nats, of the clipped values from the distribution of their bytes."""
    seen = np.flatnonzero(histogram.counts)
    centres, counts = histogram.centres[seen], histogram.counts[seen].astype(np.float64)
    inside = (centres >= bounds[0]) & (centres <= bounds[1])
    if not inside.any():
        return np.inf
    kept = counts[inside]
    cut = kept.copy()
    cut[0] += counts[centres < bounds[0]].sum()
    cut[-1] += counts[centres > bounds[1]].sum()
    levels = _bytes_of(centres[inside], byte_scale(bounds)) - LOWEST
    sums, bins = np.bincount(levels, kept, LEVELS), np.bincount(levels, minlength=LEVELS)
    spread = sums[levels] / bins[levels]
    return float(np.sum(cut / cut.sum() * np.log((cut / cut.sum()) / (spread / spread.sum()))))


def _bytes_of(values: Array, how: ByteScale) -> Array:
    whole = np.rint(values / float(how.scale)) + how.zero
    return np.asarray(np.clip(whole, LOWEST, LOWEST + LEVELS - 1), np.int64)


def _least_squares(histogram: Histogram) -> Range:
    """Return the range with the least mean square error: both ends are moved in together, then each one
    separately."""
    lowest, highest = _all_values(histogram)
    seen = np.flatnonzero(histogram.counts)
    centres, counts = histogram.centres[seen], histogram.counts[seen].astype(np.float64)

    def error(bounds: Range) -> float:
        how = byte_scale(bounds)
        restored = (_bytes_of(centres, how) - how.zero) * float(how.scale)
        return float(np.sum(counts * (restored - centres) ** 2))

    parts = [step / _STEPS for step in range(_STEPS, 0, -1)]
    low, high = min(((lowest * part, highest * part) for part in parts), key=error)
    low, high = min(((low, highest * part) for part in parts), key=error)
    return min(((lowest * part, high) for part in parts), key=error)


METHODS: dict[str, Callable[[Histogram], Range]] = {
    "minmax": _all_values,
    "percentile": _percentile,
    "entropy": _entropy,
    "mse": _least_squares,
}
"""The methods that choose a range from a histogram, by name."""
