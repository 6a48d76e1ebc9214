"""Values of a stack in the scratchpad, and the rows of them that a block needs."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.codegen.expr import Value, maximum, minimum
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.aligned import Aligned, Grid, slice_buffer
from compiler.codegen.slices.shards import within
from compiler.codegen.slices.tensors import BLOCK
from compiler.codegen.slices.vector import WIDE, Vector, convert
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import aligned_channels

from .stages import NeededRows


@dataclass(frozen=True)
class StackBlock:
    """Rows of the result that are computed at a time: ``count`` of an image from ``begin``, at most
    ``most``."""

    image: Value
    begin: Value
    count: Value
    most: int

    def first(self, rows: NeededRows) -> Value:
        """The first row of a value that the block needs."""
        low = self.begin * rows.step + rows.low
        return minimum(maximum(low, 0), rows.limit - 1)

    def grid(self, kernel: Kernel, rows: NeededRows, first: Value, width: int) -> Grid:
        """The positions of those rows, ``first`` the first of them."""
        most = rows.most(self.most)
        if rows.high == rows.low == 0 and rows.step == 1:
            return Grid(self.count, width, most)
        last = (self.begin + self.count - 1) * rows.step + rows.high
        height = minimum(last + 1, rows.limit) - first
        return Grid(kernel.let(within(height, 1, most)), width, most)


@dataclass(frozen=True)
class Held:
    """The rows of a value that are in the scratchpad; ``width`` positions each."""

    rows: NeededRows
    base: Value
    fmt: Format
    channels: int
    width: int

    def whole(self, kernel: Kernel, block: StackBlock) -> Aligned:
        """All rows of the value."""
        first = block.first(self.rows)
        return Aligned(self.base, self.fmt, block.grid(kernel, self.rows, first, self.width), self.channels)

    def view(self, kernel: Kernel, block: StackBlock, wanted: NeededRows, grid: Grid) -> Aligned | None:
        """A slice of the wanted rows in place; None if they are not contiguous but a part of each plane."""
        if self.rows == wanted:
            return Aligned(self.base, self.fmt, grid, self.channels)
        if self.channels > BLOCK:
            return None
        size = self.width * aligned_channels(self.channels, BLOCK) * self.fmt.bits // 8
        place = self.base + self._skipped(block, wanted) * size
        return Aligned(place, self.fmt, grid, self.channels)

    def _skipped(self, block: StackBlock, wanted: NeededRows) -> Value:
        """Rows before the wanted ones."""
        skipped = block.first(wanted) - block.first(self.rows)
        return within(skipped, 0, self.rows.most(block.most) - 1)

    def copy(self, kernel: Kernel, block: StackBlock, wanted: NeededRows, grid: Grid, fmt: Format) -> Aligned:
        """Copy the wanted rows to a new buffer, in their format or in FP32."""
        source = self.whole(kernel, block)
        target = slice_buffer(kernel, "rows", fmt, grid, self.channels)
        if self.rows == wanted:
            move(kernel, source, target)
            return target
        skipped = kernel.let(self._skipped(block, wanted) * self.width)
        for index, width in enumerate([BLOCK] * source.planes + [source.tail] * bool(source.tail)):
            place = source.plane(index) + skipped * (width * self.fmt.bits // 8)
            count = grid.positions * width
            _move(kernel, target.plane(index), fmt, place, self.fmt, count)
        return target


def move(kernel: Kernel, source: Aligned, target: Aligned) -> None:
    """Copy a slice to another place, or in another format."""
    _move(kernel, target.base, target.fmt, source.base, source.fmt, source.elements)


def _move(kernel: Kernel, dst: Value, target: Format, src: Value, source: Format, count: Value) -> None:
    """dst = src in the format of the target; adding -0 changes nothing."""
    if target is source is Format.INT8:
        kernel.emit("td.gatherscatter", dst=dst, src0=src, n=count)
    elif target is source or (target in WIDE and source in WIDE):
        Vector(kernel, target, count).vs("add", dst, src, -0.0)
    else:
        convert(kernel, dst, src, count, source, target)
