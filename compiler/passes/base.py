"""The interface of passes, the context in which they run, and functions that several of them use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from compiler.codegen.kernel import Constant, Scratch
from compiler.dialect.ops import (
    CastOp,
    ChannelNormOp,
    ControlOperation,
    GroupOp,
    InputOp,
    LoadConstOp,
    NodeOperation,
    OutputOp,
    SubgraphOp,
    TensorOperation,
)
from compiler.dialect.orders import Order
from compiler.dialect.sizes import open_axes
from compiler.dialect.types import order_of, readable_as, storage_permutation
from compiler.evaluation.remarks import WideValues
from compiler.evaluation.sizes import Domain, Size
from compiler.evaluation.sizes.formulas import Point
from compiler.evaluation.sizes.growth import GrowingState, growing_states, ranges_with, with_room
from compiler.evaluation.sizes.ranged import RangedGraph
from compiler.evaluation.sizes.ranges import Ranges
from compiler.graph import Array, Graph, Node
from compiler.lowering import LOWERINGS
from compiler.passes.patterns import PatternTrie
from compiler.search import EFFORTS, Effort, Plan, SearchProgress, SearchResult, Template
from compiler.search.cost import KindUse
from compiler.search.plan import PlannedSequence, PlannedVersion
from tx8isa.machine.description import Machine
from tx8isa.numbers.formats import Format

Twin = Callable[[Graph], Graph]
"""Gives a graph other constants and factors (docs/proving.md#the-twin)."""


@dataclass(frozen=True)
class StateUpdate:
    """The update of a state in memory: the names of its input, its output and the node that writes it.

    ``node`` writes the whole value, or with ``parts`` only the new parts. Otherwise ``copied`` says why the
    value is computed elsewhere and copied.
    """

    past: str
    present: str
    node: str
    parts: bool = False
    copied: str = ""

    def __str__(self) -> str:
        how = f"node '{self.node}' {'writes new elements' if self.parts else 'writes it'}"
        return f"state {self.past}={self.present}: {f'copied, {self.copied}' if self.copied else how}"


@dataclass
class Context:
    """One compilation: its graph and machine, and the results that passes leave for later passes and the
    driver.

    ``tiles`` is the number of tiles in use, ``compute`` the format of floats.
    """

    graph: Graph
    machine: Machine
    tiles: int
    compute: Format
    prefix: str = ""
    """The prefix of all symbols: empty unless an image has several networks, or control flow executes the
    graph.
    """
    is_body: bool = False
    """True if control flow executes the graph: its inputs and outputs are values of another one."""
    conditional: bool = False
    """True if this is the graph of a loop whose first carried value says whether there is a step."""
    step_symbol: str = ""
    """The memory in which a loop passes the number of the step to this graph; empty if the graph does not
    read it.
    """
    bodies: dict[str, list[Context]] = field(default_factory=dict)
    """The contexts of the graphs that nodes of control flow execute, by the names of the nodes."""
    constants: dict[str, Array] = field(default_factory=dict)
    """The data of load_const operations by name, in the shape of the specification."""
    phases: list[tuple[str, list[str]]] = field(default_factory=list)
    """Name and lines of assembly of each phase."""
    on_core: set[str] = field(default_factory=set)
    """Names of the phases in which the kernel core computes elements of tensors."""
    data: list[Constant | Scratch] = field(default_factory=list)
    """Constants and memory in DDR that the phases use besides the values of the module."""
    used: set[str] = field(default_factory=set)
    """Symbols to which the phases refer."""
    patterns: PatternTrie | None = None
    """Patterns of operators that run in one phase; None: every operation has a phase of its own."""
    residency: bool = True
    """True if values between groups may stay in the scratchpads."""
    effort: Effort = EFFORTS["off"]
    plan: Plan | None = None
    """Decisions that replace the search."""
    search_progress: SearchProgress | None = None
    """Is called by the search before every candidate."""
    templates: list[Template] = field(default_factory=list)
    """The templates of the module's groups, by the number that is an attribute of the groups."""
    results: list[SearchResult] = field(default_factory=list)
    """The decision for each template; empty without search and plan."""
    kind_use: KindUse = field(default_factory=KindUse)
    """The kinds of commands that the groups use as phases of their own, which the search counts."""
    twin: Twin | None = None
    """Replaces the constants of the rewritten graph, for a proof."""
    replaceable: Mapping[str, Array] = field(default_factory=dict)
    """Inputs that are constants of the program, with their values until a session replaces them."""
    wide: WideValues | None = None
    """Values that the compute format cannot hold, as far as constants tell."""
    updates: list[StateUpdate] = field(default_factory=list)
    """The updates of the graph's states."""
    sequences: list[PlannedSequence] = field(default_factory=list)
    """The sequences that were made, also those that became part of a grown group."""
    other_results: list[tuple[Template, SearchResult]] = field(default_factory=list)
    """Stacks that were not made, and templates whose groups all went into stacks."""

    def inside(self, node: Node, number: int, prefix: str) -> Context:
        """The context of a graph, by its number, that a node of control flow executes."""
        graph = node.bodies[number]
        return Context(
            graph,
            self.machine,
            self.tiles,
            self.compute,
            prefix=prefix,
            is_body=True,
            conditional=bool(node.attrs.get("conditional")),
            patterns=self.patterns,
            residency=self.residency,
            effort=self.effort,
            plan=None if self.plan is None else self.plan.of_body(node.name, number),
            search_progress=self.search_progress,
        )

    def regions(self, module: ModuleOp) -> Iterator[tuple[ControlOperation, Context, ModuleOp]]:
        """The graphs that operations of the module execute: the operation, the graph's context and module."""
        if not self.bodies:  # the module need not be walked
            return
        for operation in operations(module):
            if isinstance(operation, ControlOperation):
                for context, body in zip(self.bodies[operation.node.data], operation.modules, strict=True):
                    yield operation, context, body

    def all_regions(self, module: ModuleOp) -> Iterator[tuple[ControlOperation, Context, ModuleOp]]:
        """The graphs that operations of the module execute, each followed by those inside it."""
        for region in self.regions(module):
            yield region
            yield from region[1].all_regions(region[2])


@dataclass(kw_only=True)
class RangedContext(Context):
    """The compilation of a program that runs a range of sizes."""

    source: RangedSource
    """The dynamic sizes, and the graph at each of their values."""
    ranged: RangedGraph | None = None
    """The extents and numbers of the graph that depend on these sizes; None before pass ``sizes``."""
    domain: Domain | None = None
    """The points for which the code is right, while code is generated."""
    size_loads: dict[str, Size] = field(default_factory=dict)
    """The sizes that the code loads, by their text."""
    versions: dict[str, list[PlannedVersion]] = field(default_factory=dict)
    """The versions of the phases, by the names of the phases."""

    @property
    def ranges(self) -> Ranges:
        """The ranges of the dynamic sizes."""
        return self.source.ranges


@dataclass(frozen=True)
class RangedSource:
    """The ranges of a program's sizes, and the function that reads its graph at a point of them."""

    ranges: Ranges
    graph_at: Callable[[Point], Graph]
    """Reads the model at a point; growing states have the form that the model gives them."""
    growing: tuple[GrowingState, ...] = ()

    def with_room(self, graph: Graph) -> Graph:
        """Return a graph read from the source, in which growing states are caches with room."""
        return with_room(graph, self.growing)

    def with_growth(self) -> RangedSource:
        """Return the source with its growing states; GraphError for a state that cannot grow."""
        states = growing_states(self.ranges, self.graph_at)
        return replace(self, ranges=ranges_with(self.ranges, states), growing=states)


class Pass(Protocol):
    """One step of the pipeline. It receives a valid module, changes it in place, and must leave it valid."""

    name: str

    def run(self, context: Context, module: ModuleOp) -> None: ...


def operations(module: ModuleOp) -> Iterator[TensorOperation]:
    """The operations of the module's subgraphs, in order; they may be changed during the iteration."""
    for subgraph in module.ops:
        if isinstance(subgraph, SubgraphOp):
            yield from [op for op in subgraph.body.block.ops if isinstance(op, TensorOperation)]


def is_alias(operation: TensorOperation) -> bool:
    """True if the result of an operation is its first operand, byte by byte, so that it needs no code."""
    if operation.dev_info is not None and "in_place" in operation.dev_info.data:
        return True
    if isinstance(operation, ChannelNormOp):
        source, result = operation.operands[0], operation.results[0]
        return readable_as(source.type, result.type, open_axes(source))
    if operation.op == "Transpose" and order_of(operation.operands[0].type) is not order_of(
        operation.results[0].type
    ):
        return True  # the change of order undoes the transposition
    return isinstance(operation, NodeOperation) and LOWERINGS[operation.op].lower is None


def computes(operation: TensorOperation) -> bool:
    """True if an operation needs code."""
    return not isinstance(operation, InputOp | LoadConstOp | OutputOp) and not is_alias(operation)


def main_member(members: Sequence[TensorOperation]) -> TensorOperation:
    """The member that gives a group its name and its lowering: the first that is not a cast."""
    return next((member for member in members if not isinstance(member, CastOp)), members[0])


def phase_names(phases: Sequence[TensorOperation]) -> Iterator[str]:
    """The unique names of the phases, which statistics and reports use.

    A phase has the name of the graph node of its main member. If a pass inserted the operation for this node,
    the operation's name is appended.
    """
    counts, found = Counter[str](), set[str]()
    for operation in phases:
        first = main_member(operation.members) if isinstance(operation, GroupOp) else operation
        name = operation.node.data
        if not isinstance(first, NodeOperation):
            name = f"{name}.{first.name.removeprefix('tx8be.')}"
        counts[name] += 1
        unique = name if counts[name] == 1 else f"{name}.{counts[name]}"
        while unique in found:  # a node has the name of another one with a number
            counts[name] += 1
            unique = f"{name}.{counts[name]}"
        found.add(unique)
        yield unique


def in_storage_order(array: Array, order: Order) -> Array:
    """Return a constant with its axes in the order of DDR."""
    return np.transpose(array, storage_permutation(array.ndim, order))
