"""Imports control flow: known conditions and counts are written out, the program decides the rest.

An If with a known condition becomes one of its branches. A Loop or a Scan with a known count that is not
large becomes its body, repeated. Otherwise they become nodes with graphs (``repeat.py`` has the loops).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from onnx import NodeProto

from compiler.graph import Tensor

from .bodies import Body
from .flow import ControlFlow, Importer, check_results
from .model import plain
from .partial import NotWrittenOut, Scope, Unsupported, carries_found
from .repeat import Scanned, goes_on, repeat_loop, repeat_scan

_MOST_STEPS = 1000
"""The most steps that are written out: the body is repeated for each."""
_MOST_NODES = 10_000
"""The most nodes that the steps of a loop may become."""


def write_out(importer: Importer, node: NodeProto, opset: int, scope: Scope, depth: int) -> bool:
    """Add the results of a node of control flow to the graph; False for any other node.

    ``scope`` has the names that the node's subgraphs read of the graph around them.
    """
    if node.op_type not in CONTROL_FLOW:
        return False
    CONTROL_FLOW[node.op_type](ControlFlow(importer, node, opset, scope, depth))
    return True


def _if(flow: ControlFlow) -> None:
    try:
        condition = flow.known(flow.node.input[0], "condition")
    except NotWrittenOut:
        _branch(flow)
        return
    flow.finish(flow.results(flow.body("then_branch" if bool(condition) else "else_branch"), []))


def _branch(flow: ControlFlow) -> None:
    """Add an If whose condition the program computes."""
    bodies = []
    for name in ("then_branch", "else_branch"):
        inner = flow.inside()
        results = inner.results(flow.body(name), [], name)
        bodies.append(Body(flow.graph, inner.graph, f"{flow.node.name}/{name}", [], results))
    for body, title in zip(bodies, ("then_branch", "else_branch"), strict=True):
        if len(body.results) != len(flow.node.output):
            raise Unsupported(f"its {title} gives {len(body.results)} of {len(flow.node.output)} results")
    results = _without_empty(flow, bodies)
    captured = list(dict.fromkeys(name for body in bodies for name in body.captured))
    if results:
        flow.add("If", [flow.node.input[0], *captured], results, [body.graph(captured) for body in bodies])


def _without_empty(flow: ControlFlow, bodies: Sequence[Body]) -> list[str]:
    """Return the results of an If that have elements; the others, equal in both branches, become known."""
    results = []
    for at, name in enumerate(flow.node.output):
        first, other = (body.inner.tensor(body.results[at]) for body in bodies)
        if first.size or (first.dtype, first.shape) != (other.dtype, other.shape):
            results.append((at, name or flow.graph.fresh()))
        elif name:
            flow.graph.define(name, first.zeros)
    for body in bodies:
        body.results = [body.results[at] for at, _ in results]
    return [name for _, name in results]


def _loop(flow: ControlFlow) -> None:
    flow.importer.limited.add(flow.node.name)
    before = flow.graph.saved()
    try:
        _write_out_loop(flow)
    except NotWrittenOut:
        flow.graph.restore(before)
        repeat_loop(flow)


def _write_out_loop(flow: ControlFlow) -> None:
    body, graph = flow.body("body"), flow.graph
    limit, condition, *carried = flow.node.input
    most = int(flow.known(limit, "number of steps")) if limit else _MOST_STEPS + 1
    state = condition or graph.constant(np.array(True))
    check_results(body, 1 + len(carried))
    if most > 0 and goes_on(body) and bool(flow.known(state, "condition")):
        _check_steps(most)
    collected: list[list[str]] = [[] for _ in range(len(body.output) - 1 - len(carried))]
    first = len(graph.nodes)
    for step in range(most):
        if not bool(flow.known(state, "condition")):
            break
        _check_steps(step + 1)
        state, *values = flow.results(body, [graph.constant(np.array(step)), state, *carried])
        carried = values[: len(carried)]
        for parts, value in zip(collected, values[len(carried) :], strict=True):
            parts.append(value)
        _check_nodes(len(graph.nodes) - first)
    if not flow.times and collected:
        operands = [graph.constant(np.array(0)), state, *carried]
        flow.finish([*carried, *_nothing_collected(flow, map(graph.tensor, operands), [0] * len(collected))])
        return
    flow.finish([*carried, *(_collected(flow, parts, 0) for parts in collected)])


def _nothing_collected(flow: ControlFlow, operands: Iterable[Tensor], axes: Sequence[int]) -> list[str]:
    """Return the collected results of a loop without steps: no slices, with the shapes of a step's."""
    step = flow.inside()
    names = []
    for operand in operands:
        names.append(step.graph.fresh())
        step.graph.tensors[names[-1]] = replace(operand, name=names[-1])
    slices = step.results(flow.body("body"), names, "body")[-len(axes) :]
    return [_no_slices(flow, step.graph.tensor(name), axis) for name, axis in zip(slices, axes, strict=True)]


def _no_slices(flow: ControlFlow, part: Tensor, axis: int) -> str:
    shape = list(part.shape)
    if not -part.rank <= axis + (axis < 0) <= part.rank:
        raise Unsupported(f"axis {axis} is not an axis of a result, whose slices have shape {shape}")
    shape.insert(axis + part.rank + 1 if axis < 0 else axis, 0)
    return flow.graph.constant(replace(part, shape=tuple(shape)).zeros)


def _collected(flow: ControlFlow, slices: Sequence[str], axis: int) -> str:
    """Join slices of the same shape along a new axis."""
    at = flow.number([axis])
    return flow.place("Concat", [flow.place("Unsqueeze", [name, at]) for name in slices], axis=axis)


def _scan(flow: ControlFlow) -> None:
    if flow.opset < 9:
        raise Unsupported(f"as opset {flow.opset} has it, with a batch")
    scan = _scanned(flow)
    before = flow.graph.saved()
    try:
        _write_out_scan(flow, scan)
    except NotWrittenOut:
        flow.graph.restore(before)
        repeat_scan(flow, scan)


def _scanned(flow: ControlFlow) -> Scanned:
    """Read the scanned operands and the collected results of a Scan."""
    body, node = flow.body("body"), flow.node
    scanned = plain(node, "num_scan_inputs", 0)
    assert isinstance(scanned, int)
    if not 0 < scanned <= len(node.input):
        raise Unsupported(f"num_scan_inputs must be 1 to {len(node.input)}, its inputs; found {scanned}")
    states = len(node.input) - scanned
    check_results(body, states)
    outputs = len(body.output) - states
    carried, sources = tuple(node.input[:states]), tuple(node.input[states:])
    axes = flow.each("scan_input_axes", scanned)
    for name in sources:
        if name in flow.graph.bounded:
            raise carries_found(name, "its operand")
    backward = flow.each("scan_input_directions", scanned)
    results_backward = flow.each("scan_output_directions", outputs)
    count = _scan_steps(flow, sources, axes)
    result_axes = flow.each("scan_output_axes", outputs)
    return Scanned(carried, sources, axes, backward, result_axes, results_backward, count)


def _write_out_scan(flow: ControlFlow, scan: Scanned) -> None:
    body, carried = flow.body("body"), list(scan.carried)
    if not scan.count and scan.result_axes:
        operands = [*map(flow.graph.tensor, carried), *scan.slices(flow.graph)]
        flow.finish([*carried, *_nothing_collected(flow, operands, scan.result_axes)])
        return
    _check_steps(scan.count)
    collected: list[list[str]] = [[] for _ in scan.result_axes]
    first = len(flow.graph.nodes)
    for step in range(scan.count):
        at = [
            flow.graph.constant(np.array(scan.count - 1 - step if back else step)) for back in scan.backward
        ]
        given = zip(scan.sources, at, scan.axes, strict=True)
        slices = [flow.place("Gather", [name, place], axis=axis) for name, place, axis in given]
        values = flow.results(body, [*carried, *slices])
        carried = values[: len(carried)]
        for parts, value in zip(collected, values[len(carried) :], strict=True):
            parts.append(value)
        _check_nodes(len(flow.graph.nodes) - first)
    ends = zip(collected, scan.results_backward, scan.result_axes, strict=True)
    whole = [_collected(flow, parts[::-1] if back else parts, axis) for parts, back, axis in ends]
    flow.finish([*carried, *whole])


def _scan_steps(flow: ControlFlow, sources: Sequence[str], axes: Sequence[int]) -> int:
    """Return the common length of the scanned operands."""
    steps = set()
    for name, axis in zip(sources, axes, strict=True):
        shape = flow.graph.tensor(name).shape
        if not -len(shape) <= axis < len(shape):
            raise Unsupported(f"scan_input_axes: {axis} is not an axis of '{name}' {list(shape)}")
        steps.add(shape[axis])
    if len(steps) != 1:
        raise Unsupported(f"its operands have {sorted(steps)} steps")
    return steps.pop()


def _check_steps(count: int) -> None:
    if count > _MOST_STEPS:
        raise NotWrittenOut(f"{count} or more steps; at most {_MOST_STEPS} are written out")


def _check_nodes(count: int) -> None:
    if count > _MOST_NODES:
        raise NotWrittenOut(f"more than {_MOST_NODES} nodes, which are not written out")


CONTROL_FLOW = {"If": _if, "Loop": _loop, "Scan": _scan}
