"""Loops of the program: a Loop whose count or condition the program computes, and loops of many steps.

The graph of such a loop is what happens in a step: it makes of a condition, the number of the step, the
carried values and the results so far those of the next step, and whether there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from onnx import GraphProto

from compiler.graph import DTYPES, Tensor

from .bodies import Body
from .flow import ControlFlow, check_results
from .partial import Unsupported


@dataclass(frozen=True)
class Scanned:
    """A Scan: names of carried values and scanned operands, axes and directions, and its steps.

    The axes are those of the operands and of the results; a direction is 1 for backwards.
    """

    carried: tuple[str, ...]
    sources: tuple[str, ...]
    axes: tuple[int, ...]
    backward: tuple[int, ...]
    result_axes: tuple[int, ...]
    results_backward: tuple[int, ...]
    count: int


def goes_on(body: GraphProto) -> bool:
    """Whether the body of a Loop never ends it: its condition is what it was, or true."""
    name = body.output[0].name if body.output else ""
    makers = {output: node for node in body.node for output in node.output}
    while name in makers and makers[name].op_type == "Identity":
        name = makers[name].input[0]
    return len(body.input) > 1 and name == body.input[1].name


class _Step:
    """The graph of a step as it grows; ``flow`` adds to it, ``outer`` to the graph around it."""

    def __init__(self, outer: ControlFlow, carried: Sequence[str]) -> None:
        self.outer, self.flow = outer, outer.inside()
        self.name = outer.node.name
        self.inputs: list[Tensor] = []
        self.first: list[str] = []
        """What the inputs are in the first step, by their names in the graph around it."""
        self.keep = f"{self.name}/keep"
        self.flow.graph.tensors[self.keep] = Tensor(self.keep, "bool", ())
        self.step = self.declare("step", outer.number(0))
        self.following = self.flow.place("Add", [self.step, self.flow.number(1)])
        self.carried = [self.declare(f"carried {at}", name) for at, name in enumerate(carried)]

    def declare(self, title: str, first: str) -> str:
        """A new input that has a value in the first step; its name."""
        known, name = self.outer.graph.tensor(first), f"{self.name}/{title}"
        self.inputs.append(Tensor(name, known.dtype, known.shape))
        self.first.append(first)
        self.flow.graph.tensors[name] = self.inputs[-1]
        return name

    def collect(self, number: int, value: str, rows: int, at: str) -> tuple[str, str]:
        """Room for ``rows`` of a value, and the same with the value as row ``at``; their names."""
        tensor = self.flow.graph.tensor(value)
        zeros = self.outer.graph.constant(np.zeros((rows, *tensor.shape), DTYPES[tensor.dtype]))
        room = self.declare(f"collected {number}", zeros)
        place, front = self.flow.number((1, 1)), self.flow.number([0])
        row = self.flow.place("Unsqueeze", [value, front])
        return room, self.flow.place("ScatterND", [room, self.flow.place("Reshape", [at, place]), row])

    def finish(self, keep: tuple[str, str], values: Sequence[str]) -> list[str]:
        """Add the loop; the names of the number of steps and of the values after the last one.

        ``keep``: whether there is a first step, and whether there is one more. ``values``: the carried and
        collected ones after a step.
        """
        flow = self.flow
        results = [keep[1], self.following, *values]
        inputs = [flow.graph.tensor(self.keep), *self.inputs]
        body = Body(self.outer.graph, flow.graph, f"{self.name}/body", inputs, results)
        names = [self.outer.graph.fresh() for _ in results]
        operands = [keep[0], *self.first, *body.captured]
        graph = body.graph(body.captured)
        states = zip((t.name for t in graph.inputs), (t.name for t in graph.outputs), strict=False)
        self.outer.add("Loop", operands, names, [replace(graph, states=tuple(states))])
        return names[1:]


def repeat_loop(flow: ControlFlow) -> None:
    """A Loop whose count or condition the program computes, or of many steps."""
    body, (limit, condition, *carried) = flow.body("body"), flow.node.input
    check_results(body, 1 + len(carried))
    if not limit and goes_on(body) and (not condition or flow.graph.value(condition) is not None):
        raise Unsupported("nothing ends it: it has no number of steps, and its condition stays true")
    step = _Step(flow, carried)
    state, *values = step.flow.results(body, [step.step, step.keep, *step.carried], "body")
    step.flow.check_one(state, "condition")
    most = None
    if limit:
        flow.check_one(limit, "number of steps")
        most = flow.graph.value(limit)
    collected = values[len(carried) :]
    rows = _rows(flow, None if most is None else int(most.reshape(-1)[0])) if collected else 0
    made = [step.collect(at, value, rows, step.step)[1] for at, value in enumerate(collected)]
    first = flow.scalar(condition) if condition else flow.graph.constant(np.array(True))
    again = step.flow.scalar(state)
    if limit:
        first = flow.place("And", [first, flow.place("Less", [flow.number(0), flow.scalar(limit)])])
        more = step.flow.place("Less", [step.following, step.flow.scalar(limit)])
        again = step.flow.place("And", [again, more])
    steps, *results = step.finish((first, again), [*values[: len(carried)], *made])
    exact = most is not None and rows == int(most.reshape(-1)[0]) and goes_on(body)
    if not exact or flow.graph.value(first) is None:
        flow.graph.bounded |= dict.fromkeys(results[len(carried) :], steps)
    flow.finish(results)


def _rows(flow: ControlFlow, most: int | None) -> int:
    """The most steps that a loop which collects results can take."""
    bound = flow.importer.bounds.get(flow.node.name)
    known = [number for number in (most, bound) if number is not None]
    if not known:
        option = f"--bound {flow.node.name}=STEPS (in Python: bounds=)"
        raise Unsupported(f"it collects a result of each step, and nothing bounds their number: {option}")
    return min(known)


def repeat_scan(flow: ControlFlow, scan: Scanned) -> None:
    """A Scan of many steps."""
    step = _Step(flow, scan.carried)
    inner = step.flow
    last = inner.number(scan.count - 1)
    places = (step.step, inner.place("Sub", [last, step.step]))
    given = zip(scan.sources, scan.backward, scan.axes, strict=True)
    slices = [inner.place("Gather", [name, places[back]], axis=axis) for name, back, axis in given]
    values = inner.results(flow.body("body"), [*step.carried, *slices], "body")
    carried, collected = values[: len(scan.carried)], values[len(scan.carried) :]
    made = [
        step.collect(at, value, scan.count, places[back])[1]
        for at, (value, back) in enumerate(zip(collected, scan.results_backward, strict=True))
    ]
    again = inner.place("Less", [step.following, inner.number(scan.count)])
    true = flow.graph.constant(np.array(True))
    _, *results = step.finish((true, again), [*carried, *made])
    whole = [
        _with_axis(flow, name, axis)
        for name, axis in zip(results[len(carried) :], scan.result_axes, strict=True)
    ]
    flow.finish([*results[: len(carried)], *whole])


def _with_axis(flow: ControlFlow, name: str, axis: int) -> str:
    """A value with its first axis at another place."""
    rank = flow.graph.tensor(name).rank
    axis += rank if axis < 0 else 0
    if not axis:
        return name
    order = [*range(1, axis + 1), 0, *range(axis + 1, rank)]
    return flow.place("Transpose", [name], perm=order)
