"""Instructions of two operands. The second one may repeat: a number, a row, a column."""

from __future__ import annotations

import math

from compiler.codegen.slices.vector import Vector
from compiler.frontend.triton.kernels.values import Splat, SpmBlock
from tx8isa.numbers.limits import LARGEST_UNIT, MOST_MOVES

from .blocks import BlockCode

Number = SpmBlock | Splat


class ArithmeticCode:
    """Writes instructions of two operands with the blocks of a kernel."""

    def __init__(self, blocks: BlockCode) -> None:
        self.blocks, self.kernel = blocks, blocks.kernel

    def apply(self, name: str, target: SpmBlock, a: SpmBlock, b: Number) -> None:
        """Write target = a name b, where ``a`` has all elements of the target."""
        vector = Vector(self.kernel, a.fmt, target.count)
        if isinstance(b, Splat):
            vector.vs(name, target.address, a.address, b.number)
        elif b.kept == target.kept:
            vector.vv(name, target.address, a.address, b.address)
        elif unit := self._unit(b, target):
            vector.vuv(name, target.address, a.address, b.address, unit)
        elif target.blocked:
            self._apply_in_planes(name, target, a, b)
        elif self._repeats_in_rows(b, target):
            narrow = self.blocks.repeated(b, LARGEST_UNIT)
            self._apply_in_turns(name, target, a, narrow, target.kept[-1], narrow.count)
        else:
            whole = self.blocks.spread(b, target.stored)
            vector.vv(name, target.address, a.address, whole.address)

    def _apply_in_planes(self, name: str, target: SpmBlock, a: SpmBlock, b: SpmBlock) -> None:
        """Write the operation in planes of 64 columns, with a row, or a column repeated in each row."""
        rows, columns = target.shape
        plane = rows * LARGEST_UNIT
        if b.kept == (1, columns):
            self._apply_in_turns(name, target, a, b, plane, columns)
            return
        narrow = self.blocks.repeated(b, LARGEST_UNIT)
        vector = Vector(self.kernel, a.fmt, plane)
        for first in range(0, target.count * target.size, plane * target.size):
            vector.vv(name, target.address + first, a.address + first, narrow.address)

    def _apply_in_turns(
        self, name: str, target: SpmBlock, a: SpmBlock, b: SpmBlock, length: int, elements: int
    ) -> None:
        """Write the operation; after ``length`` elements of ``a`` it takes the next 64 elements of ``b``."""
        self.kernel.emit(
            f"ct.{name}.vuv_loop.{a.fmt.token}",
            dst=target.address,
            src0=a.address,
            src1=b.address,
            n=length,
            unit=LARGEST_UNIT,
            full=target.count,
            full_unit=elements,
        )

    def _unit(self, operand: SpmBlock, like: SpmBlock) -> int:
        """Return the length of an operand that an instruction can repeat over ``like``; 0 if it cannot."""
        if operand.count == 1:
            return 1
        rank = len(like.shape)
        first = next(axis for axis in range(rank) if operand.kept[axis] > 1)
        same = operand.kept[first:] == like.kept[first:]
        return operand.count if same and operand.count <= LARGEST_UNIT and not like.blocked else 0

    def _repeats_in_rows(self, operand: SpmBlock, like: SpmBlock) -> bool:
        """Return True if an operand has one number per row of ``like``, whose length suits the loop form."""
        rows = (*like.kept[:-1], 1)
        whole = like.kept[-1] % LARGEST_UNIT == 0 and not like.blocked
        return whole and operand.kept == rows and math.prod(rows) <= MOST_MOVES
