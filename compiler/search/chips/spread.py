"""Data and tensor parallelism: a graph as what each chip computes, with the exchanges between chips."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from msgspec import UNSET

from compiler.codegen import DEFAULT_TILES
from compiler.graph import Array, Graph, GraphError, Node
from compiler.operators import OPERATORS
from compiler.operators.boxes.forms import elementwise
from compiler.operators.domains.chips.collectives import ALL_GATHER, PART
from compiler.operators.reductions.found import sized_outputs
from tx8isa.machine.description import Machine

from .degrees import Degrees
from .products import ChipGroups, added_up, both_sum_over, by_columns, by_rows, sums_over, weights_of
from .rules import ChipParts, NeedsWhole, UnevenHeads, divided
from .stage import ChipDivision


@dataclass(frozen=True)
class SpreadGraph:
    """A graph on several chips. ``batch`` deals the batch, ``tensor`` the products; None: degree 1."""

    graph: Graph
    degrees: Degrees
    places: tuple[tuple[int, int], ...]
    """By chip: its place in the batch, and in the ring of its group."""
    batch: ChipDivision | None
    tensor: ChipDivision | None

    @cached_property
    def parts(self) -> dict[tuple[int, int], tuple[int, ...]]:
        """The chips that have the same constants, by the place of one of them."""
        found: dict[tuple[int, int], list[int]] = {}
        for chip, (batch, ring) in enumerate(self.places):
            one = batch if self.batch is not None and not self.batch.alike else 0
            two = ring if self.tensor is not None and not self.tensor.alike else 0
            found.setdefault((one, two), []).append(chip)
        return {place: tuple(chips) for place, chips in found.items()}

    def graph_of(self, place: tuple[int, int]) -> Graph:
        """What chips with a place compute."""
        local = self.graph if self.batch is None else self.batch.graph_of(self.graph, place[0])
        return local if self.tensor is None else self.tensor.graph_of(local, place[1])

    def dealt(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Inputs of the whole graph by the names that they have on the chips."""
        found = {}
        for chip, (batch, _) in enumerate(self.places):
            for name, array in inputs.items():
                found[f"chip{chip}.{name}"] = self._part(name, array, batch)
        return found

    def _part(self, name: str, array: Array, batch: int) -> Array:
        parts = None if self.batch is None else self.batch.parts
        if parts is None or name not in parts.axes:
            return array
        return np.ascontiguousarray(array[parts.box(array.shape, parts.axes[name], batch).slices])

    def joined(self, outputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs of the whole graph from those of the chips; the first chip of every group gives them."""
        firsts = [chip for chip, (_, ring) in enumerate(self.places) if ring == 0]
        found = {}
        for tensor in self.graph.outputs:
            each = [outputs[f"chip{chip}.{tensor.name}"] for chip in firsts]
            axis = None if self.batch is None else self.batch.parts.axes.get(tensor.name)
            found[tensor.name] = each[0] if axis is None else np.concatenate(each, axis)
        return found


def spread_graph(
    graph: Graph, machine: Machine, degrees: Degrees, bytes_each: int = 4, tiles: int = DEFAULT_TILES
) -> SpreadGraph:
    """The graph on the chips of a machine; GraphError for one that cannot be divided so.

    The ways of exchanges are chosen for elements of ``bytes_each`` bytes, and ``tiles`` tiles of each chip.
    """
    chips = machine.chips
    if chips is UNSET:
        raise GraphError([f"machine {machine.name} has no links between chips"])
    degrees.check(chips)
    if graph.states or graph.replaceable:
        raise GraphError(["--parallel: programs with states or replaceable constants are for one chip"])
    flow = next((node for node in graph.nodes if node.bodies), None)
    if flow is not None:
        raise GraphError([f"--parallel: {flow} is decided by the program, which is for one chip"])
    for output in sized_outputs(graph):
        raise GraphError([f"--parallel: data decides the size of output '{output}', which is for one chip"])
    batch = _batch_dealt(graph, degrees.dp) if degrees.dp > 1 else None
    local = graph if batch is None else batch.graph_of(graph, 0)
    groups = ChipGroups(machine, tuple(degrees.rings(chips)), bytes_each, tiles)
    tensor = _products_shared(local, groups) if degrees.tp > 1 else None
    return SpreadGraph(graph, degrees, tuple(degrees.places(chips)), batch, tensor)


def _batch_dealt(graph: Graph, count: int) -> ChipDivision:
    """The batch in ``count`` parts; chips exchange nothing."""
    parts = ChipParts(graph, count)
    for tensor in graph.inputs:
        if not tensor.shape or tensor.shape[0] % count:
            found = f"input '{tensor.name}' is {'x'.join(map(str, tensor.shape)) or 'a scalar'}"
            raise GraphError([f"dp={count}: {found}; its first axis must be a multiple of {count}"])
        parts.axes[tensor.name] = 0
    nodes = []
    for node in graph.nodes:
        try:
            nodes.append(divided(parts, node) if any(name in parts.axes for name in node.inputs) else node)
        except NeedsWhole as error:
            raise GraphError([f"dp={count}: {error}, so the batch cannot be dealt to chips"]) from None
    return ChipDivision(parts, tuple(nodes))


def _products_shared(graph: Graph, groups: ChipGroups) -> ChipDivision:
    """Products in ``groups.members`` parts, as many as can be; the others are computed by every chip.

    What needs a divided value whole gets it gathered if that takes less than to compute it everywhere.
    """
    whole: set[str] = set()
    first = ""
    while True:
        attempt = _Attempt(graph, groups, whole)
        found = attempt.run()
        if isinstance(found, ChipDivision):
            break
        first = first or str(found)
        whole |= attempt.blamed
    if not found.parts.constants:
        reason = first or "no product has constant weights with so many columns"
        raise GraphError([f"tp={groups.members}: nothing can be shared by the chips: {reason}"])
    return found


class _Attempt:
    """Divides the products whose names are not in ``whole``; ``blamed``: those that led to a hindrance."""

    def __init__(self, graph: Graph, groups: ChipGroups, whole: set[str]) -> None:
        self.graph, self.groups, self.whole = graph, groups, whole
        self.parts = ChipParts(replace(graph, tensors=dict(graph.tensors)), groups.members)
        self.blamed: frozenset[str] = frozenset()
        self._sources: dict[str, frozenset[str]] = {}
        """By value that is divided: the products that have divided it."""
        self._rows: set[str] = set()
        """Values of which each chip has some rows, since a sum."""

    def run(self) -> ChipDivision | NeedsWhole:
        nodes: list[Node] = []
        for node in self.graph.nodes:
            try:
                nodes += self._divided(node)
            except NeedsWhole as error:
                if isinstance(error, UnevenHeads) and not self._rows.intersection(node.inputs):
                    raise GraphError([f"tp={self.groups.members}: {error}"]) from None
                self.blamed = self._sources_of(node)
                if not self._gather_pays(node):
                    return error
                gathers, whole = self._with_whole_operands(node)
                nodes += [*gathers, *self._divided(whole)]
        return ChipDivision(self.parts, tuple(self._gathered(nodes)))

    def _divided(self, node: Node) -> list[Node]:
        parts = self.parts
        if not any(name in parts.axes for name in node.inputs):
            column = None
            if weights_of(parts, node) is not None and node.name not in self.whole:
                column = by_columns(parts, node)
            if column is not None:
                self._sources[node.outputs[0]] = frozenset({node.name})
            return [column or node]
        if sums_over(parts, node):
            made = by_rows(parts, node, self.groups)
            self._rows |= {node.outputs[0]} & parts.axes.keys()
            return made
        if weights_of(parts, node) is not None and node.inputs[0] in self._rows:
            gathers, whole = self._with_whole_operands(node)
            return [*gathers, *self._divided(whole)]
        if both_sum_over(parts, node):
            return added_up(parts, node, self.groups)
        taken, node = self._with_parts(node)
        found = divided(parts, node)
        self._sources |= dict.fromkeys((name for name in node.outputs if name), self._sources_of(node))
        if self._rows.intersection(node.inputs):
            self._rows |= set(node.outputs)
        return [*taken, found]

    def _with_parts(self, node: Node) -> tuple[list[Node], Node]:
        """Parts of what all chips have, for a node that computes each element of some rows by itself."""
        parts, rows = self.parts, [name for name in node.inputs if name in self._rows]
        if not rows or OPERATORS[node.op].needs is not elementwise:
            return [], node
        tensors, taken, names = parts.graph.tensors, [], list(node.inputs)
        from_end = parts.axes[rows[0]] - tensors[rows[0]].rank
        assert isinstance(tensors, dict)
        for at, name in enumerate(names):
            axis = from_end + tensors[name].rank if name else -1
            if (
                axis < 0
                or name in parts.axes
                or name in parts.graph.constants
                or tensors[name].shape[axis] == 1
            ):
                continue
            part = names[at] = f"{name}.rows"
            if part not in tensors:
                tensors[part] = replace(tensors[name], name=part)
                attrs = {**self.groups.attrs(PART, tensors[name].shape), "axis": axis}
                del attrs["way"]
                taken.append(Node(PART, f"{name}.part", (name,), (part,), attrs))
                parts.axes[part] = axis
                self._rows.add(part)
        return taken, replace(node, inputs=tuple(names))

    def _sources_of(self, node: Node) -> frozenset[str]:
        return frozenset().union(*(self._sources.get(name, frozenset()) for name in node.inputs))

    def _gather_pays(self, node: Node) -> bool:
        """Whether gathering the divided operands takes less than computing their products on every chip.

        Rows of sums always are gathered: no other division would do without.
        """
        if self._rows.intersection(node.inputs):
            return True
        shapes = [self.parts.graph.tensors[name].shape for name in self._divided_operands(node)]
        gathers = sum(self.groups.price(ALL_GATHER, shape) for shape in shapes)
        products = [each for each in self.graph.nodes if each.name in self.blamed]
        return gathers < sum(self.groups.saved(self.graph, product) for product in products)

    def _divided_operands(self, node: Node) -> list[str]:
        return [name for name in dict.fromkeys(node.inputs) if name in self.parts.axes]

    def _with_whole_operands(self, node: Node) -> tuple[list[Node], Node]:
        """Gathers of the divided operands, unless an earlier node has them, and the node with whole ones."""
        tensors, gathers = self.parts.graph.tensors, []
        assert isinstance(tensors, dict)
        names = {name: f"{name}.whole" for name in self._divided_operands(node)}
        for name, whole in names.items():
            if whole not in tensors:
                tensors[whole] = replace(tensors[name], name=whole)
                attrs = {**self.groups.attrs(ALL_GATHER, tensors[name].shape), "axis": self.parts.axes[name]}
                gathers.append(Node(ALL_GATHER, f"{name}.all_gather", (name,), (whole,), attrs))
        inputs = tuple(names.get(name, name) for name in node.inputs)
        return gathers, replace(node, inputs=inputs)

    def _gathered(self, nodes: list[Node]) -> list[Node]:
        """The nodes, and a gather for every output that is divided."""
        axes = self.parts.axes
        for tensor in self.graph.outputs:
            axis = axes.pop(tensor.name, None)
            if axis is not None:
                part = f"{tensor.name}.part"
                nodes = [_renamed(node, {tensor.name: part}.get) for node in nodes]
                attrs = {**self.groups.attrs(ALL_GATHER, tensor.shape), "axis": axis}
                nodes.append(Node(ALL_GATHER, f"{tensor.name}.all_gather", (part,), (tensor.name,), attrs))
        return nodes


def _renamed(node: Node, name_of: Callable[[str, str], str]) -> Node:
    inputs = tuple(name_of(name, name) for name in node.inputs)
    return replace(node, inputs=inputs, outputs=tuple(name_of(name, name) for name in node.outputs))
