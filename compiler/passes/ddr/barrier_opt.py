"""Pass ``barrier_opt``: phases that must wait for all tiles are marked with a barrier.

A phase has to wait if it reads bytes of DDR that were written since the last barrier, or writes bytes that
were read or written since then. Tiles may still be executing earlier phases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import SSAValue

from compiler.dialect.ops import ControlOperation, InputOp, TensorOperation
from compiler.passes.base import Context, computes, operations
from compiler.passes.groups.views import on_core

from .placement import DdrRange, range_of


class BarrierOptPass:
    """Sets the attribute ``barrier`` of operations."""

    name = "barrier_opt"

    def run(self, context: Context, module: ModuleOp) -> None:
        phases = [operation for operation in operations(module) if computes(operation)]
        accesses = (accesses_of(context, phase, range_of) for phase in phases)
        for phase, waits in zip(phases, barriers(accesses, _condition(context, module)), strict=True):
            if waits or isinstance(phase, ControlOperation):
                phase.attributes["barrier"] = UnitAttr()


def _condition(context: Context, module: ModuleOp) -> list[DdrRange]:
    """The condition of a loop, which tiles may still be reading when a step begins."""
    if not context.conditional:
        return []
    keep = context.graph.states[0][0]
    inputs = (each for each in operations(module) if isinstance(each, InputOp))
    return [range_of(each.results[0]) for each in inputs if each.node.data == keep]


Accesses = tuple[list[DdrRange], list[DdrRange]]
"""The ranges that a phase reads, and the ranges that it writes."""


def accesses_of(
    context: Context, operation: TensorOperation, place: Callable[[SSAValue], DdrRange]
) -> Accesses:
    """The DDR ranges that an operation reads and writes; the kernel core writes whole lines of its cache."""
    writes = [place(value) for value in operation.results]
    if on_core(context, operation):
        writes = [each.lines for each in writes]
    return [place(value) for value in operation.operands], writes


def barriers(phases: Iterable[Accesses], before: Iterable[DdrRange] = ()) -> Iterator[bool]:
    """For each phase, True if it has to wait; ``before`` are ranges that were read since the last barrier."""
    read = list(before)
    written: list[DdrRange] = []
    for reads, writes in phases:
        waits = _overlap(reads, written) or _overlap(writes, [*read, *written])
        if waits:
            read, written = [], []
        read += reads
        written += writes
        yield waits


def _overlap(some: Iterable[DdrRange], others: Iterable[DdrRange]) -> bool:
    """True if two lists of ranges have a byte in common."""
    others = list(others)
    return any(one.overlaps(other) for one in some for other in others)


def settled_operands(module: ModuleOp) -> Iterator[tuple[TensorOperation, list[SSAValue]]]:
    """The operations that need code, each with its settled operands.

    An operand is settled if no phase between the last barrier and the operation has written it. Such an
    operand can be loaded before the tiles meet at the operation's own barrier.
    """
    written: list[DdrRange] = []
    for operation in operations(module):
        if computes(operation):
            settled = [value for value in operation.operands if not _overlap([range_of(value)], written)]
            yield operation, settled
            if operation.barrier is not None:
                written = []
            written += [range_of(value) for value in operation.results]
