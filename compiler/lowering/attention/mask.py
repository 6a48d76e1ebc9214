"""The causal mask of blocks on the diagonal, as tables in the scratchpad: the mask itself is never loaded.

Key j of a block is hidden from query i if j - i > d, where d is the last key that the first query sees. Up to
64 queries share one strip of rows, from keys that all queries see to keys that none sees: the table for d
begins at row -d of it. For more queries a table is copied from the strip for every d that occurs.
"""

from __future__ import annotations

import math

import numpy as np

from compiler.codegen.expr import Value, maximum
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.aligned import aligned_bytes
from compiler.codegen.slices.precision import stored
from compiler.codegen.slices.tensors import BLOCK
from compiler.evaluation.storage import within_range
from tx8isa.numbers.division import round_up
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import LINE_BYTES, tail_width

from .plan import AttentionPlan


class CausalMask:
    """Tables [keys, queries] of 0 and a low number, which are added to scores."""

    def __init__(self, kernel: Kernel, plan: AttentionPlan, queries: int) -> None:
        self.kernel, self.keys, self.queries = kernel, plan.block_keys, queries
        self.fmt = plan.fmt if plan.fmt.bits == 16 else Format.FP32
        self.step = math.gcd(plan.block_keys, queries)
        self.width = BLOCK if queries > BLOCK else tail_width(queries, BLOCK) or BLOCK
        self.row_bytes = self.width * self.fmt.bits // 8
        self.rows_above = plan.block_keys - self.step + BLOCK * (max(queries // BLOCK, 1) - 1)
        """Rows of the strip before row 0."""
        self.strip = self._make_strip(float(within_range(np.array(-np.inf), self.fmt)))
        self.span = round_up(aligned_bytes(plan.block_keys, queries, self.fmt), LINE_BYTES)
        self.tables = self._make_tables() if queries > BLOCK else None

    def _make_strip(self, low: float) -> Value:
        """The strip: row r has 0 where r <= lane, else ``low``."""
        kernel, token, width = self.kernel, self.fmt.token, self.width
        below = max(self.keys + self.queries - self.step - width, 0)
        strip = kernel.buffer("strip", (self.rows_above + width + below) * self.row_bytes)
        rows = np.where(np.arange(width)[:, None] <= np.arange(width), 0.0, low)
        source = kernel.constant("diagonal", self.fmt, stored(rows, self.fmt).reshape(-1))
        middle = strip + self.rows_above * self.row_bytes
        kernel.emit(f"rdma.{token}", dst=middle, src=source, n=width * width)
        for place, value, count in (
            (strip, 0.0, self.rows_above),
            (middle + width * self.row_bytes, low, below),
        ):
            if count:
                kernel.emit(f"td.memset.{token}", dst=place, value=value, n=count * width)
        return strip

    def _make_tables(self) -> Value:
        """Tables for each multiple of ``step`` above -queries and below keys."""
        kernel, size = self.kernel, self.keys * self.row_bytes
        count = (self.queries + self.keys) // self.step - 1
        tables = kernel.buffer("hidden", count * self.span)
        for number in range(count):
            for plane in range(self.queries // BLOCK):
                seen = (number + 1) * self.step - self.queries + plane * BLOCK
                source = self.strip + (self.rows_above - seen) * self.row_bytes
                target = tables + (number * self.span + plane * size)
                kernel.emit("td.gatherscatter", dst=target, src0=source, n=size)
        return tables

    def table(self, seen: Value) -> Value:
        """The address of the table where ``seen`` is the last key of the block that the first query sees."""
        if self.tables is None:
            return self.strip + (self.rows_above - seen) * self.row_bytes
        number = maximum(seen + (self.queries - self.step), 0) // self.step
        return self.tables + number * self.span
