"""Pass ``move_const``: equal constants become one, and all constants move to the head of the operations.

Constants of at least one DDR bank (4 KiB) per tile come first, the largest in front: each of them begins at a
bank.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute
from xdsl.rewriter import InsertPoint, Rewriter

from compiler.codegen.program import same_bits, sample
from compiler.dialect.ops import LoadConstOp, SubgraphOp
from compiler.dialect.types import stored_bytes
from compiler.passes.base import Context


class MoveConstPass:
    """Merges equal constants and sorts them."""

    name = "move_const"

    def run(self, context: Context, module: ModuleOp) -> None:
        for subgraph in module.ops:
            if isinstance(subgraph, SubgraphOp):
                _move(context, subgraph)


def _move(context: Context, subgraph: SubgraphOp) -> None:
    block = subgraph.body.block
    kept: dict[tuple[Attribute, bytes], list[LoadConstOp]] = {}
    for operation in [op for op in block.ops if isinstance(op, LoadConstOp)]:
        data = context.constants[operation.node.data]
        similar = kept.setdefault((operation.results[0].type, sample(data)), [])
        first = next((op for op in similar if same_bits(context.constants[op.node.data], data)), None)
        if first is None:
            similar.append(operation)
        else:
            operation.results[0].replace_all_uses_with(first.results[0])
            Rewriter.erase_op(operation)
    large = bank_threshold(context)
    found = [op for op in block.ops if isinstance(op, LoadConstOp)]
    ordered = sorted(found, key=lambda op: -size if (size := _size(op)) >= large else 0)
    for operation in reversed(ordered):
        block.detach_op(operation)
        Rewriter().insert_op(operation, InsertPoint.at_start(block))


def bank_threshold(context: Context) -> int:
    """Size in bytes from which a constant begins at a DDR bank: one bank for every tile."""
    return context.machine.ddr.bank_bytes * context.tiles


def _size(operation: LoadConstOp) -> int:
    return stored_bytes(operation.results[0].type)
