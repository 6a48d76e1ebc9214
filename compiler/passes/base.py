"""What passes share: the interface, and what they know besides the module."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from compiler.codegen.kernel import Constant, Scratch
from compiler.dialect.ops import (
    CastOp,
    ChannelNormOp,
    InputOp,
    LoadConstOp,
    NodeOperation,
    OutputOp,
    SubgraphOp,
    TensorOperation,
)
from compiler.dialect.orders import Order
from compiler.dialect.types import lies_alike, order_of, storage_permutation
from compiler.graph import Array, Graph
from compiler.lowering import LOWERINGS
from compiler.patterns import Trie
from compiler.search import EFFORTS, Effort, Found, Plan, Template, Watch
from tx8isa.machine.description import Machine
from tx8isa.numbers.formats import Format


@dataclass
class Context:
    """A compilation: what is compiled for what, and what the passes leave for the driver.

    ``constants`` holds the data of load_const operations by name, in the order of axes that their type says;
    ``phases`` the assembly text of each operation, ``data`` what the phases keep in DDR.
    """

    graph: Graph
    machine: Machine
    tiles: int
    compute: Format
    constants: dict[str, Array] = field(default_factory=dict)
    phases: list[tuple[str, list[str]]] = field(default_factory=list)
    data: list[Constant | Scratch] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    """Symbols that the phases refer to."""
    patterns: Trie | None = None
    """What shall run in one phase; None: every operation in its own."""
    effort: Effort = EFFORTS["off"]
    plan: Plan | None = None
    """Decisions that take the place of the search."""
    watch: Watch | None = None
    """Hears how far the search is."""
    templates: list[Template] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    """What was decided for each template; empty without search."""
    others: list[tuple[Template, Found]] = field(default_factory=list)
    """Stacks that were not made, and templates of groups that went into stacks."""


class Pass(Protocol):
    """One step of the pipeline; it may assume a verified module and must leave one."""

    name: str

    def run(self, context: Context, module: ModuleOp) -> None: ...


def operations(module: ModuleOp) -> Iterator[TensorOperation]:
    """The operations of the module's subgraphs, in order; the list may be changed while it is walked."""
    for subgraph in module.ops:
        if isinstance(subgraph, SubgraphOp):
            yield from [op for op in subgraph.body.block.ops if isinstance(op, TensorOperation)]


def is_alias(operation: TensorOperation) -> bool:
    """Whether the result of an operation has the bytes of its first operand."""
    if operation.dev_info is not None and "in_place" in operation.dev_info.data:
        return True
    if isinstance(operation, ChannelNormOp):
        return lies_alike(operation.operands[0].type, operation.results[0].type)
    if operation.op == "Transpose" and order_of(operation.operands[0].type) is not order_of(
        operation.results[0].type
    ):
        return True  # the orders differ by what it moves
    return isinstance(operation, NodeOperation) and LOWERINGS[operation.op].lower is None


def computes(operation: TensorOperation) -> bool:
    """Whether an operation needs code."""
    return not isinstance(operation, InputOp | LoadConstOp | OutputOp) and not is_alias(operation)


def main_member(members: Sequence[TensorOperation]) -> TensorOperation:
    """The member that gives a group its name and its lowering: the first that is no cast."""
    return next((member for member in members if not isinstance(member, CastOp)), members[0])


def in_storage_order(array: Array, order: Order) -> Array:
    """A constant with its axes in the order in which it lies in DDR."""
    return np.transpose(array, storage_permutation(array.ndim, order))
