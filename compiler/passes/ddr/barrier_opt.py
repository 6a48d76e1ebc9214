"""Pass ``barrier_opt``: which phases begin by waiting for all tiles.

A phase has to wait when it reads bytes of DDR that were written since the last barrier, and when it writes
some that were read or written since: tiles that are still in an earlier phase would see them change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import SSAValue

from compiler.dialect.ops import TensorOperation
from compiler.passes.base import Context, computes, operations

from .ddr_range import Range, range_of


class BarrierOptPass:
    """Sets the barrier flag of operations."""

    name = "barrier_opt"

    def run(self, context: Context, module: ModuleOp) -> None:
        read: list[Range] = []
        written: list[Range] = []
        for operation in operations(module):
            if not computes(operation):
                continue
            reads = [range_of(value) for value in operation.operands]
            writes = [range_of(value) for value in operation.results]
            if _meet(reads, written) or _meet(writes, [*read, *written]):
                operation.attributes["barrier"] = UnitAttr()
                read, written = [], []
            read += reads
            written += writes


def _meet(some: Iterable[Range], others: Iterable[Range]) -> bool:
    """Whether two lists of ranges have a byte in common."""
    others = list(others)
    return any(one.meets(other) for one in some for other in others)


def settled_operands(module: ModuleOp) -> Iterator[tuple[TensorOperation, list[SSAValue]]]:
    """The operations that need code, each with those operands that were complete before its barrier, or that
    need none: what earlier operations wrote, up to the barrier before."""
    written: list[Range] = []
    for operation in operations(module):
        if computes(operation):
            yield operation, [value for value in operation.operands if not _meet([range_of(value)], written)]
            if operation.barrier is not None:
                written = []
            written += [range_of(value) for value in operation.results]
