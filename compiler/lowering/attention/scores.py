"""Scores of attention: products of keys and queries with the mask added, one block of each at a time."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Argument, Kernel
from compiler.codegen.slices.aligned import Aligned, Grid, aligned_bytes
from compiler.codegen.slices.precision import PRODUCTS, engine_format
from compiler.codegen.slices.row_transposer import identity
from compiler.codegen.slices.tensors import Stretch
from compiler.codegen.slices.vector import Vector
from tx8isa.numbers.division import round_up
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import LINE_BYTES

from .key_values import KEYS, KeyValues
from .mask import CausalMask
from .operands import load_mask
from .plan import AttentionPlan

Accumulator = tuple[Value, Format]
"""Address and format of the sums to which a product is added."""


@dataclass(frozen=True)
class Tables:
    """Constants that a tile loads once: an identity that transposes results, and ones that add up weights."""

    identity: Value
    ones: Value


class DoubleBuffer:
    """Two copies of a slice like ``like``, which neighbouring blocks use alternately."""

    def __init__(self, kernel: Kernel, name: str, like: Aligned) -> None:
        size = aligned_bytes(like.grid.room * like.grid.width, like.channels, like.fmt)
        self.span = round_up(size, LINE_BYTES)
        self.like, self.base = like, kernel.buffer(name, 2 * self.span)

    def slice(self, turn: Value, rows: int) -> Aligned:
        """The copy for an iteration, as a slice of ``rows`` rows."""
        base = self.base + turn % 2 * self.span
        return Aligned(base, self.like.fmt, Grid(rows, 1, rows), self.like.channels)


@dataclass(frozen=True)
class QueryBlock:
    """A block of queries in the scratchpad."""

    head: Value
    row: Value
    """The first query."""
    parts: list[Aligned]
    lowest: Value = 0
    """Address of minus the largest score of each query, in the format of the matrix engine (second sweep)."""
    shift: Accumulator | None = None
    """``lowest`` repeated for every key of a block: the sums that products begin with (second sweep)."""


class Scores:
    """Emits the scores [keys, queries] of blocks of ``queries`` queries."""

    def __init__(
        self, kernel: Kernel, plan: AttentionPlan, tables: Tables, key_values: KeyValues, queries: int
    ) -> None:
        self.kernel, self.plan, self.tables, self.key_values = kernel, plan, tables, key_values
        self.queries, self.engine = queries, engine_format(plan.fmt)
        self.sums = plan.fmt if plan.cap and plan.fmt.bits == 16 else Format.FP32
        """The format of the tensor that is added to scores, as an initial sum or as a vector."""
        self.causal_mask = CausalMask(kernel, plan, queries) if plan.causal is not None else None
        self.mask_factor: Value = tables.ones
        """The matrix by which a mask is multiplied: ones repeat its only row, the identity transposes it."""
        if self.causal_mask is None and plan.mask_rows:
            self.mask_factor = identity(kernel, queries, self.engine)

    def compute(
        self,
        block: QueryBlock,
        stretch: Stretch,
        buffer: DoubleBuffer,
        second: bool,
        masked_from: Value | None,
        step: Value,
    ) -> None:
        """buffer [keys, queries] = K Q' + mask' + shift, in the format of the arithmetic.

        Blocks of keys from number ``masked_from`` of the stretch have a mask; none if that is None.
        """
        kernel = self.kernel
        if masked_from is None:
            self._multiply_block(block, stretch, buffer, second, block.shift, step)
            return
        if masked_from != 0:
            with kernel.if_below(step, masked_from):
                self._multiply_block(block, stretch, buffer, second, block.shift, step)
        with kernel.if_below(masked_from - 1, step):
            begin = kernel.let(step * stretch.size + stretch.start)
            added = self._masked(block, begin, stretch.size)
            self._multiply_block(block, stretch, buffer, second, added, step)

    def _multiply_block(
        self,
        block: QueryBlock,
        stretch: Stretch,
        buffer: DoubleBuffer,
        second: bool,
        initial: Accumulator | None,
        step: Value,
    ) -> None:
        plan, keys = self.plan, self.key_values.rows(KEYS, stretch, step)
        # Any number near the largest score will do, so the first sweep omits the low parts of FP32 operands.
        parts = slice(None) if second else slice(1)
        queries, target = [part.base for part in block.parts[parts]], buffer.slice(step, stretch.size)
        begins = None if plan.cap else initial
        self.multiply(keys[parts], queries, target.base, begins, plan.fmt, stretch.size, plan.d)
        if plan.cap:
            self._bound(target, initial)

    def _bound(self, scores: Aligned, added: Accumulator | None) -> None:
        """scores = cap tanh(scores) + ``added``, which has their format."""
        vector = Vector(self.kernel, scores.fmt, scores.elements)
        vector.unary("tanh", scores.base, scores.base)
        vector.vs("mul", scores.base, scores.base, self.plan.cap)
        if added is not None:
            vector.vv("add", scores.base, scores.base, added[0])

    def _masked(self, block: QueryBlock, begin: Value, keys: int) -> Accumulator:
        """The transposed mask, plus the shift."""
        kernel, plan = self.kernel, self.plan
        if self.causal_mask is not None:
            return self._hidden(self.causal_mask, block, block.row + (plan.causal or 0) - begin, keys)
        rows = self._rows(keys)
        added = kernel.buffer("masked", aligned_bytes(rows, self.queries, Format.FP32))
        sums = block.shift
        for part in load_mask(kernel, plan, block.head, (block.row, self.queries), (begin, keys)):
            sums = self.multiply(
                [part], [self.mask_factor], added, sums, self.sums, rows, part.grid.room, lt=1, rt=1
            )
        assert sums is not None
        return sums

    def _hidden(self, mask: CausalMask, block: QueryBlock, seen: Value, keys: int) -> Accumulator:
        """The causal mask, plus the shift."""
        table = mask.table(seen, keys)
        if block.shift is None:
            return table, mask.fmt
        size = aligned_bytes(keys, self.queries, mask.fmt)
        target = table if mask.copies else self.kernel.buffer("masked", size)
        return self._repeat(block.lowest, keys, target, (table, mask.fmt), mask.fmt)

    def shift(self, block: QueryBlock, keys: int) -> Accumulator:
        """Minus the largest score of each query, for each of ``keys`` keys."""
        rows = self._rows(keys)
        fmt = self.plan.fmt if self.plan.fmt.bits == 16 else Format.FP32  # a score has that format already
        target = self.kernel.buffer("shift", aligned_bytes(rows, self.queries, fmt))
        return self._repeat(block.lowest, rows, target, None, fmt)

    def _rows(self, keys: int) -> int:
        """Number of rows of the tensor that is added to the scores of ``keys`` keys.

        A transposed mask whose size depends on the run has one row for every lane. Queries are then one
        plane, so that the rows in use are its first ones.
        """
        return self.plan.mask_lanes if self.plan.sized_mask else keys

    def _repeat(
        self, row: Value, keys: int, target: Value, initial: Accumulator | None, fmt: Format
    ) -> Accumulator:
        """target [keys, queries] = the row for each of the keys, plus ``initial``."""
        ones = Aligned(self.tables.ones, self.engine, Grid(1, 1, 1), keys)
        return self.multiply([ones], [row], target, initial, fmt, keys, 1, lt=1, rt=1)

    def multiply(
        self,
        left: list[Aligned],
        right: list[Value],
        out: Value,
        initial: Accumulator | None,
        fmt: Format,
        m: int,
        inner: int,
        **transposed: Argument,
    ) -> Accumulator:
        """Compute out [m, queries] = left right + ``initial``; operands may have two parts, high and low.

        ``transposed``: lt and rt of the instruction.
        """
        pairs = PRODUCTS if len(left) > 1 else PRODUCTS[:1]
        for left_part, right_part in pairs:
            added: dict[str, Argument] = {}
            if initial is not None:
                added["psum"] = initial[0]
                if initial[1] is not Format.FP32:
                    added["psum_format"] = initial[1].token
            self.kernel.emit(
                f"ne.gemm.{self.engine.token}",
                a=left[left_part].base,
                b=right[right_part],
                out=out,
                m=m,
                k=inner,
                n=self.queries,
                out_format=fmt.token,
                **transposed,
                **added,
            )
            initial = out, fmt
        return out, fmt
