"""What the group passes share: which operations may run in one phase, and how groups are made and taken
apart."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from compiler.dialect.group import new_group
from compiler.dialect.ops import CastOp, GroupOp, NodeOperation, TensorOperation
from compiler.dialect.types import format_of, order_of, shape_of
from compiler.lowering import LOWERINGS
from compiler.lowering.pointwise.chain import chainable
from compiler.lowering.pointwise.pointwise import fusable
from compiler.passes.base import Context, main_member
from compiler.passes.work import call_of, operand_positions, tensor_of

Members = list[TensorOperation]

LONGEST_CHAIN = 24
"""Members and inputs of a group that has no anchor: every value takes scratchpad bytes of its own."""


def is_anchor(operation: TensorOperation) -> bool:
    """Whether an operation can apply steps to its result."""
    entry = LOWERINGS.get(operation.op)
    return entry is not None and entry.anchor


def sole_user(value: SSAValue) -> TensorOperation | None:
    """The only operation that uses a value, however often."""
    users = {use.operation for use in value.uses}
    user = users.pop() if len(users) == 1 else None
    return user if isinstance(user, TensorOperation) else None


class Fusion:
    """Which operations can follow which without leaving the scratchpad."""

    def __init__(self, context: Context) -> None:
        self.context = context

    def is_pointwise(self, operation: TensorOperation) -> bool:
        """Whether an operation can be a member of a chain."""
        if isinstance(operation, CastOp):
            return chainable(operation.op, None)
        return isinstance(operation, NodeOperation) and chainable(
            operation.op, call_of(self.context, operation)
        )

    def is_step(self, operation: TensorOperation, running: SSAValue) -> bool:
        """Whether an operation can be a step on a value that an anchor computes."""
        if not isinstance(operation, NodeOperation) or not _alike(operation.results[0], running):
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
        """Whether two groups of pointwise operations can be one."""
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


def _alike(value: SSAValue, other: SSAValue) -> bool:
    """Whether two values have one shape, order and format."""
    return _shape(value) == _shape(other) and format_of(value.type) is format_of(other.type)


def _same_order(value: SSAValue, running: SSAValue) -> bool:
    """Whether the axes of an operand stand as those of the running value, as far as it has any."""
    return len([n for n in shape_of(value.type) if n != 1]) < 2 or order_of(value.type) is order_of(
        running.type
    )


def group(members: Members, tag: str) -> GroupOp:
    """Put operations of one block into a group, where the last of them stands.

    What they use must come before the last; nothing but the last may be used outside.
    """
    block, following = members[-1].parent_block(), members[-1].next_op
    assert block is not None
    result = members[-1].results[0]
    for member in members:
        block.detach_op(member)
    made = new_group(members, main_member(members).node, tag, outside_values(members))
    result.replace_uses_with_if(made.results[0], lambda use: use.operation not in members)
    if following is None:
        block.add_op(made)
    else:
        block.insert_op_before(made, following)
    return made


def outside_values(members: Sequence[TensorOperation]) -> list[SSAValue]:
    """What operations use and do not compute, in order of use, each once."""
    inner = {value for member in members for value in member.results}
    used = (value for member in members for value in member.operands)
    return list(dict.fromkeys(value for value in used if value not in inner))


def dissolve(operation: GroupOp) -> Members:
    """Put the members of a group where the group stands."""
    members = operation.members
    block = operation.parent_block()
    assert block is not None
    for argument, value in zip(list(operation.body.block.args), operation.operands, strict=True):
        argument.replace_all_uses_with(value)
    for member in members:
        operation.body.block.detach_op(member)
        block.insert_op_before(member, operation)
    operation.results[0].replace_all_uses_with(members[-1].results[0])
    Rewriter.erase_op(operation)
    return members
