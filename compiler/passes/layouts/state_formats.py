"""States whose values only pass through a cast are stored in the format of the computation.

The program then moves none of their bytes. The numbers stay the same: what was rounded to a format is not
changed by becoming FP32 and being rounded to it again.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from compiler.dialect.ops import CastOp, InputOp, OutputOp
from compiler.dialect.types import format_of, order_of, shape_of, tensor_type
from compiler.passes.base import operations
from tx8isa.numbers.formats import Format

_STORED = (Format.FP16, Format.BF16)
"""Formats that hosts round to as the chip does when they fill a buffer."""


def store_as_computed(module: ModuleOp) -> None:
    """Give inputs and outputs that are states the format of the casts around them."""
    inputs = {each.node.data: each for each in operations(module) if isinstance(each, InputOp)}
    for operation in list(operations(module)):
        if isinstance(operation, OutputOp) and operation.state is not None:
            past = inputs[operation.state.data].results[0]
            fmt = _computed_in(past, operation)
            if fmt is not None:
                _retype(past, operation, fmt)


def _computed_in(past: SSAValue, present: OutputOp) -> Format | None:
    """The format to which all that uses the old value casts it, and from which the new one comes."""
    cast = present.operands[0].owner
    users = [use.operation for use in past.uses]
    if not isinstance(cast, CastOp) or format_of(past.type) is not Format.FP32:
        return None
    fmt = format_of(cast.operands[0].type)
    kept = all(isinstance(user, CastOp) and format_of(user.results[0].type) is fmt for user in users)
    return fmt if kept and fmt in _STORED else None


def _retype(past: SSAValue, present: OutputOp, fmt: Format) -> None:
    """Change the format of a state and erase its casts, except for what other outputs need."""
    after = present.operands[0].owner
    assert isinstance(after, CastOp)
    present.operands[0] = after.operands[0]
    if not after.results[0].uses:
        Rewriter.erase_op(after)
    kind = tensor_type(fmt, shape_of(past.type), order_of(past.type))
    stored = Rewriter.replace_value_with_new_type(past, kind)
    for use in list(stored.uses):
        if isinstance(use.operation, CastOp):
            use.operation.results[0].replace_all_uses_with(stored)
            Rewriter.erase_op(use.operation)
