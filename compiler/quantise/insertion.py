"""Inserts QuantizeLinear and DequantizeLinear around the nodes that are to compute with bytes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import numpy as np

from compiler.graph import Array, Graph, Node
from compiler.operators.expansion.builder import Builder

from .places import Places
from .ranges.calibration import ByteScale
from .weights import ByteWeights


class Insertion:
    """Builds the graph in which chosen candidates read bytes; ``scales``: by value that becomes bytes."""

    def __init__(
        self,
        places: Places,
        chosen: Collection[str],
        scales: Mapping[str, ByteScale],
        weights: Callable[[Node], ByteWeights],
    ) -> None:
        self.places, self.chosen, self.scales, self._weights = places, chosen, scales, weights
        self.tensors = dict(places.graph.tensors)
        self.constants = dict(places.graph.constants)
        self._nodes: list[Node] = []
        self._restored: dict[str, str] = {}
        self._shifts: dict[str, Array] = {}
        self._bytes = places.are_bytes(scales, chosen)

    def graph(self, precise: Collection[str]) -> Graph:
        """Return the graph; ``precise`` nodes are computed in FP32."""
        source = self.places.graph
        for tensor in source.inputs:
            self._quantise(tensor.name, tensor.name)
        for node in source.nodes:
            self._add(node)
            for name in node.outputs:
                self._quantise(name, node.name)
        used = {name for node in self._nodes for name in (*node.inputs, *node.outputs)}
        used |= {tensor.name for tensor in (*source.inputs, *source.outputs)}
        return replace(
            source,
            nodes=tuple(self._nodes),
            tensors={name: tensor for name, tensor in self.tensors.items() if name in used},
            constants={name: array for name, array in self.constants.items() if name in used},
            precise=source.precise | frozenset(precise),
        )

    def _builder(self, name: str) -> Builder:
        prefix = f"{name}.int8"
        while any(known.startswith(f"{prefix}.") for known in self.tensors):
            prefix += "+"
        return Builder(prefix, self.places.graph.opset, self.tensors, self.constants)

    def _quantise(self, name: str, maker: str) -> None:
        """Add the bytes of a value, and the floats dequantised from them."""
        if name not in self.scales:
            return
        how, build = self.scales[name], self._builder(maker)
        operands = (
            build.constant(np.array(how.scale), "float32"),
            build.constant(np.array(how.zero), "int8"),
        )
        made = build("QuantizeLinear", name, *operands)
        self._restored[name] = build("DequantizeLinear", made, *operands)
        self._nodes += build.nodes

    def _add(self, node: Node) -> None:
        """Add a node of the source, which reads bytes where it should."""
        chosen = node.name in self.chosen
        operands = self.places.operands(node) if chosen else ()
        moves = self.places.moved(node) if node.outputs[0] in self.scales else ()
        inputs = [
            self._restored[name] if name in self._bytes or name in operands or name in moves else name
            for name in node.inputs
        ]
        if not chosen or self.places.weights(node) is None:
            if node.name in self._shifts:
                inputs = self._shifted(node)
            self._nodes.append(replace(node, inputs=tuple(inputs)))
            return
        self._product(replace(node, inputs=tuple(inputs)), self._weights(node))

    def _product(self, node: Node, known: ByteWeights) -> None:
        """Add a product with weights of bytes, and the correction of their mean error."""
        build = self._builder(node.name)
        scale = build.constant(known.scale, "float32")
        weights = build("DequantizeLinear", build.constant(known.values, "int8"), scale, axis=known.axis)
        operands, result = [node.inputs[0], weights, *node.inputs[2:]], node.outputs[0]
        vector = self.places.vector(node)
        if known.missing is not None and vector is not None:
            self._shifts[vector.name] = known.missing
        elif known.missing is not None and node.op == "MatMul":
            result = f"{build.prefix}.product"
            self.tensors[result] = replace(self.tensors[node.outputs[0]], name=result)
        elif known.missing is not None:
            operands[2:] = [self._corrected(build, (*operands, "")[2], known.missing)]
        self._nodes += [*build.nodes, replace(node, inputs=tuple(operands), outputs=(result,))]
        if result != node.outputs[0] and known.missing is not None:
            bias = build.constant(known.missing, "float32")
            self._nodes.append(Node("Add", f"{build.prefix}.corrected", (result, bias), node.outputs, {}))

    def _shifted(self, node: Node) -> list[str]:
        """Return the operands of a node that adds a vector to a product, with the product's correction."""
        build, missing = self._builder(node.name), self._shifts[node.name]
        known = self.places.graph.constants
        return [self._corrected(build, name, missing) if name in known else name for name in node.inputs]

    def _corrected(self, build: Builder, name: str, missing: Array) -> str:
        """Return a constant bias plus ``missing``; an empty name is no bias."""
        given = self.constants[name].astype(np.float64) if name else 0.0
        return build.constant(np.asarray(given + missing), "float32")
