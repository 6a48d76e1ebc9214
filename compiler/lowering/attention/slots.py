"""Buffers for blocks of rows of Q, K or V, in the format of the matrix engine."""

from __future__ import annotations

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.aligned import Aligned, Grid, aligned_bytes, load_aligned
from compiler.codegen.slices.long_runs import into_planes, stored_width
from compiler.codegen.slices.precision import part_count
from compiler.codegen.slices.tensors import BLOCK, dma_loops
from compiler.codegen.slices.vector import Vector, convert
from compiler.evaluation.sizes import Size
from tx8isa.numbers.division import round_up
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import LINE_BYTES

from .operands import first_of_row, queries_from
from .plan import AttentionPlan

_AT_ONCE = 32768
"""Most bytes of one load of a block: RDMA finishes it before it takes a load of another worker."""


class BlockSlots:
    """Cycles through ``count`` slots for blocks of at most ``rows`` rows of operand ``index``.

    For FP32 a slot has two parts in TF32, high and low, whose sum is the number. The blocks are those of
    ``heads`` heads, one after another; the last one of each has at most ``last`` rows.
    """

    def __init__(
        self,
        kernel: Kernel,
        plan: AttentionPlan,
        index: int,
        rows: int,
        count: int,
        last: int | None = None,
        heads: int = 1,
    ) -> None:
        self.kernel, self.plan, self.index, self.rows, self.count = kernel, plan, index, rows, count
        self.name, self.channels = "qkv"[index], plan.operands[index].shape[-1]
        parts = part_count(plan.fmt)
        self.fmt = Format.TF32 if parts > 1 else plan.fmt
        self.span, self.each = self._span(rows), count // heads
        self.head_bytes = (self.each - 1) * self.span + self._span(rows if last is None else last)
        self.bases = [kernel.buffer(f"{self.name}{part}", heads * self.head_bytes) for part in range(parts)]
        self.fewer = index == 0 and isinstance(plan.m, Size)
        """True if a block may have fewer rows than lanes; the other lanes stay unchanged."""
        if self.fewer:
            for base in self.bases:
                self._clear(base, self.fmt, count * self.span)

    def _span(self, rows: int) -> int:
        return round_up(aligned_bytes(rows, self.channels, self.fmt), LINE_BYTES)

    def _clear(self, base: Value, fmt: Format, size: int) -> None:
        """Write zeros to ``size`` bytes."""
        self.kernel.emit(f"td.memset.{fmt.token}", dst=base, value=0.0, n=size // (fmt.bits // 8))

    @property
    def direct(self) -> bool:
        """True if rows are in a slot as they are in DDR, but for their order."""
        return self.plan.direct(self.index)

    def block(self, number: Value, rows: int) -> list[Aligned]:
        """The parts of block ``number``, which has ``rows`` rows."""
        slot = number % self.count * self.span
        if self.head_bytes != self.each * self.span and self.count > self.each:
            place = number % self.count
            slot = place // self.each * self.head_bytes + place % self.each * self.span
        return [Aligned(base + slot, self.fmt, Grid(rows, 1, rows), self.channels) for base in self.bases]

    def load(self, number: Value, head: Value, begin: Value, rows: int) -> Aligned:
        """Load ``rows`` rows of a head from ``begin`` on as block ``number``; into its slot unless converted.

        With a dynamic number of queries, the block has zeros after the last one.
        """
        kernel, tensor, matrix = self.kernel, self.plan.work.input(self.index), self.plan.operands[self.index]
        first, step, grid = first_of_row(matrix, head, begin), matrix.strides[-2], Grid(rows, 1, rows)
        into = self.block(number, rows)[0].base if self.direct else None
        if not self.fewer:
            return load_aligned(kernel, self.name, tensor, first, step, grid, self.channels, into=into)
        if into is None:
            size = aligned_bytes(rows, self.channels, tensor.fmt)
            into = kernel.buffer(self.name, size)
            self._clear(into, tensor.fmt, size)
        block = Aligned(into, tensor.fmt, grid, self.channels)
        for lane, part in block.by_planes(queries_from(self.plan, begin, rows)):
            place = first + lane
            load_aligned(kernel, self.name, tensor, place, step, part.grid, part.channels, into=part.base)
        return block

    def raw_bytes(self, rows: int) -> int:
        """Bytes of the rows of a block in the format that they have in DDR, also in planes."""
        return aligned_bytes(rows, self.channels, self.plan.work.input(self.index).fmt)

    def fetch(self, raw: Value, head: Value, begin: Value, rows: int) -> None:
        """Load ``rows`` rows of a head from ``begin`` on into a buffer of ``raw_bytes``."""
        tensor, matrix = self.plan.work.input(self.index), self.plan.operands[self.index]
        row_bytes, token = self.channels * tensor.bytes_each, tensor.fmt.token
        together = max(_AT_ONCE // row_bytes, 1)
        for start in range(0, rows, together):
            loops = dma_loops((matrix.strides[-2], 1), (min(together, rows - start), self.channels))
            source = tensor.at(first_of_row(matrix, head, begin + start))
            self.kernel.emit(f"rdma.{token}", dst=raw + start * row_bytes, src=source, **loops)

    def arrange(self, number: Value, raw: Value, planes: Value, rows: int, scale: float = 1.0) -> None:
        """Put such rows into the slot of block ``number``, as planes in the format of the slot.

        ``planes``: another buffer of ``raw_bytes``, unless the slots are ``direct``. The engines wait for the
        rows, and all later instructions with them, so the rows should have arrived.
        """
        fmt, grid = self.plan.work.input(self.index).fmt, Grid(rows, 1, rows)
        place = self.block(number, rows)[0].base if self.direct else planes
        if not self.direct and self.channels <= BLOCK and self.channels == stored_width(self.channels):
            place = raw  # one plane, which consists of the rows
        else:
            into_planes(self.kernel, fmt, place, raw, grid.extents, self.channels)
        self.put(number, Aligned(place, fmt, grid, self.channels), scale)

    def put(self, number: Value, loaded: Aligned, scale: float = 1.0) -> None:
        """Convert loaded rows, multiplied by ``scale``, into the slot of block ``number``."""
        kernel, targets, n = self.kernel, self.block(number, loaded.grid.room), loaded.elements
        if scale != 1.0:
            Vector(kernel, loaded.fmt, n).vs("mul", loaded.base, loaded.base, scale)
        if len(targets) > 1 or loaded.fmt is not self.fmt:
            convert(kernel, targets[0].base, loaded.base, n, loaded.fmt, self.fmt)
        for low in targets[1:]:
            Vector(kernel, Format.FP32, n).vv("sub", low.base, loaded.base, targets[0].base)
            convert(kernel, low.base, low.base, n, Format.FP32, low.fmt)

    def send(self, number: Value, rows: int, tiles: Value) -> None:
        """Send block ``number`` to other tiles, a set of bits."""
        for part in self.block(number, rows):
            size = part.elements * part.fmt.bits // 8
            self.kernel.emit("dte.broadcast", dst=part.base, src=part.base, tiles=tiles, n=size)
