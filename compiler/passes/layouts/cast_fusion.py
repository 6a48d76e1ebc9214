"""Pass ``cast_fusion``: operations that can load or store FP32 take over the casts before and after them.

A cast from FP32 that only such an operation uses, and a cast of its result to FP32, then need no phase. The
same holds if only a change of shape is between them.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.rewriter import Rewriter

from compiler.dialect.ops import CastOp, NodeOperation
from compiler.dialect.types import format_of, order_of, shape_of, tensor_type
from compiler.lowering import LOWERINGS
from compiler.passes.base import Context, is_alias, operations
from tx8isa.numbers.formats import Format


class CastFusionPass:
    """Erases casts from FP32 before operations that load FP32, and casts to FP32 after operations that store
    it."""

    name = "cast_fusion"

    def run(self, context: Context, module: ModuleOp) -> None:
        for operation in list(operations(module)):
            entry = LOWERINGS.get(operation.op)
            if not isinstance(operation, NodeOperation) or entry is None:
                continue
            if entry.takes_fp32:
                _fuse_operands(operation)
            if entry.takes_fp32 or entry.gives_fp32:
                _fuse_result(operation)


def _fuse_operands(operation: NodeOperation) -> None:
    for value in dict.fromkeys(operation.operands):
        shapes: list[OpResult] = []
        cast = value.owner
        user: Operation = operation
        while isinstance(cast, NodeOperation) and is_alias(cast) and _users(cast.results[0]) == {user}:
            shapes.append(cast.results[0])
            user, cast = cast, cast.operands[0].owner
        if not isinstance(cast, CastOp) or _users(cast.results[0]) != {user}:
            continue
        if format_of(cast.operands[0].type) is Format.FP32:
            cast.results[0].replace_all_uses_with(cast.operands[0])
            Rewriter.erase_op(cast)
            _widen(shapes)


def _fuse_result(operation: NodeOperation) -> None:
    values = [operation.results[0]]
    while isinstance(user := _sole_user(values[-1]), NodeOperation) and is_alias(user):
        values.append(user.results[0])
    if isinstance(user, CastOp) and format_of(user.results[0].type) is Format.FP32:
        user.results[0].replace_all_uses_with(values[-1])
        Rewriter.erase_op(user)
        _widen(values)


def _users(value: SSAValue) -> set[Operation]:
    return {use.operation for use in value.uses}


def _sole_user(value: SSAValue) -> Operation | None:
    users = _users(value)
    return users.pop() if len(users) == 1 else None


def _widen(values: list[OpResult]) -> None:
    """Make values FP32."""
    for value in values:
        wide = tensor_type(Format.FP32, shape_of(value.type), order_of(value.type))
        Rewriter.replace_value_with_new_type(value, wide)
