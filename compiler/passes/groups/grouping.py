"""Rules that decide which operations may run in one phase.

Creation and dissolution of groups, for the group passes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from compiler.dialect.group import new_group
from compiler.dialect.ops import CastOp, GroupOp, NodeOperation, TensorOperation
from compiler.dialect.sizes import open_axes
from compiler.dialect.types import format_of, order_of, shape_of
from compiler.lowering import LOWERINGS
from compiler.lowering.pointwise.chain import chainable
from compiler.lowering.pointwise.epilogue import fusable
from compiler.passes.base import Context, main_member
from compiler.passes.work import call_of, operand_positions, tensor_of

Members = list[TensorOperation]

LONGEST_CHAIN = 24
"""Most members, and most inputs, of a group without anchor: each value needs scratchpad bytes of its own."""


def is_anchor(operation: TensorOperation) -> bool:
    """True if an operation can apply steps to its result."""
    entry = LOWERINGS.get(operation.op)
    return entry is not None and entry.anchor


def sole_user(value: SSAValue) -> TensorOperation | None:
    """The operation that alone uses a value, once or several times; None if there is no such operation."""
    users = {use.operation for use in value.uses}
    user = users.pop() if len(users) == 1 else None
    return user if isinstance(user, TensorOperation) else None


class Fusion:
    """Decides which operations can follow others without a store to DDR between them."""

    def __init__(self, context: Context) -> None:
        self.context = context

    def is_pointwise(self, operation: TensorOperation) -> bool:
        """True if an operation can be a member of a chain."""
        if isinstance(operation, CastOp):
            return chainable(operation.op, None)
        return isinstance(operation, NodeOperation) and chainable(
            operation.op, call_of(self.context, operation)
        )

    def is_step(self, operation: TensorOperation, running: SSAValue) -> bool:
        """True if an operation can be a step that is applied to the value ``running`` of an anchor."""
        if not isinstance(operation, NodeOperation) or not _same_type(operation.results[0], running):
            return False
        others: list[SSAValue | None] = [None] * len(operation.operands)
        for at, value in zip(operand_positions(operation), operation.operands, strict=True):
            others += [None] * (at + 1 - len(others))
            others[at] = None if value is running else value
        if any(value is not None and not _same_order(value, running) for value in others):
            return False
        tensors = [None if value is None else tensor_of(self.context, value, "") for value in others]
        call = call_of(self.context, operation)
        return fusable(operation.op, call, tensors, tensor_of(self.context, running, ""))

    def joins(self, members: Members, more: Members) -> bool:
        """True if the pointwise operations of two groups can be one group."""
        together = [*members, *more]
        shape = _shape(together[-1].results[0])
        inner = {value for member in together for value in member.results}
        inputs = {value for member in together for value in member.operands} - inner
        return (
            max(len(together), len(inputs)) <= LONGEST_CHAIN
            and all(self.is_pointwise(member) for member in together)
            and all(_shape(member.results[0]) == shape for member in together)
        )


def _shape(value: SSAValue) -> tuple[object, object]:
    return shape_of(value.type), order_of(value.type)


def _same_type(value: SSAValue, other: SSAValue) -> bool:
    """True if two values have the same shape, order and format."""
    return _shape(value) == _shape(other) and format_of(value.type) is format_of(other.type)


def _same_order(value: SSAValue, running: SSAValue) -> bool:
    """True if an operand has its axes in the order of the running value, or has at most one axis."""
    axes = open_axes(value)
    long = [axis for axis, extent in enumerate(shape_of(value.type)) if extent != 1 or axis in axes]
    return len(long) < 2 or order_of(value.type) is order_of(running.type)


def group(members: Members, tag: str) -> GroupOp:
    """Replace operations of one block by a group, at the place of the last of them.

    The values that they use must be computed before the last one. The results of the group are the values
    that other operations use, and the value of the last member.
    """
    block, following = members[-1].parent_block(), members[-1].next_op
    assert block is not None
    inside = set(members)
    results_at = [at for at, member in enumerate(members[:-1]) if _is_used_outside(member, inside)]
    for member in members:
        block.detach_op(member)
    numbers = [*results_at, len(members) - 1] if results_at else ()
    made = new_group(members, main_member(members).node, tag, outside_values(members), numbers)
    for value, result in zip(made.made, made.results, strict=True):
        value.replace_uses_with_if(result, lambda use: use.operation not in inside)
    if following is None:
        block.add_op(made)
    else:
        block.insert_op_before(made, following)
    return made


def _is_used_outside(member: TensorOperation, inside: Collection[Operation]) -> bool:
    return any(use.operation not in inside for result in member.results for use in result.uses)


def outside_values(members: Sequence[TensorOperation]) -> list[SSAValue]:
    """The values that operations use and do not compute themselves, in order of use, each once."""
    inner = {value for member in members for value in member.results}
    used = (value for member in members for value in member.operands)
    return list(dict.fromkeys(value for value in used if value not in inner))


def dissolve(operation: GroupOp) -> Members:
    """Replace a group by its members, which are returned."""
    members, made = operation.members, operation.made
    block = operation.parent_block()
    assert block is not None
    for argument, value in zip(list(operation.body.block.args), operation.operands, strict=True):
        argument.replace_all_uses_with(value)
    for member in members:
        operation.body.block.detach_op(member)
        block.insert_op_before(member, operation)
    for result, value in zip(operation.results, made, strict=True):
        result.replace_all_uses_with(value)
    Rewriter.erase_op(operation)
    return members
