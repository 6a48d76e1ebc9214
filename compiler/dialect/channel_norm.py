"""The operation that changes the order of a tensor in DDR."""

from __future__ import annotations

from xdsl.irdl import irdl_op_definition

from .orders import Order
from .tensor import TensorOperation
from .types import blockable, format_of, integers_blockable, order_of, shape_of


@irdl_op_definition
class ChannelNormOp(TensorOperation):
    """Stores a tensor in another order, another float format, or both: the two types say which."""

    name = "tx8be.channel_norm"

    def verify_(self) -> None:
        super().verify_()
        if len(self.operands) != 1 or len(self.results) != 1:
            raise self.refuse(f"{len(self.operands)} operands and {len(self.results)} results, has 1 of each")
        before, after = self.operands[0].type, self.results[0].type
        if shape_of(before) != shape_of(after):
            raise self.refuse(f"shape {list(shape_of(before))} becomes {list(shape_of(after))}")
        formats = format_of(before), format_of(after)
        if formats[0] is not formats[1] and not all(fmt.is_float for fmt in formats):
            raise self.refuse(f"{formats[0].token} becomes {formats[1].token}: only floats are converted")
        for kind in (before, after):
            if order_of(kind) is Order.BLOCKED and not (blockable(kind) or integers_blockable(kind)):
                raise self.refuse(f"{kind} cannot be stored in planes of channels")
