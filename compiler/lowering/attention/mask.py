"""The causal mask of blocks on the diagonal, from a strip in the scratchpad: the mask itself is never loaded.

Key j of a block is hidden from query i if j - i > d, where d is the last key that the first query sees. The
strip has one row for each key, from keys that all queries of a plane see to keys that none sees: the mask of
a plane for d begins at row -d of it. One plane is read where it is; several are copied from the strip to lie
one after another, so d may be any number.
"""

from __future__ import annotations

import numpy as np

from compiler.codegen.expr import Value, maximum, minimum
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.aligned import Grid, slice_buffer
from compiler.codegen.slices.precision import stored
from compiler.codegen.slices.tensors import BLOCK
from compiler.evaluation.storage import within_range
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import aligned_channels, tail_width

from .plan import AttentionPlan


class CausalMask:
    """Masks [keys, queries] of 0 and a low number, which are added to the scores of a block."""

    def __init__(self, kernel: Kernel, plan: AttentionPlan, queries: int) -> None:
        self.kernel, self.keys, self.queries = kernel, plan.block_keys, queries
        self.fmt = plan.fmt if plan.fmt.bits == 16 else Format.FP32
        self.copies = queries > BLOCK
        """True if a mask is a copy, which may be changed."""
        self.width = BLOCK if self.copies else tail_width(queries, BLOCK) or BLOCK
        self.row_bytes = self.width * self.fmt.bits // 8
        self.strip = self._make_strip(float(within_range(np.array(-np.inf), self.fmt)))

    def _make_strip(self, low: float) -> Value:
        """The strip: row r has 0 where r <= lane, else ``low``; it begins at row -keys."""
        kernel, token, width = self.kernel, self.fmt.token, self.width
        strip = kernel.buffer("strip", (2 * self.keys + width) * self.row_bytes)
        rows = np.where(np.arange(width)[:, None] <= np.arange(width), 0.0, low)
        source = kernel.constant("diagonal", self.fmt, stored(rows, self.fmt).reshape(-1))
        middle = strip + self.keys * self.row_bytes
        kernel.emit(f"rdma.{token}", dst=middle, src=source, n=width * width)
        for place, value in ((strip, 0.0), (middle + width * self.row_bytes, low)):
            kernel.emit(f"td.memset.{token}", dst=place, value=value, n=self.keys * width)
        return strip

    def table(self, seen: Value, keys: int) -> Value:
        """The address of the mask of ``keys`` keys where the first query sees keys up to ``seen``."""
        if not self.copies:
            return self._rows(seen)
        kernel, each = self.kernel, self.fmt.bits // 8
        hidden = slice_buffer(kernel, "hidden", self.fmt, Grid(keys, 1, keys), self.queries)
        for first, part in hidden.by_planes(keys):
            width, source = aligned_channels(part.channels, BLOCK), self._rows(seen + first)
            strided = {
                "src_stride0": self.row_bytes,
                "src_iter0": keys,
                "dst_stride0": width * each,
                "dst_iter0": keys,
            }
            if width == BLOCK:
                kernel.emit("td.gatherscatter", dst=part.base, src0=source, n=keys * self.row_bytes)
            else:
                kernel.emit("td.gatherscatter", dst=part.base, src0=source, n=width * each, **strided)
        return hidden.base

    def _rows(self, seen: Value) -> Value:
        """The address of the rows for a block of keys whose first query sees keys to ``seen``."""
        first = self.keys - minimum(maximum(seen, -self.width), self.keys)
        return self.strip + first * self.row_bytes
