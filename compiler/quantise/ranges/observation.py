"""Runs a graph over the samples and collects histograms of its values and means of their channels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable

import numpy as np

from compiler.evaluation.host_run import HostRun
from compiler.graph import Array, Graph, GraphError

from .histogram import Histogram
from .samples import Samples

Progress = Callable[[str, int, int], None]
"""Called with the present work, how much of it is done, and how much there is."""


def silent(what: str, done: int, total: int) -> None:
    """A progress that shows nothing."""


Channels = tuple[str, int]
"""A value and the axis of its channels."""


class Observations:
    """Histograms of values, sums and largest magnitudes of their channels, and the outputs of all runs."""

    def __init__(self, values: Iterable[str], channels: Collection[Channels]) -> None:
        self.histograms = {name: Histogram() for name in values}
        self.outputs: list[dict[str, Array]] = []
        self._axes: dict[str, list[int]] = defaultdict(list)
        for name, axis in channels:
            self._axes[name].append(axis)
        self._sums: dict[Channels, Array] = {}
        self._counts: dict[Channels, int] = {}
        self._largest: dict[Channels, Array] = {}

    def see(self, name: str, array: Array) -> None:
        """Count a value; GraphError if it has infinities or NaN."""
        if name not in self.histograms and name not in self._axes:
            return
        if not np.isfinite(array).all():
            raise GraphError([f"'{name}' becomes NaN or infinite in binary32 on the calibration data"])
        if name in self.histograms:
            self.histograms[name].add(array)
        for axis in self._axes.get(name, ()):
            self._see_channels((name, axis), np.moveaxis(array, axis, 0).reshape(array.shape[axis], -1))

    def _see_channels(self, key: Channels, rows: Array) -> None:
        sums, largest = rows.sum(axis=1, dtype=np.float64), np.abs(rows).max(axis=1)
        self._sums[key] = self._sums[key] + sums if key in self._sums else sums
        self._counts[key] = self._counts.get(key, 0) + rows.shape[1]
        self._largest[key] = np.maximum(self._largest[key], largest) if key in self._largest else largest

    def mean(self, value: str, axis: int) -> Array:
        """Return the mean of each channel, in binary64."""
        return np.asarray(self._sums[value, axis] / self._counts[value, axis])

    def largest(self, value: str, axis: int) -> Array:
        """Return the largest magnitude in each channel."""
        return self._largest[value, axis]


def observed(
    graph: Graph,
    samples: Samples,
    values: Collection[str],
    channels: Collection[Channels],
    progress: Progress,
) -> Observations:
    """Observe some values of a graph in runs over all samples."""
    found, run = Observations(values, channels), HostRun(graph)
    for at, inputs in enumerate(samples):
        progress("calibration", at, samples.count)
        found.outputs.append(run.run(inputs, seen=found.see))
    return found
