"""Finds the dynamic extents of a value, from the attribute ``sizes`` of the operation that makes it."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import BlockArgument, OpResult, SSAValue

from .group import before_exchanges
from .ops import GroupOp, NodeOperation
from .tensor import TensorOperation


def formula_texts(value: SSAValue) -> tuple[str, ...] | None:
    """Return the formulas of a value's extents as text; None if no extent is dynamic."""
    while True:
        value = before_exchanges(value)
        if isinstance(value, BlockArgument):
            group = value.block.parent_op()
            assert isinstance(group, GroupOp)
            value = group.operands[value.index]
            continue
        owner = value.owner
        if not isinstance(owner, TensorOperation) or not isinstance(value, OpResult):
            return None
        if isinstance(owner, GroupOp):
            value = owner.made[value.index]
        elif owner.sizes is not None:
            texts = owner.sizes.data[value.index]
            assert isinstance(texts, ArrayAttr)
            return tuple(text.data for text in texts if isinstance(text, StringAttr))
        elif isinstance(owner, NodeOperation) or not owner.operands:
            return None
        else:  # an operation that a pass inserted does not change the shape
            value = owner.operands[0]


def open_axes(value: SSAValue) -> frozenset[int]:
    """Return the axes with dynamic extents; the type of the value has the usual ones."""
    texts = formula_texts(value) or ()
    return frozenset(axis for axis, text in enumerate(texts) if not text.isdigit())
