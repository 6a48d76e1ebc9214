"""The graph as far as a model has been read, names inside functions and subgraphs, refusals of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import numpy as np

from compiler.evaluation.folding import needed, selected
from compiler.graph import DTYPES, NEWEST_OPSET, Array, Description, GraphError, Node, Tensor
from tx8isa.errors import BudgetError
from tx8isa.tools.budget import Budget


class Unsupported(Exception):
    """A node that is not supported; the text says why, without naming the node."""


def hold(budget: Budget, size: int, beside: int = 0) -> None:
    """Charge the budget for computing on constants; Unsupported when it is exhausted."""
    try:
        budget.hold(size, beside)
    except BudgetError as error:
        raise Unsupported(f"on constants: {error}") from None


def carries_found(name: str, what: str) -> Unsupported:
    """Return the refusal of control flow that would have to carry a value of data-dependent size."""
    return Unsupported(
        f"{what} '{name}' has a size that data decides; branches and loops of the program carry known sizes: "
        "take as many as there can be of it before, by TopK with a known k"
    )


class NotWrittenOut(Unsupported):
    """A loop whose steps are not known, or too many to write out each of them."""


@dataclass
class Scope:
    """Names inside a function or subgraph, and the names of the same values in the graph."""

    names: dict[str, str] = field(default_factory=dict)
    prefix: str = ""  # of the names in the graph for values made inside

    def inner(self, name: str) -> str:
        """Return the name that a value has in the graph."""
        return self.names.get(name, name) if name else ""


Saved = tuple[int, dict[str, Array], dict[str, Tensor], dict[str, dict[int, str]]]
"""A saved state: the number of nodes, the constants, the tensors, and the data-dependent extents."""


class PartialGraph:
    """The graph so far: ``nodes``, ``constants`` and ``tensors``, which describes every value, grow."""

    def __init__(
        self, path: Path, inputs: tuple[Tensor, ...], constants: dict[str, Array], budget: Budget
    ) -> None:
        self.path, self.budget = path, budget
        self.constants = constants
        self.tensors = {tensor.name: tensor for tensor in inputs}
        self.tensors |= {name: _described(name, array) for name, array in constants.items()}
        self.nodes: list[Node] = []
        self.sequences: dict[str, tuple[str, ...]] = {}
        """The tensors of each sequence."""
        self.absent: set[str] = set()
        """Optionals without an element; any other is its element."""
        self.bounded: dict[str, dict[int, str]] = {}
        """Data-dependent extents of values (``found``): by axis the value that holds the extent."""
        self.most: dict[str, int] = {}
        """The largest possible extent, by the value that holds it."""
        self.places: set[str] = set()
        """Values that are valid as indices everywhere, in their padding too."""
        self.extents: dict[str, tuple[int | str, ...]] = {}
        """Shapes with data-dependent extents: their elements, numbers or the values that hold them."""
        self.found: dict[tuple[str, int | None], tuple[str, str, str]] = {}
        """The places of true elements of a value, their number, and counts, by its name and the bound."""
        self.doubles: list[str] = []
        """The nodes of the model that compute in float64; the graph computes them in float32."""
        self._numbers = count(1)
        self.description = Description(str(path), "", NEWEST_OPSET, inputs, (), constants, ())
        """The part of the graph that inference reads; its constants grow with the graph's."""

    def mark(self, name: str, counts: Mapping[int, str]) -> None:
        """Record the data-dependent extents of a value: by axis the value that holds one."""
        shape = self.tensors[name].shape
        self.most |= {count: shape[axis] for axis, count in counts.items()}
        self.bounded.pop(name, None)
        if counts:
            self.bounded[name] = dict(counts)

    def saved(self) -> Saved:
        """Return the state that :meth:`restore` needs."""
        return len(self.nodes), dict(self.constants), dict(self.tensors), dict(self.bounded)

    def restore(self, before: Saved) -> None:
        """Take back everything that was added since."""
        del self.nodes[before[0] :]
        self.constants.clear()
        self.constants.update(before[1])
        self.tensors, self.bounded = before[2], before[3]
        self.found.clear()

    def tensor(self, name: str) -> Tensor:
        if not name:
            raise Unsupported("an operand that it needs is omitted")
        if name in self.sequences or name in self.absent:
            raise Unsupported(f"'{name}' is {self.kind(name)}; only tensors are supported here")
        return self.tensors[name]

    def knows(self, name: str) -> bool:
        """Return True if there is a tensor, sequence or optional of this name."""
        return name in self.tensors or name in self.sequences or name in self.absent

    def kind(self, name: str) -> str:
        """Return the kind of a value that is not a tensor, with an article."""
        return "a sequence" if name in self.sequences else "an optional without an element"

    def value(self, name: str) -> Array | None:
        """Return the data of a constant; None for any other value."""
        return self.constants.get(name)

    def fresh(self) -> str:
        """Return a name for a new value."""
        return f"onnx/{next(self._numbers)}"

    def inside(self) -> PartialGraph:
        """Return a graph that may read the values of this one, which become its inputs."""
        inner = PartialGraph(self.path, (), dict(self.constants), self.budget)
        inner.tensors = dict(self.tensors)
        inner.bounded, inner.sequences = dict(self.bounded), dict(self.sequences)
        inner.absent = set(self.absent)
        inner.most, inner.places, inner.extents = dict(self.most), set(self.places), dict(self.extents)
        inner._numbers = self._numbers
        return inner

    def constant(self, value: Array) -> str:
        """Add a constant under a new name; return the name."""
        name = self.fresh()
        self.define(name, value)
        return name

    def define(self, name: str, value: Array) -> None:
        """Add a constant."""
        self.constants[name] = value
        self.tensors[name] = _described(name, value)

    def single(self, name: str) -> str:
        """Return the name of a value as the chip computes it: a float64 constant is taken in float32."""
        value = self.constants.get(name)
        if value is None or value.dtype != np.float64:
            return name
        narrow = f"{name}/float32"
        if narrow not in self.constants:
            self.define(narrow, value.astype(np.float32))
        return narrow

    def alias(self, name: str, value: str, node: str) -> None:
        """Make ``name`` the same as ``value``.

        That is a constant, a sequence, an optional, or the result of an Identity of ``node``.
        """
        if value in self.sequences:
            self.sequences[name] = self.sequences[value]
        elif value in self.absent:
            self.absent.add(name)
        elif value in self.constants:
            self.define(name, self.constants[value])
        else:
            self.tensors[name] = Tensor(name, self.tensor(value).dtype, self.tensor(value).shape)
            self.nodes.append(Node("Identity", f"{node}/{name}", (value,), (name,), {}))
        if value in self.bounded:
            self.bounded[name] = self.bounded[value]
        if value in self.extents:
            self.extents[name] = self.extents[value]
        if value in self.places:
            self.places.add(name)


def _described(name: str, array: Array) -> Tensor:
    return Tensor(name, array.dtype.name, array.shape)


def finished_description(
    name: str, graph: PartialGraph, scope: Scope, inputs: tuple[Tensor, ...], outputs: tuple[str, ...]
) -> Description:
    """Return the graph without unneeded nodes; ``scope`` has the outputs' names in it.

    GraphError for a value of a type that no graph may have.
    """
    nodes, reads = needed(graph.nodes, (scope.inner(name) for name in outputs))
    constants = selected(graph.constants, reads)
    for output in outputs:
        inner = scope.inner(output)
        if inner != output:  # written out of a function, or a constant under another name
            if inner in graph.constants:
                constants[output] = graph.constants[inner]
            else:
                nodes.append(Node("Identity", f"output {output}", (inner,), (output,), {}))
    _check_types(graph, reads)
    return Description(
        source=str(graph.path),
        name=name or graph.path.stem,
        opset=NEWEST_OPSET,
        inputs=inputs,
        outputs=outputs,
        constants=constants,
        nodes=tuple(nodes),
        internal=True,
    )


def _check_types(graph: PartialGraph, names: set[str]) -> None:
    """Stop at a value of a type that no graph may have; constants of any type may have been folded before."""
    for name in sorted(names):
        dtype = graph.tensors[name].dtype
        if dtype not in DTYPES:
            raise GraphError([f"{graph.path}: tensor '{name}' is {dtype}; supported are {', '.join(DTYPES)}"])
