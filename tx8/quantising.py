"""What ``tx8.compile`` takes to quantise a network of floats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compiler.graph import Graph, GraphError

if TYPE_CHECKING:
    from compiler.quantise import DecisionTable, Quantised, Settings

Samples = Mapping[str, Any] | str | Path
"""Samples of the inputs: arrays by name, or a .npz file of them."""


@dataclass(frozen=True)
class Quantisation:
    """How a network is quantised; the fields are arguments of ``tx8.compile``."""

    calibrate: Samples | None
    calibration: str | Settings
    max_loss: float | None
    metric: Callable[[dict[str, Any]], float] | None
    formats: str | Path | None

    def applied(
        self, graph: Graph, dtype: str | None, options: Mapping[str, Any]
    ) -> tuple[Graph, str | None, DecisionTable | None]:
        """The graph to compile, the format of its floats, and the decisions if it was quantised.

        ``options``: those of ``compile_graph``, with which cycles are estimated. GraphError for what cannot
        be quantised, and for arguments that say nothing without samples.
        """
        if self.calibrate is None or dtype != "int8":
            self._check(dtype)
            return graph, dtype, None
        made = self._quantised(graph, self.calibrate, options)
        return made.graph, made.dtype, made.table

    def _check(self, dtype: str | None) -> None:
        if self.calibrate is not None:
            raise GraphError([f'calibrate needs dtype="int8"; found dtype={dtype!r}'])
        for name in ("max_loss", "metric", "formats"):
            if getattr(self, name) is not None:
                raise GraphError([f"{name} needs calibrate, samples of the inputs"])

    def _quantised(self, graph: Graph, given: Samples, options: Mapping[str, Any]) -> Quantised:
        from compiler.quantise import (
            FLOAT,
            Goal,
            Metric,
            Settings,
            compiled_cycles,
            quantise,
            read_samples,
            samples_of,
        )

        settings = self.calibration
        if isinstance(settings, str):
            settings = Settings(settings)
        samples = samples_of(given, graph) if isinstance(given, Mapping) else read_samples(Path(given), graph)
        metric = Metric(getattr(self.metric, "__name__", "metric"), self.metric) if self.metric else None
        goal = Goal(self.max_loss, metric, Path(self.formats) if self.formats is not None else None)
        decides = self.max_loss is not None or self.formats is not None
        cycles = compiled_cycles(dtype=FLOAT, **options) if decides else None
        return quantise(graph, samples, settings, goal, cycles=cycles)
