"""Runs a network in one format of floats; some nodes can be in FP32 instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from compiler.evaluation.host_run import HostRun, KeptGrids
from compiler.evaluation.narrow_run import NarrowRun
from compiler.evaluation.reference import quantises
from compiler.evaluation.remarks import wide_or_none
from compiler.evaluation.storage import compute_format, default_dtype
from compiler.graph import Graph, Node
from compiler.operators import OPERATORS
from compiler.passes.rewrite import simplified
from compiler.quantise.metric import Outputs
from compiler.quantise.quantise import Chosen
from compiler.quantise.ranges.observation import Progress, silent
from compiler.quantise.ranges.samples import Samples
from compiler.rewrite.norms import large_numbers, small_numbers, statistics
from tx8isa.numbers.formats import Format

_WIDE = Format.FP32


@dataclass(frozen=True)
class HeldValues:
    """The values that a format cannot hold on some data, and the nodes that compute in FP32 therefore."""

    nodes: frozenset[str]
    values: Mapping[str, float]


def rewritten(graph: Graph) -> Graph:
    """Return the graph whose nodes can have formats: simplified as for compiling, unless it is quantised."""
    return graph if quantises(graph) else simplified(graph)


def held_wide(graph: Graph, samples: Samples, dtype: str | None, progress: Progress = silent) -> Chosen:
    """Run the graph over all samples and put FP32 around values that a format of floats cannot hold.

    The format is ``dtype``, by default the graph's own. GraphError for an unknown one.
    """
    token = compute_format(dtype or default_dtype(graph)).token
    held = FloatNetwork(rewritten(graph), samples, token, progress).held
    made = replace(graph, precise=graph.precise | held.nodes)
    return Chosen(made, token, wide=wide_or_none(held.values))


class FloatNetwork:
    """The network ``source`` in the format ``narrow``, with FP32 around values that it cannot hold."""

    wide = _WIDE.token
    expected: Outputs | None = None

    def __init__(self, source: Graph, samples: Samples, dtype: str, progress: Progress) -> None:
        self.source, self.samples, self.narrow = source, samples, dtype
        self._format = Format.parse(dtype)
        self._always = self._known()
        self._kept: KeptGrids = {}
        run = NarrowRun(source, self._format, self._always)
        for at, inputs in enumerate(samples if self._format is Format.FP16 else ()):
            progress(f"values in {dtype}", at, samples.count)
            run.run(inputs)
        self.held = HeldValues(frozenset(run.precise) - self._always, dict(run.held))

    @property
    def candidates(self) -> Mapping[str, Node]:
        """The nodes that compute floats and need not be in FP32."""
        return {node.name: node for node in self.source.nodes if self._computes(node)}

    def run_of(self, formats: Mapping[str, str]) -> HostRun:
        """Return the runner of the network with some formats; values between nodes are rounded."""
        if self._format is _WIDE:
            return HostRun(self.source, self._kept)
        precise = {name for name in self.candidates if formats.get(name, self.wide) == self.wide}
        return NarrowRun(self.source, self._format, precise | self.held.nodes | self._always, self._kept)

    def of(self, graph: Graph, formats: Mapping[str, str]) -> Graph:
        """Apply formats to the nodes of the graph that the network was made from."""
        precise = {name for name, found in formats.items() if found == self.wide}
        return replace(graph, precise=graph.precise | self.held.nodes | precise)

    def _known(self) -> frozenset[str]:
        """Return the nodes that compute in FP32 whatever the data are."""
        found = self.source.precise | statistics(self.source)
        return (
            found | small_numbers(self.source, self._format) | large_numbers(self.source, self._format).nodes
        )

    def _computes(self, node: Node) -> bool:
        is_float = all(self.source.tensors[name].is_float for name in node.outputs if name)
        record = OPERATORS[node.op]
        moves = record.moves or record.keeps_elements
        return (
            is_float
            and not moves
            and not record.quantised
            and node.name not in self.held.nodes | self._always
        )
