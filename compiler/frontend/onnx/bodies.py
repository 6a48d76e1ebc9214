"""Subgraphs that the program executes, each as a graph of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from compiler.evaluation.folding import needed
from compiler.evaluation.infer import build_graph
from compiler.graph import Graph, Tensor

from .partial import PartialGraph, Scope, finished_description


@dataclass
class Body:
    """A subgraph that was read into ``inner``.

    ``outer`` is the graph around it, ``inputs`` the values that the subgraph declares, ``results`` the names
    of its results.
    """

    outer: PartialGraph
    inner: PartialGraph
    name: str
    inputs: Sequence[Tensor]
    results: Sequence[str]

    @cached_property
    def captured(self) -> list[str]:
        """Return the values of the outer graph that the subgraph reads, without constants."""
        own = {tensor.name for tensor in self.inputs}
        _, reads = needed(self.inner.nodes, self.results)
        outside = self.outer.tensors.keys() - self.outer.constants.keys() - own
        return sorted(reads & outside)

    def __post_init__(self) -> None:
        for name in self.results:
            self.inner.tensor(name)  # Unsupported for a sequence

    def graph(self, captured: Sequence[str]) -> Graph:
        """Return the subgraph as a graph: its inputs are its declared ones, then captured values."""
        outputs = tuple(f"{self.name}/result {number}" for number in range(len(self.results)))
        scope = Scope(dict(zip(outputs, self.results, strict=True)))
        inputs = (*self.inputs, *map(self.outer.tensor, captured))
        return build_graph(finished_description(self.name, self.inner, scope, inputs, outputs))
