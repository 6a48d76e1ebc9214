"""Which bytes of DDR a value occupies, once ``ddr_reorder`` has given it a place.

``dev_info`` of an operation has the symbol of its result (``ddr``), the symbol of the memory it lies in
(``base``; its own if it has memory for itself), and its ``offset`` and ``bytes`` there; ``mem_layout`` is the
layout that engines read there (docs/isa.md, Layouts). With ``in_place`` the operation has nothing to do: its
operands lie where the result shall be, or the result is part of the operand.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, StringAttr, UnitAttr, i64
from xdsl.ir import Attribute, SSAValue

from compiler.dialect.tensor import TensorOperation
from compiler.dialect.types import mem_layout

VARIABLES = "v.all"
"""The memory that values share which are not needed at the same time."""


@dataclass(frozen=True)
class Range:
    """The bytes from ``begin`` to before ``end`` behind a symbol."""

    symbol: str
    begin: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.begin

    def meets(self, other: Range) -> bool:
        """Whether two ranges have a byte in common."""
        return self.symbol == other.symbol and self.begin < other.end and other.begin < self.end


def range_of(value: SSAValue) -> Range:
    """Where a value lies; ValueError before it has a place."""
    assert isinstance(value.owner, TensorOperation)
    return place_of(value.owner)


def place_of(operation: TensorOperation) -> Range:
    """Where the result of an operation lies; ValueError before it has a place."""
    entries = operation.dev_info.data if operation.dev_info is not None else {}
    base, offset, size = (entries.get(name) for name in ("base", "offset", "bytes"))
    if not (
        isinstance(base, StringAttr) and isinstance(offset, IntegerAttr) and isinstance(size, IntegerAttr)
    ):
        raise ValueError(f"{operation.name} of node '{operation.node.data}' has no place in DDR yet")
    return Range(base.data, offset.value.data, offset.value.data + size.value.data)


def set_place(operation: TensorOperation, symbol: str, place: Range, in_place: bool = False) -> None:
    """Write the place of an operation's result, or of what a graph output is, into its dev_info."""
    (value, *_) = operation.results or operation.operands
    entries: dict[str, Attribute] = {
        "ddr": StringAttr(symbol),
        "base": StringAttr(place.symbol),
        "offset": IntegerAttr(place.begin, i64),
        "bytes": IntegerAttr(place.size, i64),
        "mem_layout": StringAttr(mem_layout(value.type).token),
    }
    if in_place:
        entries["in_place"] = UnitAttr()
    operation.attributes["dev_info"] = DictionaryAttr(entries)
