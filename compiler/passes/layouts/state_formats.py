"""States and replaceable constants that only pass through a cast are stored in the format of the computation.

The program then casts none of them. The numbers stay the same, since a number that was rounded to a format
survives a cast to FP32 and back.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from compiler.dialect.ops import CastOp, InputOp, OutputOp
from compiler.dialect.types import format_of, order_of, shape_of, tensor_type
from compiler.passes.base import Context, operations
from tx8isa.numbers.formats import Format

_STORED = (Format.FP16, Format.BF16)
"""Formats that hosts round to as the chip does when they fill a buffer."""


def store_as_computed(context: Context, module: ModuleOp) -> None:
    """Give states and replaceable constants the format of the casts around them."""
    inputs = {each.node.data: each for each in operations(module) if isinstance(each, InputOp)}
    for name in context.replaceable:
        value = inputs[name].results[0] if name in inputs else None
        fmt = None if value is None else _cast_to(value)
        if value is not None and fmt is not None:
            _store(value, fmt)
    for operation in list(operations(module)):
        if isinstance(operation, OutputOp) and operation.state is not None:
            past = inputs[operation.state.data].results[0]
            fmt = _computed_in(past, operation)
            if fmt is not None:
                _retype(past, operation, fmt)


def _computed_in(past: SSAValue, present: OutputOp) -> Format | None:
    """The format to which all users cast the old value, and from which the new value is cast."""
    cast = present.operands[0].owner
    if not isinstance(cast, CastOp) or format_of(past.type) is not Format.FP32:
        return None
    fmt = format_of(cast.operands[0].type)
    return fmt if fmt in _STORED and (not past.uses or _cast_to(past) is fmt) else None


def _cast_to(value: SSAValue) -> Format | None:
    """The format to which all users of an FP32 value cast it, if hosts round to it."""
    users = [use.operation for use in value.uses]
    formats = {format_of(user.results[0].type) if isinstance(user, CastOp) else None for user in users}
    fmt = formats.pop() if len(formats) == 1 and format_of(value.type) is Format.FP32 else None
    return fmt if fmt in _STORED else None


def _retype(past: SSAValue, present: OutputOp, fmt: Format) -> None:
    """Change the format of a state and erase its casts, except those that other outputs need."""
    after = present.operands[0].owner
    assert isinstance(after, CastOp)
    present.operands[0] = after.operands[0]
    if not after.results[0].uses:
        Rewriter.erase_op(after)
    _store(past, fmt)


def _store(value: SSAValue, fmt: Format) -> None:
    """Change the format of an input and erase the casts to it."""
    kind = tensor_type(fmt, shape_of(value.type), order_of(value.type))
    stored = Rewriter.replace_value_with_new_type(value, kind)
    for use in list(stored.uses):
        if isinstance(use.operation, CastOp):
            use.operation.results[0].replace_all_uses_with(stored)
            Rewriter.erase_op(use.operation)
