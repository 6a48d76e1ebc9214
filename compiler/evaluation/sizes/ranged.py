"""A graph over ranges of sizes: its extents as formulas, from the graphs at several points."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from compiler.evaluation.sizes.corners import is_beginning, with_corners
from compiler.evaluation.sizes.formulas import ExtentFormula, Point, Undecided, found_formula
from compiler.evaluation.sizes.growth import GrowingState
from compiler.evaluation.sizes.ranges import Ranges
from compiler.evaluation.sizes.windows import AllRows, with_windows, with_windows_of_tables
from compiler.graph import Array, Graph, GraphError, Node
from compiler.operators import is_known


@dataclass(frozen=True)
class RangedGraph:
    """A graph with its parts that depend on the sizes of a run.

    ``extents``: formulas of the extents of values by name. ``numbers``: formulas of integers that are
    attributes of nodes, or the elements of operands that are known when compiling, by the name of the node
    and that of the attribute or the position of the operand. ``constants``: constants at the largest sizes;
    at other sizes they are the beginning of these. ``graph`` is the one at the usual sizes. In it a Slice
    takes the part that a run needs of a constant that grows along several axes.
    """

    graph: Graph
    ranges: Ranges
    extents: Mapping[str, tuple[ExtentFormula, ...]]
    numbers: Mapping[tuple[str, str | int], tuple[ExtentFormula, ...]]
    constants: Mapping[str, Array]
    formulas: Mapping[str, ExtentFormula] = field(default_factory=dict)
    """All formulas by their text."""


Samples = Sequence[tuple[Point, Graph]]
"""Graphs at several points, the first one at the usual sizes and the last one at the largest."""


def ranged_graph(
    ranges: Ranges,
    samples: Samples,
    states: Sequence[GrowingState] = (),
    all_rows: AllRows = lambda state: None,
    odd: Samples = (),
) -> RangedGraph:
    """The formulas of a graph; GraphError if its structure depends on the sizes or a number has no formula.

    ``states`` are the growing ones, with which constants may move; ``all_rows`` reads the graph of a step of
    all rows that a state can have. ``odd``: graphs of another structure, at points that do not define
    formulas; only their outputs are compared. Undecided where the samples leave several formulas, with a
    point that distinguishes them.
    """
    _check_structure(ranges, samples)
    points = [point for point, _ in samples]
    graphs = with_windows_of_tables([graph for _, graph in samples], points, states, all_rows)
    graphs = with_windows(with_corners(graphs), points, states)
    found = _Comparison(ranges, points, graphs, [point for point, _ in odd]).result()
    for point, graph in odd:
        for one, other in zip(graphs[0].outputs, graph.outputs, strict=True):
            if tuple(extent.at(point) for extent in found.extents[one.name]) != other.shape:
                _check_structure(ranges, [samples[0], (point, graph)])
    return found


def _check_structure(ranges: Ranges, samples: Samples) -> None:
    (usual, first), *others = samples
    for point, graph in others:
        for one, other in zip(first.nodes, graph.nodes, strict=False):
            if _form(one) != _form(other):
                raise GraphError([f"{one} is another node at {_text(point)} than at {_text(usual)}: {_FIX}"])
        if len(first.nodes) != len(graph.nodes):
            counts = f"{len(graph.nodes)} nodes at {_text(point)}, {len(first.nodes)} at {_text(usual)}"
            raise GraphError([f"the graph has {counts}: {_FIX}"])


def same_structure(one: Graph, other: Graph) -> bool:
    """True if two graphs have the same nodes, at any sizes."""
    return len(one.nodes) == len(other.nodes) and all(
        _form(a) == _form(b) for a, b in zip(one.nodes, other.nodes, strict=True)
    )


_MOST_PARTS = 12
"""Most formulas that others may contain."""
_FIX = "give that dimension one size, with --shape (in Python: shapes=)"


def _form(node: Node) -> tuple[object, ...]:
    """The properties of a node that must not depend on sizes."""
    kinds = {name: _kind(value) for name, value in node.attrs.items()}
    return node.op, [bool(name) for name in node.inputs], [bool(name) for name in node.outputs], kinds


def _kind(value: object) -> object:
    if isinstance(value, tuple):
        return [_kind(each) for each in value]
    return int if isinstance(value, int) else value


def _text(point: Point) -> str:
    return ", ".join(f"{name}={size}" for name, size in point.items())


class _Comparison:
    def __init__(
        self, ranges: Ranges, points: Sequence[Point], graphs: Sequence[Graph], odd: Sequence[Point]
    ) -> None:
        self.ranges, self.points, self.graphs = ranges, points, graphs
        small = [
            np.all([ranges.points[name] <= point[name] for name in ranges.names], axis=0) for point in odd
        ]
        self.compared = np.flatnonzero(~np.any(small, axis=0)) if odd else np.arange(ranges.count)
        """The points at which formulas must agree.

        Points without a size above that of an odd one are left out.
        """
        self.domain = {name: values[self.compared] for name, values in ranges.points.items()}
        self.first = graphs[0]
        self.names: dict[str, tuple[str, ...]] = {}
        """The names of a value in all graphs, by its name in the first one."""
        self.constants: dict[str, Array] = {}
        self.formulas: dict[str, ExtentFormula] = {}
        self._known_values: dict[tuple[int, ...], ExtentFormula | None] = {}
        """The formulas of numbers at the points, which many extents of a graph have in common."""

    def result(self) -> RangedGraph:
        for tensors in zip(*(graph.inputs for graph in self.graphs), strict=True):
            self.names[tensors[0].name] = tuple(tensor.name for tensor in tensors)
        for nodes in zip(*(graph.nodes for graph in self.graphs), strict=True):
            for at, values in enumerate(zip(*(node.inputs for node in nodes), strict=True)):
                if not is_known(nodes[0], at):
                    self._agree(nodes[0], values)
            self.names |= {
                names[0]: names for names in zip(*(node.outputs for node in nodes), strict=True) if names[0]
            }
        extents = {name: self._extents(names) for name, names in self.names.items()}
        numbers = dict(self._numbers())
        for name in self.first.constants:
            if name in self.names:
                self._constant(name)
        return RangedGraph(self.first, self.ranges, extents, numbers, self.constants, self.formulas)

    def _numbers(self) -> Iterator[tuple[tuple[str, str | int], tuple[ExtentFormula, ...]]]:
        """The formulas of attributes and known operands that depend on sizes."""
        for nodes in zip(*(graph.nodes for graph in self.graphs), strict=True):
            keys: list[str | int] = [at for at, name in enumerate(nodes[0].inputs) if name]
            for key in (*(at for at in keys if is_known(nodes[0], int(at))), *nodes[0].attrs):
                if isinstance(key, int):
                    found = self._known(nodes[0], [node.inputs[key] for node in nodes], key)
                else:
                    found = self._attribute(nodes, key)
                if found is not None:
                    yield (nodes[0].name, key), found

    def _agree(self, node: Node, values: tuple[str, ...]) -> None:
        """Record the names of a constant; GraphError if graphs do not use the same value."""
        if values[0] and self.names.setdefault(values[0], values) != values:
            raise GraphError([f"{node} has other operands at {_text(self.points[-1])}: {_FIX}"])

    def _extents(self, names: tuple[str, ...]) -> tuple[ExtentFormula, ...]:
        shapes = [graph.tensors[name].shape for graph, name in zip(self.graphs, names, strict=True)]
        if len({len(shape) for shape in shapes}) > 1:
            raise GraphError([f"'{names[0]}' has another number of axes at {_text(self.points[-1])}: {_FIX}"])
        return tuple(
            self._formula(sizes, f"an extent of '{names[0]}'") for sizes in zip(*shapes, strict=True)
        )

    def _formula(self, values: Sequence[int], what: str) -> ExtentFormula:
        key = tuple(values)
        if key not in self._known_values:
            made = [each for each in self.formulas.values() if each.follows][:_MOST_PARTS]
            try:
                self._known_values[key] = found_formula(key, self.points, self.domain, made)
            except Undecided as undecided:
                raise Undecided(int(self.compared[undecided.number])) from None
        found = self._known_values[key]
        if found is None:
            at = "; ".join(
                f"{value} at {_text(point)}" for value, point in zip(values, self.points, strict=True)
            )
            raise GraphError([f"{what} is no product of dimensions, nor follows from one: {at}; {_FIX}"])
        return self.formulas.setdefault(str(found), found)

    def _attribute(self, nodes: Sequence[Node], name: str) -> tuple[ExtentFormula, ...] | None:
        """Formulas of the numbers of an attribute; None if it is the same everywhere."""
        values = [node.attrs[name] for node in nodes]
        if all(value == values[0] for value in values):
            return None
        lists = [value if isinstance(value, tuple) else (value,) for value in values]
        what = f"attribute '{name}' of {nodes[0]}"
        return tuple(self._formula([int(v) for v in each], what) for each in zip(*lists, strict=True))

    def _known(self, node: Node, names: Sequence[str], at: int) -> tuple[ExtentFormula, ...] | None:
        """Formulas of the elements of an operand that is known when compiling; None for fixed ones."""
        arrays = [graph.constants[name] for graph, name in zip(self.graphs, names, strict=True)]
        if all(_same(array, arrays[0]) for array in arrays):
            return None
        what = f"operand {at} of {node}"
        if arrays[0].dtype.kind not in "iu" or any(array.shape != arrays[0].shape for array in arrays):
            raise GraphError([f"{what} is known when compiling and depends on the sizes: {_FIX}"])
        elements = zip(*(array.reshape(-1).tolist() for array in arrays), strict=True)
        return tuple(self._formula(each, what) for each in elements)

    def _constant(self, name: str) -> None:
        """Check that a constant is the same everywhere, or the beginning of that at the largest sizes."""
        arrays = [graph.constants[each] for graph, each in zip(self.graphs, self.names[name], strict=True)]
        largest = arrays[-1]
        if all(_same(array, largest) for array in arrays):
            return
        if not all(is_beginning(array, largest) for array in arrays):
            users = chain(n for n in self.first.nodes if name in n.inputs)
            node = next(users)
            raise GraphError([f"{node} has a constant whose numbers depend on the sizes: {_FIX}"])
        self.constants[name] = largest


def _same(one: Array, other: Array) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and one.tobytes() == other.tobytes()
