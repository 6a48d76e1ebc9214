"""Pass ``group_load_store``: groups get operations that load their operands and store their result.

Today the pass decides nothing: there is one load for every operand and one store. The lowering of the group
decides in which slices, and when, the data moves.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Attribute, SSAValue, Use
from xdsl.rewriter import Rewriter

from compiler.dialect.ops import GroupOp, LoadConstOp, LoadVarOp, StoreVarOp, TensorOperation
from compiler.passes.base import Context, operations


class GroupLoadStorePass:
    """Inserts load_var and load_const before the members of every group, and store_var after them."""

    name = "group_load_store"

    def run(self, context: Context, module: ModuleOp) -> None:
        for operation in operations(module):
            if isinstance(operation, GroupOp):
                add_moves(operation)


def add_moves(group: GroupOp) -> None:
    """Insert the loads of a group's operands and the store of its result."""
    _load(group)
    _store(group)


def remove_moves(group: GroupOp) -> None:
    """Remove what :func:`add_moves` inserted."""
    for move in [op for op in group.body.block.ops if isinstance(op, LoadVarOp | LoadConstOp | StoreVarOp)]:
        for result in move.results:
            result.replace_all_uses_with(move.operands[0])
        Rewriter.erase_op(move)


def _load(group: GroupOp) -> None:
    block, first = group.body.block, group.members[0]
    for argument, value in zip(list(block.args), group.operands, strict=True):
        kind = LoadConstOp if isinstance(value.owner, LoadConstOp) else LoadVarOp
        made = kind.create(operands=[argument], result_types=[value.type], attributes=_named(value))
        argument.replace_uses_with_if(made.results[0], _others(made))
        block.insert_op_before(made, first)


def _others(made: TensorOperation) -> Callable[[Use], bool]:
    """A predicate for the uses of a value by other operations than ``made``."""
    return lambda use: use.operation is not made


def _store(group: GroupOp) -> None:
    last = group.last
    made = StoreVarOp.create(operands=[last.results[0]], attributes={"node": last.node})
    group.body.block.add_op(made)


def _named(value: SSAValue) -> dict[str, Attribute]:
    """The attribute ``node`` with the name of the operation that makes a value."""
    owner = value.owner
    return {"node": owner.node if isinstance(owner, TensorOperation) else StringAttr("")}
