"""Measures the loss of a quantised network: by the cosine of its outputs, or by a user's function."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.evaluation.tolerance import cosine_of
from compiler.graph import Array, GraphError

Outputs = Mapping[str, Array]
"""The outputs of all runs, by name: [count, *shape]."""


@dataclass(frozen=True)
class Metric:
    """A figure of merit of outputs, larger for better ones: ``function``, or without it the mean cosine."""

    name: str = "cosine"
    function: Callable[[dict[str, Array]], Any] | None = None

    def loss(self, expected: Outputs, found: Outputs) -> float:
        """Return the share of the float network's figure that is lost, below zero for a gain.

        GraphError for a function that raises, or returns no finite number.
        """
        if self.function is None:
            return distance(expected, found)
        before, after = self._called(expected), self._called(found)
        return (before - after) / abs(before) if before else before - after

    def _called(self, outputs: Outputs) -> float:
        assert self.function is not None
        try:
            result = self.function({name: array.copy() for name, array in outputs.items()})
        except Exception as error:
            raise GraphError([f"metric {self.name} raised {type(error).__name__}: {error}"]) from None
        is_number = isinstance(result, int | float | np.integer | np.floating | np.bool_)
        if not is_number or not math.isfinite(result):
            found = str(result) if is_number else f"a {type(result).__name__}"
            raise GraphError([f"metric {self.name} gave {found}; expected a finite number"])
        return float(result)


def distance(expected: Outputs, found: Outputs) -> float:
    """Return 1 minus the mean over the runs of the cosine of the worst output.

    For integers and truth values it is the share of equal elements instead of the cosine.
    """
    counts = [len(array) for array in expected.values()]
    nearness = [
        min(_nearness(expected[name][at], found[name][at]) for name in expected) for at in range(min(counts))
    ]
    return 1.0 - math.fsum(nearness) / len(nearness)


def _nearness(expected: Array, found: Array) -> float:
    if expected.dtype.kind != "f":
        return float(np.mean(expected == found)) if expected.size else 1.0
    a, b = expected.astype(np.float64).reshape(-1), found.astype(np.float64).reshape(-1)
    if not np.isfinite(a).all() or not np.isfinite(b).all():
        return 1.0 if np.array_equal(a, b, equal_nan=True) else 0.0
    return cosine_of(a, b)


def joined(runs: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """Join the outputs of several runs as [count, *shape]."""
    return {name: np.stack([run[name] for run in runs]) for name in runs[0]}
