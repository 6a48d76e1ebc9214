"""A float network with figures from its samples, from which graphs for any formats are made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from compiler.evaluation.host_run import HostRun, KeptGrids
from compiler.graph import Graph, GraphError, Node
from compiler.operators import OPERATORS, call_of
from compiler.passes.rewrite import simplified
from compiler.rewrite import RewrittenGraph
from compiler.rewrite.quantised import QUANTISED, TABLES

from .formats import FLOAT
from .insertion import Insertion
from .metric import Outputs, joined
from .places import Places
from .ranges.calibration import ByteScale, Settings, byte_scale, range_chooser
from .ranges.observation import Channels, Progress, observed
from .ranges.samples import Samples
from .scaling import Scaling
from .weights import ByteWeights, byte_weights, mean_error


class Quantiser:
    """A network with the ranges of its values, for any choice of nodes.

    GraphError for a network that is quantised already, or has nothing that computes with bytes.
    """

    narrow, wide = "int8", FLOAT

    def __init__(self, graph: Graph, samples: Samples, settings: Settings, progress: Progress) -> None:
        old = next((node for node in graph.nodes if node.op in QUANTISED), None)
        if old is not None:
            raise GraphError([f"{graph.name} is quantised already: {old}; only floats can be quantised"])
        self.samples, self.settings = samples, settings
        self.source = _scaled(simplified(graph), samples, settings, progress)
        places = Places(self.source)
        if not any(OPERATORS[node.op].product for node in places.candidates.values()):
            wanted = "a convolution or matrix product of float32 with known weights"
            raise GraphError([f"{graph.name} has nothing to quantise: no node is {wanted}"])
        products = [node for node in places.candidates.values() if OPERATORS[node.op].product]
        values = places.values(places.candidates)
        channels = {_channels(self.source, node) for node in products}
        self._seen = observed(self.source, samples, values, channels, progress)
        choose = range_chooser(settings.method)
        self._ranges = {name: choose(histogram) for name, histogram in self._seen.histograms.items()}
        self._weights: dict[str, ByteWeights] = {}
        self._kept: KeptGrids = {}
        self.places = places
        self.places = Places(self.source, self._refused(places))

    def graph(self, formats: Mapping[str, str]) -> Graph:
        """Return the graph in which nodes have formats; nodes without one have ``wide``."""
        chosen = [name for name in self.places.candidates if formats.get(name) == "int8"]
        scales = self._scales(self.places.values(chosen))
        precise = {name for name, found in formats.items() if found == "fp32"}
        for name in precise.intersection(self.places.candidates):
            precise = precise.union(node.name for node in self.places.tail(self.places.node(name)))
        made = Insertion(self.places, chosen, scales, self.weights).graph(precise)
        return replace(made, near=True)

    @property
    def candidates(self) -> Mapping[str, Node]:
        """The nodes that can compute with bytes."""
        return self.places.candidates

    @property
    def expected(self) -> Outputs | None:
        """The outputs of the float network, which the calibration has seen."""
        return joined(self._seen.outputs)

    def run_of(self, formats: Mapping[str, str]) -> HostRun:
        """Return the runner of the network with some formats, floats in binary32."""
        return HostRun(self.graph(formats), self._kept)

    def weights(self, node: Node) -> ByteWeights:
        """Return the weights of a product in bytes, with the bias that corrects their mean error."""
        if node.name not in self._weights:
            self._weights[node.name] = self._made_weights(node)
        return self._weights[node.name]

    def others(self, formats: Mapping[str, str]) -> str:
        """Return the operators, other than candidates, that compute in float, each with its count."""
        chosen = {name for name, found in formats.items() if found == "int8"}
        values = self.places.values([name for name in self.places.candidates if name in chosen])
        with_bytes = {node.name for name in chosen for node in self.places.tail(self.places.node(name))}
        counts: Counter[str] = Counter()
        for node in self.source.nodes:
            moved = node.outputs[0] in values and self.places.moved(node)
            if node.name not in self.places.candidates and node.name not in with_bytes and not moved:
                counts[node.op] += 1
        return ", ".join(f"{count} {op}" for op, count in sorted(counts.items()))

    def _refused(self, places: Places) -> set[str]:
        """Return the products that no operator on bytes computes; the rewrites do not change them."""
        graph = self.graph(dict.fromkeys(places.candidates, "int8"))
        for table in TABLES:
            graph = RewrittenGraph(graph).run(table)
        return {
            node.name
            for node in graph.nodes
            if node.name in places.candidates
            and OPERATORS[node.op].product is not None
            and graph.tensors[node.inputs[0]].is_float
        }

    def _scales(self, homes: Mapping[str, str]) -> dict[str, ByteScale]:
        """Return the scales of values; values of one home share the range that covers all of them."""
        ranges: dict[str, tuple[float, float]] = {}
        for name, home in homes.items():
            low, high = self._ranges[name]
            before = ranges.get(home, (low, high))
            ranges[home] = min(low, before[0]), max(high, before[1])
        return {name: byte_scale(ranges[home]) for name, home in sorted(homes.items())}

    def _made_weights(self, node: Node) -> ByteWeights:
        known = self.places.weights(node)
        assert known is not None
        made = byte_weights(known)
        if not self.settings.correct_bias:
            return made
        groups = call_of(self.source, node).integer("group") if OPERATORS[node.op].window else 1
        missing = mean_error(known, made, self._seen.mean(*_channels(self.source, node)), groups)
        return replace(made, missing=missing)


def _channels(graph: Graph, node: Node) -> Channels:
    """Return the operand of a product, and the axis of its channels."""
    rank = len(graph.tensors[node.inputs[0]].shape)
    return node.inputs[0], 1 if OPERATORS[node.op].window else rank - 1


def _scaled(graph: Graph, samples: Samples, settings: Settings, progress: Progress) -> Graph:
    """Return the graph with its channels scaled, as far as the settings ask for it."""
    if not settings.equalise and settings.smooth is None:
        return graph
    scaling = Scaling(graph)
    if settings.equalise:
        scaling.equalise()
    if settings.smooth is not None:
        current = scaling.scaled()
        seen = observed(current, samples, (), {site.channels for site in scaling.sites}, progress)
        scaling.smooth(settings.smooth, seen.largest)
    return scaling.scaled()
