"""What passes share: the interface, and what they know besides the module."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from compiler.codegen.kernel import Constant, Scratch
from compiler.dialect.ops import NodeOperation, SubgraphOp, TensorOperation
from compiler.dialect.types import order_of, shape_of, storage_permutation
from compiler.graph import Array, Graph, Node
from compiler.lowering import LOWERINGS
from compiler.lowering.record import Order
from tx8isa.formats import Format
from tx8isa.machine import Machine


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

    def node(self, operation: TensorOperation) -> Node:
        """The graph node an operation stands for."""
        name = operation.node.data
        return next(node for node in self.graph.nodes if node.name == name)


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
    if operation.perm is not None:
        before = operation.operands[0].type
        order = storage_permutation(len(shape_of(before)), order_of(before))
        shape = [shape_of(before)[axis] for axis in order]
        moved = [axis for axis in operation.perm.get_values() if shape[axis] != 1]
        return moved == sorted(moved)
    return isinstance(operation, NodeOperation) and LOWERINGS[operation.op].lower is None


def in_storage_order(array: Array, order: Order) -> Array:
    """A constant with its axes in the order in which it lies in DDR."""
    return np.transpose(array, storage_permutation(array.ndim, order))
