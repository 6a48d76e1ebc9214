"""Computes the columns after the last whole plane during a sweep: the tiles of the last columns compute them
too.

They multiply the chunks of the left operand that are in the scratchpad anyway. The few columns of the right
operand stay from the beginning.
"""

from __future__ import annotations

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Argument, Kernel
from compiler.codegen.slices.aligned import Aligned, Grid, Place, aligned_bytes, store_aligned
from compiler.codegen.slices.precision import engine_format, multiply_parts
from compiler.codegen.slices.tensors import BLOCK, Stretch
from tx8isa.numbers.division import round_up
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import LINE_BYTES, aligned_channels

from .blocks import right_operand
from .product import Product
from .result import ResultBlock, finish


class TailColumns:
    """The last ``count`` columns of a product, fewer than a plane."""

    def __init__(self, kernel: Kernel, product: Product, count: int, rows: int, fmt: Format) -> None:
        self.kernel, self.product, self.count, self.fmt, self.rows = kernel, product, count, fmt, rows
        self.start = product.n - count
        """The first of the columns."""
        self.whole = Stretch(0, product.k, 1)
        self.right_operand = right_operand(kernel, product, Stretch(self.start, count, 1), [self.whole])
        self.sums_bytes = round_up(aligned_bytes(rows, count, fmt), LINE_BYTES)
        self.sums = kernel.buffer("tail_sums", 2 * self.sums_bytes)
        self.right: list[Value] = []

    def load(self, batch: Value) -> None:
        """Load the columns of the right operand into the buffer where they remain."""
        self.right = self.right_operand(0, self.whole, 0, batch)

    def block(self, turn: Value, rows: Value) -> Aligned:
        """The sums of a block of rows."""
        base = self.sums + turn % 2 * self.sums_bytes
        return Aligned(base, self.fmt, Grid(rows, 1, self.rows), self.count)

    def multiply(
        self, left: list[Value], first: Value, out: Aligned, more: bool, operands: dict[str, Argument]
    ) -> None:
        """out = left times the columns, from row ``first`` of the inner dimension on; added with ``more``."""
        engine, right = engine_format(self.product.compute), self.product.right
        along_k = right.along_k and not self.product.packed
        lanes = self.count if along_k else aligned_channels(self.count, BLOCK)
        offset = first * (lanes * engine.bits // 8)
        parts = [part + offset for part in self.right]
        sizes = {**operands, "n": self.count}
        multiply_parts(
            self.kernel, f"ne.gemm.{engine.token}", ("a", left), ("b", parts), out.base, more, sizes
        )

    def finish(self, sums: Aligned, batch: Value, row: Value) -> None:
        """Finish and store a block of rows that begins at ``row`` of the batch."""
        product, kernel = self.product, self.kernel
        at = Place(0, kernel.let(product.row(batch, row)), self.start)
        result = finish(product, ResultBlock(kernel, sums, at, product.n))
        store_aligned(kernel, result, product.out, product.place(batch, row, self.start), product.n)
