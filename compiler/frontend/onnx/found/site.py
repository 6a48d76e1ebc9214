"""Helpers of readers of found values: nodes with internal operators, masks of valid parts, bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import reduce

import numpy as np
from onnx import NodeProto

from compiler.evaluation.infer import infer_node
from compiler.frontend.onnx.flow import ControlFlow
from compiler.frontend.onnx.model import onnx_node
from compiler.frontend.onnx.partial import Unsupported
from compiler.graph import DTYPES, AttrValue, GraphError, Node
from compiler.operators.reductions.found import COUNTED
from tx8isa.numbers.division import ceil_div

Counts = Mapping[int, str]
"""The values with the valid extents of axes, by axis."""


class FoundSite:
    """A node that makes or reads found values, while it is read."""

    def __init__(self, flow: ControlFlow) -> None:
        self.flow, self.node, self.graph = flow, flow.node, flow.graph
        self.importer = flow.importer

    def operand(self, at: int) -> str:
        """Return the name of an operand; empty if it is omitted."""
        return self.node.input[at] if at < len(self.node.input) else ""

    def place(self, op: str, *inputs: str, **attrs: int | Sequence[int]) -> str:
        """Add a node that takes its operands whole, padding included; return the name of its result."""
        name = self.graph.fresh()
        self.place_plain(onnx_node(op, inputs, [name], f"{self.node.name}/{name}", **attrs))
        return name

    def place_plain(self, node: NodeProto) -> None:
        """Add a node that takes its operands whole, and keep its names."""
        self.importer.place_plain(node, self.flow.depth)

    def ints(self, *values: int) -> str:
        return self.flow.number(values)

    def scalar(self, name: str) -> str:
        """Return a value of one element as a scalar of int64."""
        self.flow.check_one(name, f"operand '{name}'")
        if self.graph.tensor(name).dtype != "int64":
            name = self.place("Cast", name, to=7)
        return self.flow.scalar(name)

    def internal(self, op: str, *inputs: str, **attrs: AttrValue) -> str:
        """Add a node with an operator that no model has; return the name of its result."""
        name = self.graph.fresh()
        node = Node(op, f"{self.node.name}/{name}", inputs, (name,), attrs)
        try:
            self.graph.nodes.append(infer_node(self.graph.description, node, self.graph.tensors))
        except GraphError as error:
            raise Unsupported(error.messages[0]) from None
        return name

    def counts(self, name: str) -> Counts:
        """Return the valid extents of a value; none for an axis of known size."""
        return self.graph.bounded.get(name, {})

    def finish(self, results: Sequence[str], counts: Sequence[Counts], places: bool = False) -> None:
        """Make values the node's results; ``places`` are valid as indices."""
        for name, each in zip(results, counts, strict=True):
            self.graph.mark(name, each)
            if places:
                self.graph.places.add(name)
        self.flow.finish(results)

    # --- valid parts ------------------------------------------------------------------------------------

    def valid(self, name: str, only: Sequence[int] | None = None) -> str | None:
        """Return truth values that broadcast to a value: True where it is valid; None if everywhere."""
        shape, masks = self.graph.tensor(name).shape, []
        for axis, count in self.counts(name).items():
            if only is None or axis in only:
                places = np.arange(shape[axis]).reshape(-1, *(1,) * (len(shape) - axis - 1))
                masks.append(self.place("Less", self.graph.constant(places), count))
        return reduce(lambda one, other: self.place("And", one, other), masks) if masks else None

    def filled(self, name: str, value: float, only: Sequence[int] | None = None) -> str:
        """Replace the padding of a value by a number; infinities become the ends of the range."""
        mask = self.valid(name, only)
        if mask is None:
            return name
        dtype = DTYPES[self.graph.tensor(name).dtype]
        if dtype.kind in "iu" and math.isinf(value):
            value = np.iinfo(dtype).max if value > 0 else np.iinfo(dtype).min
        return self.place("Where", mask, name, self.graph.constant(np.array(value, dtype)))

    def true_elements(self, name: str) -> tuple[str, str, str]:
        """Call ``true_places`` on the elements of a value that are not zero; once for equal operands."""
        key = name, self.importer.bounds.get(self.node.name)
        if key not in self.graph.found:
            self.graph.found[key] = self.true_places(self.truths(name))
        self.importer.limited.add(self.node.name)
        return self.graph.found[key]

    def truths(self, name: str) -> str:
        """Return the elements of a value that are valid and not zero, as a vector of truth values."""
        mask = self.valid(name)
        if self.graph.tensor(name).dtype != "bool":
            name = self.place("Cast", name, to=9)
        if mask is not None:
            name = self.place("And", name, mask)
        return self.place("Reshape", name, self.ints(-1))

    def true_places(self, truths: str) -> tuple[str, str, str]:
        """Return the places of the true elements in a vector, their number, and partial counts.

        There is room for all of them, or as many as ``--bound`` says; the program stops if there are more.
        """
        size = self.graph.tensor(truths).size
        counts = self.internal("TrueCounts", truths)
        last = self.graph.constant(np.array(ceil_div(size, COUNTED)))
        room, count = self.bound(size, self.place("Gather", counts, last, axis=0))
        places = self.internal("TruePlaces", truths, counts, count, room=room)
        self.graph.places.add(places)
        return places, count, counts

    def bound(self, most: int, count: str) -> tuple[int, str]:
        """Return the room for results, at most ``most``, and their number, which the program checks."""
        name = self.node.name
        self.importer.limited.add(name)
        given = self.importer.bounds.get(name)
        if given is None or given >= most:
            return most, count
        what = f" found by node '{name}'; --bound {name}={given} allows at most "
        return given, self.internal("Bounded", count, most=given, what=what)

    def refuse(self, name: str, axis: int, reason: str) -> Unsupported:
        """Return the error of a node that cannot take an operand of data-dependent size."""
        most = self.graph.tensor(name).shape[axis]
        return Unsupported(
            f"axis {axis} of operand '{name}' has a size that data decides, at most {most}, and {reason}; "
            f"make '{name}' an output, or give it a known size (TopK with a known k, or Slice and Pad)"
        )


def renamed(node: NodeProto, inputs: Mapping[int, str]) -> NodeProto:
    """Copy a node with some operands replaced."""
    copy = NodeProto()
    copy.CopyFrom(node)
    for at, name in inputs.items():
        copy.input[at] = name
    return copy
