"""Pass ``group_order``: groups that do not depend on each other are placed together and share a barrier.

The layer of an operation is the number of phases in the longest chain of phases that it waits for. Operations
are sorted by layers and keep their order within a layer; one barrier between two layers is enough.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from compiler.dialect.ops import SubgraphOp, TensorOperation
from compiler.passes.base import Context, computes


class GroupOrderPass:
    """Reorders the operations of every subgraph."""

    name = "group_order"

    def run(self, context: Context, module: ModuleOp) -> None:
        for subgraph in module.ops:
            if isinstance(subgraph, SubgraphOp):
                _sort(subgraph)


def _sort(subgraph: SubgraphOp) -> None:
    block = subgraph.body.block
    found = [op for op in block.ops if isinstance(op, TensorOperation)]
    layer = layers(found)
    for operation in found:
        block.detach_op(operation)
    ordered = sorted(found, key=layer.__getitem__)
    block.add_ops(ordered)


def layers(found: list[TensorOperation]) -> dict[TensorOperation, int]:
    """The layer of each of these operations, which are in the order of a block."""
    ready: dict[SSAValue, int] = {}
    layer = {}
    for operation in found:
        layer[operation] = max((ready[value] for value in operation.operands), default=0)
        for result in operation.results:
            ready[result] = layer[operation] + computes(operation)
    return layer
