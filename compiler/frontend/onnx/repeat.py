"""Loops of the program: a Loop whose count or condition the program computes, and loops of many steps.

The graph of such a loop is one step. From a condition, the number of the step, the carried values and the
results so far, it computes those of the next step. It also computes a condition: False ends the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from onnx import GraphProto

from compiler.evaluation.folding import needed
from compiler.graph import Tensor

from .bodies import Body
from .flow import ControlFlow, check_results
from .found.site import FoundSite
from .partial import PartialGraph, Unsupported, carries_found


@dataclass(frozen=True)
class Scanned:
    """A Scan: names of carried values and scanned operands, axes and directions, and its steps.

    ``axes`` are for the operands and the results; direction 1 is backwards.
    """

    carried: tuple[str, ...]
    sources: tuple[str, ...]
    axes: tuple[int, ...]
    backward: tuple[int, ...]
    result_axes: tuple[int, ...]
    results_backward: tuple[int, ...]
    count: int

    def slices(self, graph: PartialGraph) -> list[Tensor]:
        """Return the slices of the scanned operands that a step gets, without values."""
        tensors = zip(map(graph.tensor, self.sources), self.axes, strict=True)
        return [replace(t, shape=tuple(np.delete(t.shape, axis).tolist())) for t, axis in tensors]


def goes_on(body: GraphProto) -> bool:
    """Return True if the body of a Loop never ends it, because its condition is unchanged or true."""
    name = body.output[0].name if body.output else ""
    makers = {output: node for node in body.node for output in node.output}
    while name in makers and makers[name].op_type == "Identity":
        name = makers[name].input[0]
    return len(body.input) > 1 and name == body.input[1].name


class _Step:
    """The graph of a step under construction; ``flow`` adds to it, ``outer`` to the graph around it.

    ``number`` is the number of the step, ``carried`` are the names of the carried values inside.
    """

    def __init__(self, outer: ControlFlow, carried: Sequence[str], condition: str) -> None:
        self.outer, self.flow = outer, outer.inside()
        self.name = outer.node.name
        self.inputs: list[Tensor] = []
        self.first: list[str] = []
        """The inputs of the first step, by their names in the graph around it."""
        self.number = f"{self.name}/step"
        self.flow.graph.tensors[self.number] = Tensor(self.number, "int64", ())
        self.keep = self.declare("keep", condition) if condition else ""
        self.carried = [self.declare(f"carried {at}", name) for at, name in enumerate(carried)]

    def declare(self, title: str, first: str) -> str:
        """Add an input with its value in the first step.

        Return its name. A value without elements is known.
        """
        if first in self.outer.graph.bounded:
            raise carries_found(first, "its operand")
        known, name = self.outer.graph.tensor(first), f"{self.name}/{title}"
        if not known.size:
            self.flow.graph.define(name, known.zeros)
            return name
        self.inputs.append(Tensor(name, known.dtype, known.shape))
        self.first.append(first)
        self.flow.graph.tensors[name] = self.inputs[-1]
        return name

    def collect(self, number: int, value: str, rows: int, at: str) -> str:
        """Add room for ``rows`` of a value.

        Return the name of the room after writing the value as row ``at``.
        """
        tensor = self.flow.graph.tensor(value)
        zeros = self.outer.graph.constant(replace(tensor, shape=(rows, *tensor.shape)).zeros)
        room = self.declare(f"collected {number}", zeros)
        place, front = self.flow.number((1, 1)), self.flow.number([0])
        row = self.flow.place("Unsqueeze", [value, front])
        at = self.flow.place("Reshape", [at, place])
        return self.flow.place("ScatterND", [room, at, row], f"bound of result {number}")

    def number_below(self, bound: int) -> str:
        """Return the number of the step; the program stops with a message at the step after number
        ``bound``."""
        what = f" steps of node '{self.name}', or more; --bound {self.name}={bound} allows at most "
        return FoundSite(self.flow).internal("Bounded", self.number, most=bound - 1, what=what, shown=1)

    def without_condition(self) -> None:
        """Forget the condition, which is always true."""
        del self.inputs[0], self.first[0]
        self.flow.graph.define(self.keep, np.array(True))
        self.keep = ""

    def finish(self, limit: str, results: Sequence[str], counted: bool) -> list[str]:
        """Add the loop; return the names of its values after the last step.

        ``results``: the values after a step, with a condition in front if there is one. With ``counted`` the
        last name is the number of steps. The loop has no values without elements, which are known.
        """
        empty = {name: t for name in results if not (t := self.flow.graph.tensor(name)).size}
        full = [name for name in results if name not in empty]
        made = iter(self._add(limit, full, counted) if full or counted else [])
        names = [self.outer.graph.constant(empty[n].zeros) if n in empty else next(made) for n in results]
        return [*(names[1:] if self.keep else names), *made]

    def _add(self, limit: str, results: Sequence[str], counted: bool) -> list[str]:
        """Add the loop; return the names of its results."""
        _, reads = needed(self.flow.graph.nodes, results)
        numbered = self.number in reads
        number = [self.flow.graph.tensor(self.number)] if numbered else []
        declared = [*number, *self.inputs]
        body = Body(self.outer.graph, self.flow.graph, f"{self.name}/body", declared, results)
        graph = body.graph(body.captured)
        states = zip((t.name for t in self.inputs), (t.name for t in graph.outputs), strict=True)
        names = [self.outer.graph.fresh() for _ in range(len(results) + counted)]
        self.outer.add(
            "Loop",
            [limit, *self.first, *body.captured],
            names,
            [replace(graph, states=tuple(states))],
            conditional=int(bool(self.keep)),
            numbered=int(numbered),
            counted=int(counted),
        )
        return names

    def check_carried(self, after: Sequence[str]) -> None:
        """Raise Unsupported for a carried value that has elements only before or only after a step."""
        for at, names in enumerate(zip(self.carried, after, strict=True)):
            before, following = (self.flow.graph.tensor(name) for name in names)
            if before.shape != following.shape and not (before.size and following.size):
                change = f"shape {list(before.shape)} before a step and {list(following.shape)} after it"
                raise Unsupported(f"its carried value {at} has {change}; a loop of the program keeps shapes")


def repeat_loop(flow: ControlFlow) -> None:
    """Add a Loop whose count or condition the program computes, or of many steps."""
    body, (limit, condition, *carried) = flow.body("body"), flow.node.input
    check_results(body, 1 + len(carried))
    if limit:
        flow.check_one(limit, "number of steps")
    first = flow.scalar(condition) if condition else flow.graph.constant(np.array(True))
    step = _Step(flow, carried, first)
    state, *values = step.flow.results(body, [step.number, step.keep, *step.carried], "body")
    step.flow.check_one(state, "condition")
    step.check_carried(values[: len(carried)])
    always = bool(flow.graph.value(first)) and (goes_on(body) or bool(step.flow.graph.value(state)))
    if always and not limit:
        raise Unsupported("nothing ends it: it has no number of steps, and its condition stays true")
    most = None if not limit else flow.graph.value(limit)
    collected = values[len(carried) :]
    rows = _rows(flow, None if most is None else int(most.reshape(-1)[0])) if collected else 0
    stops = bool(collected) and rows == flow.importer.bounds.get(flow.node.name)
    place = step.number_below(rows) if stops else step.number
    made = [step.collect(at, value, rows, place) for at, value in enumerate(collected)]
    keep = [] if always else [step.flow.scalar(state)]
    if always:
        step.without_condition()
    exact = always and most is not None and rows == int(most.reshape(-1)[0])
    counted = bool(collected) and not exact
    results = step.finish(limit, [*keep, *values[: len(carried)], *made], counted)
    if counted:
        *results, steps = results
        for name in results[len(carried) :]:
            if not flow.graph.tensor(name).size:
                raise Unsupported("it collects results without elements, and data decides how many")
            flow.graph.mark(name, {0: steps})
    flow.finish(results)


def _rows(flow: ControlFlow, most: int | None) -> int:
    """Return the most steps of a loop that collects results."""
    bound = flow.importer.bounds.get(flow.node.name)
    known = [number for number in (most, bound) if number is not None]
    if not known:
        option = f"--bound {flow.node.name}=STEPS (in Python: bounds=)"
        raise Unsupported(f"it collects a result of each step, and nothing bounds their number: {option}")
    return min(known)


def repeat_scan(flow: ControlFlow, scan: Scanned) -> None:
    """Add a Scan of many steps."""
    step = _Step(flow, scan.carried, "")
    inner = step.flow
    places = (step.number, inner.place("Sub", [inner.number(scan.count - 1), step.number]))
    given = zip(scan.sources, scan.backward, scan.axes, strict=True)
    slices = [inner.place("Gather", [name, places[back]], axis=axis) for name, back, axis in given]
    values = inner.results(flow.body("body"), [*step.carried, *slices], "body")
    carried, collected = values[: len(scan.carried)], values[len(scan.carried) :]
    step.check_carried(carried)
    made = [
        step.collect(at, value, scan.count, places[back])
        for at, (value, back) in enumerate(zip(collected, scan.results_backward, strict=True))
    ]
    results = step.finish(flow.number(scan.count), [*carried, *made], counted=False)
    rooms = zip(results[len(carried) :], scan.result_axes, strict=True)
    flow.finish([*results[: len(carried)], *(_with_axis(flow, name, axis) for name, axis in rooms)])


def _with_axis(flow: ControlFlow, name: str, axis: int) -> str:
    """Move the first axis of a value to another place."""
    rank = flow.graph.tensor(name).rank
    axis += rank if axis < 0 else 0
    if not axis:
        return name
    order = [*range(1, axis + 1), 0, *range(axis + 1, rank)]
    return flow.place("Transpose", [name], perm=order)
