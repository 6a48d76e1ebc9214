"""The bytes of DDR that a value occupies, after pass ``ddr_reorder`` has placed it.

``dev_info`` of an operation has the symbol of its result (``ddr``), the symbol of the memory that holds it
(``base``, the same symbol if that memory is not shared), and its ``offset`` and ``bytes`` there. If a group
has several results, these keys are for the first result. ``more`` has them for each of the others. With
``in_place`` the operation needs no code: its operands are already in the result's place, or the result is a
part of the operand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, StringAttr, UnitAttr, i64
from xdsl.ir import Attribute, OpResult, SSAValue

from compiler.dialect.tensor import TensorOperation
from tx8isa.numbers.division import round_up
from tx8isa.numbers.limits import CACHE_LINE

VARIABLES = "v.all"
"""The symbol of the memory that is shared by values which are not alive at the same time."""


@dataclass(frozen=True)
class DdrRange:
    """The bytes from offset ``begin`` to before ``end`` of the memory of a symbol."""

    symbol: str
    begin: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.begin

    @property
    def lines(self) -> DdrRange:
        """The whole cache lines of a core that contain a byte of the range; memories begin with a line."""
        end = round_up(self.end, CACHE_LINE)
        return replace(self, begin=self.begin // CACHE_LINE * CACHE_LINE, end=end)

    def overlaps(self, other: DdrRange) -> bool:
        """True if two ranges have a byte in common."""
        return self.symbol == other.symbol and self.begin < other.end and other.begin < self.end


def range_of(value: SSAValue) -> DdrRange:
    """The bytes of a value; ValueError before it is placed."""
    assert isinstance(value, OpResult) and isinstance(value.owner, TensorOperation)
    return result_range(value.owner, value.index)


def result_range(operation: TensorOperation, number: int = 0) -> DdrRange:
    """The bytes of a result of an operation, or of the operand of an output; ValueError before they are
    placed."""
    entries = operation.place(number)
    base, offset, size = (entries.get(name) for name in ("base", "offset", "bytes"))
    if not (
        isinstance(base, StringAttr) and isinstance(offset, IntegerAttr) and isinstance(size, IntegerAttr)
    ):
        raise ValueError(f"{operation.name} of node '{operation.node.data}' has no place in DDR yet")
    return DdrRange(base.data, offset.value.data, offset.value.data + size.value.data)


Place = tuple[str, DdrRange]
"""The symbol of a value, and its bytes."""


def set_ranges(operation: TensorOperation, places: Sequence[Place], in_place: bool = False) -> None:
    """Write the places of an operation's results, or of the operand of an output, into its dev_info."""
    first, *others = map(_entries, places)
    if others:
        first["more"] = ArrayAttr(map(DictionaryAttr, others))
    if in_place:
        first["in_place"] = UnitAttr()
    operation.attributes["dev_info"] = DictionaryAttr(first)


def _entries(place: Place) -> dict[str, Attribute]:
    symbol, ddr_range = place
    return {
        "ddr": StringAttr(symbol),
        "base": StringAttr(ddr_range.symbol),
        "offset": IntegerAttr(ddr_range.begin, i64),
        "bytes": IntegerAttr(ddr_range.size, i64),
    }
