"""A node of control flow while it is read: its subgraphs, and the nodes that replace it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from onnx import GraphProto, NodeProto

from compiler.evaluation.infer import infer_node
from compiler.graph import Graph, GraphError, Node

from .model import array_of, attribute, onnx_node, plain
from .partial import NotWrittenOut, PartialGraph, Scope, Unsupported, carries_found


class Importer(Protocol):
    """Adds the nodes of bodies to the graph (:class:`nodes.NodeImporter`)."""

    graph: PartialGraph
    bounds: Mapping[str, int]
    limited: set[str]

    def inside(self, graph: PartialGraph) -> Importer: ...
    def add(self, proto: NodeProto, name: str, opset: int, scope: Scope, depth: int = 0) -> None: ...
    def place(self, node: NodeProto, opset: int, scope: Scope, depth: int) -> None: ...
    def place_plain(self, node: NodeProto, depth: int) -> None: ...


class ControlFlow:
    """A node with subgraphs, and the number of times that one of them was written out."""

    def __init__(self, importer: Importer, node: NodeProto, opset: int, scope: Scope, depth: int) -> None:
        self.importer, self.node, self.opset, self.scope, self.depth = importer, node, opset, scope, depth
        self.graph = importer.graph
        self.times = 0

    def inside(self) -> ControlFlow:
        """Return the same node for a subgraph that becomes a graph of its own."""
        importer = self.importer.inside(self.graph.inside())
        return ControlFlow(importer, self.node, self.opset, self.scope, self.depth)

    def body(self, name: str) -> GraphProto:
        """Return the subgraph that an attribute holds."""
        item = attribute(self.node, name)
        if item is None:
            raise Unsupported(f"has no {name}")
        return item.g

    def results(self, body: GraphProto, operands: Sequence[str], title: str = "") -> list[str]:
        """Write a subgraph out on operands; return the names of its results.

        ``title`` is part of the names of its nodes; without one, the number of earlier copies is.
        """
        if len(body.input) != len(operands):
            raise Unsupported(f"its body takes {len(body.input)} values, {len(operands)} are given")
        prefix = f"{self.node.name}/{title or self.times}/"
        self.times += 1
        inner = Scope(dict(self.scope.names), prefix)
        inner.names |= {item.name: name for item, name in zip(body.input, operands, strict=True)}
        for item in body.initializer:
            inner.names[item.name] = prefix + item.name
            value = array_of(item, self.graph.path, f"initializer '{item.name}'")
            self.graph.define(prefix + item.name, value)
        for index, part in enumerate(body.node):
            name = prefix + (part.name or f"{part.op_type}_{index}")
            self.importer.add(part, name, self.opset, inner, self.depth + 1)
        found = [inner.inner(item.name) for item in body.output]
        for name in found:
            if title and name in self.graph.bounded:
                raise carries_found(name, "its result")
        return found

    def place(self, op: str, inputs: Sequence[str], title: str = "", **attrs: int | Sequence[int]) -> str:
        """Add a node, with a name that ends with ``title`` if there is one; return the name of its result."""
        name = self.graph.fresh()
        node = onnx_node(op, inputs, [name], f"{self.node.name}/{title or name}", **attrs)
        self.importer.place(node, self.opset, Scope(), self.depth)
        return name

    def number(self, value: int | Sequence[int]) -> str:
        """Return the name of a constant of int64."""
        return self.graph.constant(np.array(value, np.int64))

    def scalar(self, name: str) -> str:
        """Return a value of one element as a scalar."""
        return self.place("Reshape", [name, self.number(())]) if self.graph.tensor(name).shape else name

    def add(
        self, op: str, operands: Sequence[str], results: Sequence[str], bodies: Sequence[Graph], **attrs: int
    ) -> None:
        """Add the node with graphs that the program executes."""
        node = Node(op, self.node.name, tuple(operands), tuple(results), attrs, tuple(bodies))
        try:
            finished = infer_node(self.graph.description, node, self.graph.tensors)
        except GraphError as error:
            raise Unsupported(error.messages[0]) from None
        for name in (*operands, *results):
            if name and not self.graph.tensor(name).size:
                raise Unsupported(f"'{name}' has no elements, which the program cannot choose by data")
        self.graph.nodes.append(finished)

    def finish(self, values: Sequence[str]) -> None:
        """Make values the node's results."""
        if len(values) < len(self.node.output):
            raise Unsupported(f"its body gives {len(values)} of {len(self.node.output)} results")
        for name, value in zip(self.node.output, values, strict=False):
            if name:
                self.graph.alias(name, value, self.node.name)

    def known(self, name: str, what: str) -> Any:
        """Return the number in a value.

        NotWrittenOut if the value is unknown, Unsupported if it is not one number.
        """
        value = self.graph.value(name)
        self.check_one(name, what)
        if value is None:
            raise NotWrittenOut(f"its {what} is not known when compiling")
        return value.reshape(-1)[0]

    def check_one(self, name: str, what: str) -> None:
        """Raise Unsupported for a value that does not have exactly one element."""
        count = math.prod(self.graph.tensor(name).shape)
        if count != 1:
            raise Unsupported(f"its {what} must be one value; found {count}")

    def each(self, name: str, count: int) -> tuple[int, ...]:
        """Return an attribute with an entry for each scanned operand or result; zeros if it was omitted."""
        values = plain(self.node, name, (0,) * count)
        if not isinstance(values, tuple) or len(values) != count:
            raise Unsupported(f"{name} has other than {count} entries")
        return tuple(int(value) for value in values)


def check_results(body: GraphProto, least: int) -> None:
    """Raise Unsupported for a body with too few results."""
    if len(body.output) < least:
        raise Unsupported(f"its body gives {len(body.output)} values; at least {least} are needed")
