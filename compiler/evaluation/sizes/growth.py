"""States that grow: new rows are written after the old ones, in memory with room for the most.

A model has such a state as an input, and as an output with more rows: the Concat of the input and the new
rows. Here both become a cache with a fixed room. Append writes the new rows into it, and a Slice gives the
model's tensor. So a step copies no old rows, and the heads stay at their places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from compiler.graph import Graph, GraphError, Node, Tensor
from compiler.operators import OPERATORS
from compiler.operators.domains.microsoft.group_query import GROUP_QUERY
from compiler.operators.domains.microsoft.grown_caches import appended_group_query
from compiler.operators.expansion.expander import expand_graph
from compiler.operators.record import Expansion
from compiler.operators.reductions.integer_sums import sum_of_any_length
from compiler.operators.shapes.growth import APPEND
from compiler.operators.types import axis_from_front

from .formulas import Point
from .ranges import Ranges
from .sums import SUM

_ONE_MORE = 1
"""Unused rows of the room, so that the valid rows are a proper part at all sizes."""


@dataclass(frozen=True)
class GrowingState:
    """A state with ``before`` rows along an axis that grows by ``new``, a sum of dimensions or a number of
    rows."""

    past: str
    present: str
    axis: int
    before: str
    new: str
    room: int

    @property
    def after(self) -> str:
        """The number of rows after a step."""
        return f"{self.before}{SUM}{self.new}"


def growing_states(ranges: Ranges, graph_at: Callable[[Point], Graph]) -> tuple[GrowingState, ...]:
    """The states whose outputs have more rows than their inputs; GraphError if one of them cannot grow."""
    points = list(ranges.samples())
    graphs = [graph_at(point) for point in points[:1]]
    if not any(_grows(graphs[0], *state) for state in graphs[0].states):
        return ()
    graphs += [graph_at(point) for point in points[1:]]
    found = []
    for past, present in graphs[0].states:
        if _grows(graphs[0], past, present):
            found.append(_growing_state(ranges, points, graphs, past, present))
    return tuple(found)


def _grows(graph: Graph, past: str, present: str) -> bool:
    return graph.tensors[past].shape != graph.tensors[present].shape


def _growing_state(
    ranges: Ranges, points: Sequence[Point], graphs: Sequence[Graph], past: str, present: str
) -> GrowingState:
    what = f"state {past}={present}"
    old, new = ([graph.tensors[name].shape for graph in graphs] for name in (past, present))
    axes = [at for at, sizes in enumerate(zip(*old, *new, strict=True)) if len(set(sizes)) > 1]
    if len(axes) != 1:
        wanted = "the axis along which a state grows must be the only one of a free size"
        raise GraphError([f"{what}: axes {axes} are free; {wanted}: give the others with --shape"])
    (axis,) = axes
    before = _name_of(ranges, points, [shape[axis] for shape in old])
    more = [later[axis] - earlier[axis] for earlier, later in zip(old, new, strict=True)]
    rows = str(more[0]) if len(set(more)) == 1 else _name_of(ranges, points, more)
    if before is None or rows is None or min(more) < 1:
        sizes = ", ".join(f"{a[axis]} to {b[axis]}" for a, b in zip(old, new, strict=True))
        wanted = "a dimension before a step, and another or a number more after it"
        raise GraphError([f"{what}: axis {axis} goes from {sizes}; expected {wanted}"])
    most = ranges.most
    room = most[before] + (int(rows) if rows.isdigit() else most[rows])
    return GrowingState(past, present, axis, before, rows, room + _ONE_MORE)


def _name_of(ranges: Ranges, points: Sequence[Point], sizes: Sequence[int]) -> str | None:
    """The dimension that has these sizes at the points."""
    wanted = list(sizes)
    return next((name for name in ranges.names if [point[name] for point in points] == wanted), None)


def ranges_with(ranges: Ranges, states: Sequence[GrowingState]) -> Ranges:
    """The ranges, with the sums that are extents of states; GraphError if a size of 0 is not a length."""
    lengths = frozenset(state.before for state in states)
    sums = tuple(dict.fromkeys(state.after for state in states if not state.new.isdigit()))
    return replace(ranges, growing=lengths, sums=sums)


def with_room(graph: Graph, states: Sequence[GrowingState]) -> Graph:
    """A graph whose growing states are caches with room; GraphError for a state with other uses."""
    graph = _with_concats(graph, {state.past for state in states} | _without_elements(graph))
    for state in states:
        graph = _Cache(graph, state).result()
    return graph


def _without_elements(graph: Graph) -> set[str]:
    """The constants without elements, which operators may have as inputs where a state is empty."""
    return {name for name, array in graph.constants.items() if not array.size}


def _with_concats(graph: Graph, states: set[str]) -> Graph:
    """The graph with operators expanded that append to states themselves."""
    growing = {
        node.name: made for node in graph.nodes if (made := _expansion(graph, node, states)) is not None
    }
    expanded = {node.op for node in graph.nodes if node.name in growing}
    graph = expand_graph(graph, expanded, growing) if growing else graph
    while True:
        readers = {node.op for node in graph.nodes if not states.isdisjoint(node.inputs)}
        composite = {op for op in readers if op != "Concat" and OPERATORS[op].expansion is not None}
        if composite <= expanded:
            return graph
        expanded |= composite
        graph = expand_graph(graph, expanded)


def _expansion(graph: Graph, node: Node, states: set[str]) -> Expansion | None:
    """The expansion of a node whose cache, or mask of integers, grows; None to use the normal expansion."""
    if node.op == GROUP_QUERY and not states.isdisjoint(node.inputs):
        return appended_group_query
    if node.op == "ReduceSum" and not graph.tensors[node.inputs[0]].is_float:
        return sum_of_any_length
    return None


class _Cache:
    """Makes the cache of one state."""

    def __init__(self, graph: Graph, state: GrowingState) -> None:
        self.graph, self.state = graph, state
        self.makers = {name: node for node in graph.nodes for name in node.outputs}
        self.what = f"state {state.past}={state.present}"

    def result(self) -> Graph:
        """The graph with the cache; GraphError if the state does not grow by a Concat alone."""
        state, graph = self.state, self.graph
        names, concat = self._concat()
        valid = f"{state.present}.valid"
        cache = replace(graph.tensors[state.past], shape=self._room(state.past))
        tensors = {**graph.tensors, valid: replace(graph.tensors[names[-1]], name=valid)}
        tensors |= {state.past: cache, state.present: replace(cache, name=state.present)}
        ends, constants = self._ends(concat)
        nodes: list[Node] = []
        for node in graph.nodes:
            if node is concat:
                nodes += self._written(concat, ends, valid)
            elif node.outputs[0] not in names:
                nodes.append(replace(node, inputs=tuple(valid if n in names else n for n in node.inputs)))
        return replace(
            graph,
            inputs=tuple(tensors[tensor.name] for tensor in graph.inputs),
            outputs=tuple(tensors[tensor.name] for tensor in graph.outputs),
            nodes=tuple(nodes),
            tensors=tensors | {n: Tensor(n, "int64", array.shape) for n, array in constants.items()},
            constants={**graph.constants, **constants},
        )

    def _concat(self) -> tuple[list[str], Node]:
        """The Concat that makes the new value, and the names that this has."""
        state, names = self.state, [self.state.present]
        node = self.makers.get(state.present)
        while node is not None and node.op == "Identity":
            names.append(node.inputs[0])
            node = self.makers.get(node.inputs[0])
        if node is None or node.op != "Concat" or not self._is_what_was(node.inputs[:-1]):
            found = f"input '{names[-1]}'" if node is None else str(node)
            wanted = "a state grows by a Concat of its old value and new elements"
            raise GraphError([f"{self.what}: its new value is {found}; {wanted}"])
        axis = axis_from_front(int(str(node.attrs["axis"])), len(self.graph.tensors[state.past].shape))
        other = next((n for n in self.graph.nodes if n is not node and state.past in n.inputs), None)
        kept = [tensor.name for tensor in self.graph.outputs if tensor.name in (state.past, *names[1:])]
        if axis != state.axis or other is not None or kept:
            what = f"{other} reads it" if other is not None else f"output '{kept[0]}' is it" if kept else ""
            found = f"{what}, too" if what else f"{node} joins along axis {axis}"
            raise GraphError([f"{self.what}: {found}; a state that grows is only appended to"])
        return names, node

    def _is_what_was(self, joined: tuple[str, ...]) -> bool:
        """True if inputs before the last are the state, or constants without elements if that is empty."""
        past = self.state.past
        empty = not self.graph.tensors[past].size
        return joined == (past,) or (empty and _without_elements(self.graph).issuperset(joined))

    def _room(self, name: str) -> tuple[int, ...]:
        shape = list(self.graph.tensors[name].shape)
        shape[self.state.axis] = self.state.room
        return tuple(shape)

    def _ends(self, concat: Node) -> tuple[tuple[str, ...], dict[str, np.ndarray]]:
        """Names and values of the operands of the Slice of the valid rows."""
        length = self.graph.tensors[concat.outputs[0]].shape[self.state.axis]
        values = {"starts": 0, "ends": length, "axes": self.state.axis}
        made = {f"{self.state.present}.{key}": np.array([value]) for key, value in values.items()}
        return tuple(made), made

    def _written(self, concat: Node, operands: tuple[str, ...], valid: str) -> list[Node]:
        """The node that writes the new rows, and the Slice of all rows then valid."""
        state, at = self.state, self.graph.tensors[self.state.past].shape[self.state.axis]
        attrs = {"axis": state.axis, "at": at}
        write = Node(APPEND, concat.name, (state.past, concat.inputs[-1]), (state.present,), attrs)
        taken = Node("Slice", f"{concat.name}.valid", (state.present, *operands), (valid,), {})
        return [write, taken]
