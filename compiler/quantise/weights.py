"""Weights as bytes with a scale for each output channel, and biases that correct their mean error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compiler.graph import Array

from .places import KnownFloats

LARGEST = 127
"""Largest magnitude of a byte of weights: ranges are symmetric, so that zero points are 0."""


@dataclass(frozen=True)
class ByteWeights:
    """Weights as int8; ``scale``: a binary32 number for each index of ``axis``.

    ``missing``: the error in the mean of each output channel, in binary64; None if it is not corrected.
    """

    values: Array
    scale: Array
    axis: int
    missing: Array | None

    def restored(self) -> Array:
        """Return the weights that the bytes represent, in binary64."""
        return self.values * _along(self.scale.astype(np.float64), self.axis, self.values.ndim)


def byte_weights(known: KnownFloats) -> ByteWeights:
    """Quantise each output channel to bytes; the range ends at its largest magnitude."""
    values = known.values.astype(np.float64)
    others = tuple(at for at in range(values.ndim) if at != known.axis)
    largest = np.abs(values).max(axis=others)
    scale = (largest / LARGEST).astype(np.float32)
    scale[scale < np.finfo(np.float32).tiny] = 1.0
    whole = np.rint(values / _along(scale.astype(np.float64), known.axis, values.ndim))
    return ByteWeights(np.clip(whole, -LARGEST, LARGEST).astype(np.int8), scale, known.axis, None)


def mean_error(known: KnownFloats, made: ByteWeights, mean: Array, groups: int = 1) -> Array:
    """Return the error that quantised weights cause in the mean of each output channel, in binary64.

    ``mean`` has the mean of each input channel. The weights are [M, C / groups, ...] of a convolution, or a
    matrix.
    """
    missing = known.values.astype(np.float64) - made.restored()
    if known.values.ndim == 2:  # a matrix, whose columns or rows are output channels
        return np.asarray((missing * _along(mean, 1 - known.axis, 2)).sum(axis=1 - known.axis))
    maps, per_group = missing.shape[:2]
    taps = missing.reshape(groups, maps // groups, per_group, -1).sum(axis=-1)
    return np.asarray((taps * mean.reshape(groups, 1, per_group)).sum(axis=-1)).reshape(-1)


def _along(vector: Array, axis: int, rank: int) -> Array:
    """Reshape a vector so that it broadcasts along an axis."""
    return vector.reshape([-1 if at == axis else 1 for at in range(rank)])
