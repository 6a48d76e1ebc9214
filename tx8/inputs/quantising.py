"""Quantises a network of floats, or chooses its formats, for ``tx8.compile``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compiler.graph import Graph, GraphError

if TYPE_CHECKING:
    from compiler.quantise import Chosen, CyclesOf, Goal, Quantised, Settings
    from compiler.quantise import Samples as KnownSamples

Samples = Mapping[str, Any] | str | Path
"""Samples of the inputs: arrays by name, or a .npz file of them."""


@dataclass(frozen=True)
class Quantisation:
    """The arguments of ``tx8.compile`` that choose a network's formats."""

    calibrate: Samples | None
    calibration: str | Settings
    max_loss: float | None
    metric: Callable[[dict[str, Any]], float] | None
    formats: str | Path | None

    def applied(self, graph: Graph, dtype: str | None, options: Mapping[str, Any]) -> Chosen:
        """Choose formats; returns the graph to compile, the format of its floats, and the decisions.

        ``options``: the options of ``compile_graph``, for estimates of cycles. GraphError for a graph that
        cannot be quantised, and for arguments that need samples.
        """
        from compiler.quantise import Chosen, held_wide

        if dtype == "auto":
            return self._automatic(graph, options)
        self._check(dtype)
        if self.calibrate is None:
            return Chosen(graph, dtype)
        if dtype != "int8":
            return held_wide(graph, self._samples(graph), dtype)
        return self._quantised(graph, options).chosen

    def _check(self, dtype: str | None) -> None:
        for name in ("max_loss", "metric", "formats"):
            if getattr(self, name) is None:
                continue
            if dtype != "int8":
                raise GraphError([f'{name} needs dtype="int8" or "auto"; found dtype={dtype!r}'])
            if self.calibrate is None:
                raise GraphError([f"{name} needs calibrate, samples of the inputs"])

    def _quantised(self, graph: Graph, options: Mapping[str, Any]) -> Quantised:
        from compiler.quantise import FLOAT, compiled_cycles, quantise

        decides = self.max_loss is not None or self.formats is not None
        cycles = compiled_cycles(dtype=FLOAT, **options) if decides else None
        return quantise(graph, self._samples(graph), self._settings, self._goal, cycles=cycles)

    def _automatic(self, graph: Graph, options: Mapping[str, Any]) -> Chosen:
        from compiler.quantise import Allowed, automatic, compiled_cycles

        origin = "on random inputs" if self.calibrate is None else ""
        allowed = Allowed(self._goal, self._settings, self.calibrate is not None, origin)

        def cycles(dtype: str) -> CyclesOf:
            return compiled_cycles(dtype=dtype, **options)

        return automatic(graph, self._samples(graph), allowed, cycles).chosen

    @property
    def _settings(self) -> Settings:
        from compiler.quantise import Settings

        return Settings(self.calibration) if isinstance(self.calibration, str) else self.calibration

    @property
    def _goal(self) -> Goal:
        from compiler.quantise import Goal, Metric

        metric = Metric(getattr(self.metric, "__name__", "metric"), self.metric) if self.metric else None
        return Goal(self.max_loss, metric, Path(self.formats) if self.formats is not None else None)

    def _samples(self, graph: Graph) -> KnownSamples:
        """Return the given samples, or random ones."""
        from compiler.quantise import read_samples, samples_of
        from compiler.tools.run import random_samples

        if self.calibrate is None:
            return random_samples(graph, 0)
        if isinstance(self.calibrate, Mapping):
            return samples_of(self.calibrate, graph)
        return read_samples(Path(self.calibrate), graph)
