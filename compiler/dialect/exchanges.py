"""Exchanges: the tiles of a mesh send each other parts of a value that stays in their scratchpads.

An exchange is in a group, after the member that makes the value, or its load, and before the members that
need more of the value than a tile has. Operand and result are the same value; their homes tell the parts
that a tile has before and after.
"""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import attr_def, irdl_op_definition

from .homes import Home, HomeAttr
from .tensor import TensorOperation


class ExchangeOperation(TensorOperation):
    """An exchange along the mesh axis ``axis``."""

    axis = attr_def(StringAttr)

    @property
    def kind(self) -> str:
        """The name of the operation without the dialect's prefix."""
        return self.name.removeprefix("tx8be.")

    def homes(self) -> tuple[Home, Home]:
        """Return the homes of the operand and the result.

        VerifyException for homes that no exchange joins.
        """
        if len(self.operands) != 1 or len(self.results) != 1:
            raise self.refuse(f"{len(self.operands)} operands and {len(self.results)} results, has 1 of each")
        if self.operands[0].type != self.results[0].type:
            raise self.refuse("changes the type of its value")
        before, after = home_of(self.operands[0]), home_of(self.results[0])
        if before is None or after is None:
            raise self.refuse("its operand and its result need homes in the scratchpads")
        if self.axis.data not in before.mesh_axes:
            raise self.refuse(f"its operand is not sharded along mesh axis '{self.axis.data}'")
        return before, after


@irdl_op_definition
class AllGatherOp(ExchangeOperation):
    """Every tile receives the shards of all tiles along a mesh axis."""

    name = "tx8be.all_gather"

    def verify_(self) -> None:
        super().verify_()
        before, after = self.homes()
        expected = before.gathered(self.axis.data)
        if after != expected:
            raise self.refuse(
                f"gives {text_of(after)}; gathered along '{self.axis.data}', {text_of(before)} is "
                f"{text_of(expected)}"
            )


@irdl_op_definition
class HaloExchangeOp(ExchangeOperation):
    """Every tile receives the rows of its neighbours, along a mesh axis, that border its own shard."""

    name = "tx8be.halo_exchange"

    def verify_(self) -> None:
        super().verify_()
        before, after = self.homes()
        if before.axes != after.axes or not after.above + after.below:
            raise self.refuse(
                f"makes {text_of(after)} of {text_of(before)}; a halo changes the rows next to a shard"
            )


EXCHANGES: dict[str, type[ExchangeOperation]] = {"all_gather": AllGatherOp, "halo_exchange": HaloExchangeOp}
"""The operations by the kind of exchange."""


def home_of(value: SSAValue) -> Home | None:
    """Return the home of a value inside a group; None for a value in DDR."""
    owner = value.owner
    if not isinstance(owner, TensorOperation) or owner.home is None:
        return None
    return owner.home.data


def text_of(home: Home) -> str:
    """A home as it is printed in the dialect, without the dialect's prefix."""
    return str(HomeAttr(home)).removeprefix("#tx8be.")
