"""Control flow that is known when a model is read: If as one of its branches, Loop and Scan step by step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from onnx import GraphProto, NodeProto

from compiler.evaluation.infer import infer_node
from compiler.graph import Graph, GraphError, Node

from .bodies import Body
from .model import array_of, attribute, onnx_node, plain
from .partial import PartialGraph, Scope, Unsupported

_BIND = "if it follows from an input, bind that: --constant NAME=VALUE (in Python: constants=)"

_MOST_STEPS = 1000
"""Steps that are written out at most: the body is repeated for each."""


class Importer(Protocol):
    """Adds the nodes of bodies to the graph (:class:`nodes.NodeImporter`)."""

    graph: PartialGraph

    def inside(self, graph: PartialGraph) -> Importer: ...
    def add(self, proto: NodeProto, name: str, opset: int, scope: Scope, depth: int = 0) -> None: ...
    def place(self, node: NodeProto, opset: int, scope: Scope, depth: int) -> None: ...


def write_out(importer: Importer, node: NodeProto, opset: int, scope: Scope, depth: int) -> bool:
    """Add the results of a node of control flow to the graph; False for any other node.

    ``scope`` has the names that the node's subgraphs read of the graph around them.
    """
    if node.op_type not in CONTROL_FLOW:
        return False
    CONTROL_FLOW[node.op_type](_ControlFlow(importer, node, opset, scope, depth))
    return True


class _ControlFlow:
    """A node with subgraphs, and how often one of them was written out."""

    def __init__(self, importer: Importer, node: NodeProto, opset: int, scope: Scope, depth: int) -> None:
        self.importer, self.node, self.opset, self.scope, self.depth = importer, node, opset, scope, depth
        self.graph = importer.graph
        self.times = 0

    def inside(self) -> _ControlFlow:
        """The same node for a subgraph that becomes a graph of its own."""
        return _ControlFlow(
            self.importer.inside(self.graph.inside()), self.node, self.opset, self.scope, self.depth
        )

    def body(self, name: str) -> GraphProto:
        """The subgraph that an attribute holds."""
        item = attribute(self.node, name)
        if item is None:
            raise Unsupported(f"has no {name}")
        return item.g

    def results(self, body: GraphProto, operands: Sequence[str], title: str = "") -> list[str]:
        """Write a subgraph out on operands; the names of its results. ``title`` is in the names of its nodes."""
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
        return [inner.inner(item.name) for item in body.output]

    def place(self, op: str, inputs: Sequence[str], **attrs: int) -> str:
        """Add a node; the name of its result."""
        name = self.graph.fresh()
        node = onnx_node(op, inputs, [name], f"{self.node.name}/{name}", **attrs)
        self.importer.place(node, self.opset, Scope(), self.depth)
        return name

    def collected(self, slices: Sequence[str], axis: int) -> str:
        """Slices of the same shape along a new axis."""
        if not slices:
            raise Unsupported("no step is taken, so the shape of a result is not known")
        at = self.graph.constant(np.array([axis], np.int64))
        return self.place("Concat", [self.place("Unsqueeze", [name, at]) for name in slices], axis=axis)

    def add(self, operands: Sequence[str], results: Sequence[str], bodies: Sequence[Graph]) -> None:
        """Add the node with graphs that the program executes."""
        names = tuple(name or self.graph.fresh() for name in results)
        node = Node(self.node.op_type, self.node.name, tuple(operands), names, {}, tuple(bodies))
        try:
            finished = infer_node(self.graph.description, node, self.graph.tensors)
        except GraphError as error:
            raise Unsupported(error.messages[0]) from None
        for name in (*operands, *names):
            if not self.graph.tensor(name).size:
                raise Unsupported(f"'{name}' has no elements, which the program cannot choose by data")
        self.graph.nodes.append(finished)

    def finish(self, values: Sequence[str]) -> None:
        """Make values the node's results."""
        if len(values) < len(self.node.output):
            raise Unsupported(f"its body gives {len(values)} of {len(self.node.output)} results")
        for name, value in zip(self.node.output, values, strict=False):
            if name:
                self.graph.alias(name, value, self.node.name)


def _if(flow: _ControlFlow) -> None:
    condition = flow.graph.value(flow.node.input[0])
    if condition is None:
        _branch(flow)
        return
    _check_one(condition.shape, "condition")
    flow.finish(flow.results(flow.body("then_branch" if bool(condition) else "else_branch"), []))


def _branch(flow: _ControlFlow) -> None:
    """An If whose condition the program computes."""
    names = ("then_branch", "else_branch")
    _check_one(flow.graph.tensor(flow.node.input[0]).shape, "condition")
    bodies = []
    for name in names:
        inner = flow.inside()
        results = inner.results(flow.body(name), [], name)
        bodies.append(Body(flow.graph, inner.graph, f"{flow.node.name}/{name}", [], results))
    captured = list(dict.fromkeys(name for body in bodies for name in body.captured))
    operands = [flow.graph.tensor(name) for name in captured]
    graphs = tuple(body.graph(operands) for body in bodies)
    flow.add([flow.node.input[0], *captured], flow.node.output, graphs)


def _known(flow: _ControlFlow, name: str, what: str) -> Any:
    """The number that a value has; Unsupported when it is not known, or not one number."""
    value = flow.graph.value(name)
    if value is None:
        raise Unsupported(f"its {what} is not known when compiling; {_BIND}")
    _check_one(value.shape, what)
    return value.reshape(-1)[0]


def _check_one(shape: tuple[int, ...], what: str) -> None:
    if math.prod(shape) != 1:
        raise Unsupported(f"its {what} must be one value; found {math.prod(shape)}")


def _loop(flow: _ControlFlow) -> None:
    body, graph = flow.body("body"), flow.graph
    limit, condition, *carried = flow.node.input
    most = int(_known(flow, limit, "number of steps")) if limit else _MOST_STEPS + 1
    state = condition or graph.constant(np.array(True))
    _check_results(body, 1 + len(carried))
    collected: list[list[str]] = [[] for _ in range(len(body.output) - 1 - len(carried))]
    for step in range(most):
        if not bool(_known(flow, state, "condition")):
            break
        _check_steps(step + 1)
        state, *values = flow.results(body, [graph.constant(np.array(step)), state, *carried])
        carried = values[: len(carried)]
        for parts, value in zip(collected, values[len(carried) :], strict=True):
            parts.append(value)
    flow.finish([*carried, *(flow.collected(parts, 0) for parts in collected)])


def _scan(flow: _ControlFlow) -> None:
    if flow.opset < 9:
        raise Unsupported(f"as opset {flow.opset} has it, with a batch")
    body, node = flow.body("body"), flow.node
    scanned = plain(node, "num_scan_inputs", 0)
    assert isinstance(scanned, int)
    if not 0 < scanned <= len(node.input):
        raise Unsupported(f"num_scan_inputs must be 1 to {len(node.input)}, its inputs; found {scanned}")
    states = len(node.input) - scanned
    carried, sources = list(node.input[:states]), list(node.input[states:])
    _check_results(body, states)
    outputs = len(body.output) - states
    axes = _each(flow, "scan_input_axes", scanned)
    backward, results_backward = (
        _each(flow, name, count)
        for name, count in (("scan_input_directions", scanned), ("scan_output_directions", outputs))
    )
    count = _scan_steps(flow, sources, axes)
    _check_steps(count)
    collected: list[list[str]] = [[] for _ in range(outputs)]
    for step in range(count):
        at = [flow.graph.constant(np.array(count - 1 - step if back else step)) for back in backward]
        given = zip(sources, at, axes, strict=True)
        slices = [flow.place("Gather", [name, place], axis=axis) for name, place, axis in given]
        values = flow.results(body, [*carried, *slices])
        carried = values[: len(carried)]
        for parts, value in zip(collected, values[len(carried) :], strict=True):
            parts.append(value)
    ends = zip(collected, results_backward, _each(flow, "scan_output_axes", outputs), strict=True)
    whole = [flow.collected(parts[::-1] if back else parts, axis) for parts, back, axis in ends]
    flow.finish([*carried, *whole])


def _scan_steps(flow: _ControlFlow, sources: Sequence[str], axes: Sequence[int]) -> int:
    """The common length of the scanned operands."""
    steps = set()
    for name, axis in zip(sources, axes, strict=True):
        shape = flow.graph.tensor(name).shape
        if not -len(shape) <= axis < len(shape):
            raise Unsupported(f"scan_input_axes: {axis} is not an axis of '{name}' {list(shape)}")
        steps.add(shape[axis])
    if len(steps) != 1:
        raise Unsupported(f"its operands have {sorted(steps)} steps")
    return steps.pop()


def _check_results(body: GraphProto, least: int) -> None:
    if len(body.output) < least:
        raise Unsupported(f"its body gives {len(body.output)} values; at least {least} are needed")


def _each(flow: _ControlFlow, name: str, count: int) -> tuple[int, ...]:
    """An attribute with an entry for each scanned operand or result; zeros if it was omitted."""
    values = plain(flow.node, name, (0,) * count)
    if not isinstance(values, tuple) or len(values) != count:
        raise Unsupported(f"{name} has other than {count} entries")
    return tuple(int(value) for value in values)


def _check_steps(count: int) -> None:
    if count > _MOST_STEPS:
        raise Unsupported(f"{count} or more steps; at most {_MOST_STEPS} are written out")


CONTROL_FLOW = {"If": _if, "Loop": _loop, "Scan": _scan}
