"""The causal mask where blocks of queries and of keys meet on the diagonal, without loading it.

Key j of a block is hidden from query i if j - i > d, d being how far the first query sees into the block. For
64 queries that is one strip of rows, from those hidden from nobody to those hidden from all, entered at row
-d; for more it is copied together for every d that occurs.
"""

from __future__ import annotations

import math

import numpy as np

from compiler.codegen.expr import Value, maximum
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.aligned import BLOCK, aligned_bytes
from compiler.codegen.slices.precision import stored
from tx8isa.numbers.division import round_up
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import LINE_BYTES, tail_width

from .plan import HIDDEN, Problem


class Diagonal:
    """Tables [keys, queries] of 0 and a low number, to be added to scores."""

    def __init__(self, kernel: Kernel, p: Problem, queries: int) -> None:
        self.kernel, self.keys, self.queries = kernel, p.keys, queries
        self.fmt = p.fmt if p.fmt.bits == 16 else Format.FP32
        self.step = math.gcd(p.keys, queries)
        self.width = BLOCK if queries > BLOCK else tail_width(queries, BLOCK) or BLOCK
        self.row = self.width * self.fmt.bits // 8
        self.above = p.keys - self.step + BLOCK * (max(queries // BLOCK, 1) - 1)
        """Rows of the strip before row 0."""
        self.strip = self._strip(HIDDEN.get(p.fmt, HIDDEN[Format.FP32]))
        self.span = round_up(aligned_bytes(p.keys, queries, self.fmt), LINE_BYTES)
        self.tables = self._tables() if queries > BLOCK else None

    def _strip(self, low: float) -> Value:
        """Row r has 0 where r <= lane."""
        kernel, token, width = self.kernel, self.fmt.token, self.width
        below = max(self.keys + self.queries - self.step - width, 0)
        strip = kernel.buffer("strip", (self.above + width + below) * self.row)
        rows = np.where(np.arange(width)[:, None] <= np.arange(width), 0.0, low)
        source = kernel.constant("diagonal", self.fmt, stored(rows, self.fmt).reshape(-1))
        middle = strip + self.above * self.row
        kernel.emit(f"rdma.{token}", dst=middle, src=source, n=width * width)
        for place, value, count in ((strip, 0.0, self.above), (middle + width * self.row, low, below)):
            if count:
                kernel.emit(f"td.memset.{token}", dst=place, value=value, n=count * width)
        return strip

    def _tables(self) -> Value:
        """A table for each multiple of ``step`` above -queries and below keys."""
        kernel, size = self.kernel, self.keys * self.row
        count = (self.queries + self.keys) // self.step - 1
        tables = kernel.buffer("hidden", count * self.span)
        for number in range(count):
            for plane in range(self.queries // BLOCK):
                seen = (number + 1) * self.step - self.queries + plane * BLOCK
                source = self.strip + (self.above - seen) * self.row
                target = tables + (number * self.span + plane * size)
                kernel.emit("td.gatherscatter", dst=target, src0=source, n=size)
        return tables

    def at(self, seen: Value) -> Value:
        """The table for ``seen``: the last key that the first query sees, counted in the block."""
        if self.tables is None:
            return self.strip + (self.above - seen) * self.row
        number = maximum(seen + (self.queries - self.step), 0) // self.step
        return self.tables + number * self.span
