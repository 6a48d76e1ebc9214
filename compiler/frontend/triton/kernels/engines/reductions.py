"""Reduces an axis: by the engine's reductions if one fits, else by combining halves with any function."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from compiler.codegen.slices.tensors import BLOCK
from compiler.frontend.triton.kernels.values import FLOAT_FORMATS, KernelValue, SpmBlock
from tx8isa.numbers.layouts import SMALLEST_TAIL
from tx8isa.numbers.limits import LARGEST_EXTENT

from .blocks import BlockCode
from .exchange import exchange

Blocks = list[SpmBlock]
Combine = Callable[[Blocks, Blocks], Sequence[KernelValue]]
"""The function of a reduction: takes two lists of blocks that are reduced together, returns its results."""

ENGINE_REDUCTIONS = {"arith.addf": "sum", "arith.maxnumf": "max", "arith.minnumf": "min"}
"""Reductions of the vector engine, by the only operation of the reduction's function."""

_FEWEST_ADDED = 8192
"""The fewest elements of a matrix whose columns are added up by a product."""


class ReductionCode:
    """Writes reductions with the blocks of a kernel."""

    def __init__(self, blocks: BlockCode) -> None:
        self.blocks, self.kernel = blocks, blocks.kernel

    def reduce(self, values: Blocks, axis: int, operation: str, combine: Combine) -> Blocks:
        """Return the blocks without ``axis``; ``operation`` is the only one of their function, if any."""
        name = ENGINE_REDUCTIONS.get(operation, "")
        if name and len(values) == 1 and values[0].element in FLOAT_FORMATS:
            data = self.blocks.spread(values[0], (True,) * len(values[0].shape))
            if axis == len(data.shape) - 1 and self._fits_rows(data):
                return [self._of_rows(data, name)]
            if self._fits_columns(data, axis) and self._is_product(data, axis, name):
                return [self._product(data)]
            if axis < len(data.shape) - 1 and self._fits_columns(data, axis):
                return [self._of_columns(data, axis, name)]
            values = [data]
        return self._by_halves([self.blocks.full(value) for value in values], axis, combine)

    def _fits_rows(self, data: SpmBlock) -> bool:
        rows, length = math.prod(data.shape[:-1]), data.shape[-1]
        return rows <= LARGEST_EXTENT and SMALLEST_TAIL <= length <= LARGEST_EXTENT * BLOCK

    def _fits_columns(self, data: SpmBlock, axis: int) -> bool:
        outer, inner = math.prod(data.shape[:axis]), math.prod(data.shape[axis + 1 :])
        fits = SMALLEST_TAIL <= inner <= LARGEST_EXTENT * BLOCK
        return fits and max(outer, data.shape[axis]) <= LARGEST_EXTENT

    def _is_product(self, data: SpmBlock, axis: int, name: str) -> bool:
        """Return True if the matrix engine adds up the columns of a matrix, in a quarter of the time."""
        long = data.shape[0] >= SMALLEST_TAIL and data.count >= _FEWEST_ADDED
        return name == "sum" and axis == 0 and len(data.shape) == 2 and data.fmt.bits == 16 and long

    def _product(self, data: SpmBlock) -> SpmBlock:
        """Return the sums of the columns: a row of ones times the matrix."""
        length, columns = data.shape
        data = self.blocks.planes(data)
        ones = self.blocks.empty(data.element, data.fmt, (length,), (True,))
        self.blocks.fill(ones, 1.0)
        made = self.blocks.empty(data.element, data.fmt, (columns,), (True,))
        self.kernel.emit(
            f"ne.gemm.{data.fmt.token}",
            out=made.address,
            out_format=made.fmt.token,
            m=1,
            k=length,
            n=columns,
            a=ones.address,
            b=data.address,
            rt=1,
        )
        return made

    def _of_columns(self, data: SpmBlock, axis: int, name: str) -> SpmBlock:
        """Reduce an axis that is not the last one; the axes after it are channels.

        The axes before it are rows of one batch. More than 64 channels take several positions each. Rows are
        then batches, which are whole lines.
        """
        shape = (*data.shape[:axis], *data.shape[axis + 1 :])
        outer, length, inner = math.prod(shape[:axis]), data.shape[axis], math.prod(shape[axis:])
        made = self.blocks.empty(data.element, data.fmt, shape, [extent > 1 for extent in shape])
        if data.blocked:
            self._emit(name, made, data, [1, length, 1, inner], "h")
        elif inner <= BLOCK:
            self._emit(name, made, data, [1, outer, length, inner], "w")
        else:
            self._emit(name, made, data, [outer, length, inner // BLOCK, BLOCK], "h")
        return made

    def _of_rows(self, data: SpmBlock, name: str) -> SpmBlock:
        """Reduce the last axis: rows are positions of 64 channels, first added, then reduced."""
        *outer, length = data.shape
        rows = math.prod(outer)
        parts, lanes = max(length // BLOCK, 1), min(length, BLOCK)
        if parts > 1:
            narrow = self.blocks.empty(data.element, data.fmt, (rows, lanes), (True, True))
            planes = ([1, parts, rows, lanes], "h") if data.blocked else ([1, rows, parts, lanes], "w")
            self._emit(name, narrow, data, *planes)
            data = narrow
        sparse = self.blocks.empty(data.element, data.fmt, (rows, SMALLEST_TAIL), (True, True))
        self._emit(name, sparse, data, [1, 1, rows, lanes], "c")
        shape = tuple(outer)
        stored = tuple(extent > 1 for extent in shape)
        if rows == 1:
            return replace(sparse, shape=shape, stored=stored)
        made = self.blocks.empty(data.element, data.fmt, shape, stored)
        self.kernel.emit(
            "td.gatherscatter",
            dst=made.address,
            src0=sparse.address,
            n=data.size,
            src_stride0=SMALLEST_TAIL * data.size,
            src_iter0=rows,
            dst_stride0=data.size,
            dst_iter0=rows,
        )
        return made

    def _emit(self, name: str, target: SpmBlock, source: SpmBlock, shape: list[int], axis: str) -> None:
        self.kernel.emit(
            f"ct.reduce.{name}.{source.fmt.token}",
            dst=target.address,
            src0=source.address,
            shape=list(shape),
            dims=axis,
        )

    def _by_halves(self, values: Blocks, axis: int, combine: Combine) -> Blocks:
        """Move the axis to the front; combine its second half with its first until one index is left."""
        values = [self.first_axis(data, axis) for data in values]
        length, *rest = values[0].shape
        shape = tuple(rest)
        stored = tuple(extent > 1 for extent in shape)
        while length > 1:
            length //= 2
            first = [replace(data, shape=(length, *shape), stored=(length > 1, *stored)) for data in values]
            second = [replace(data, address=data.address + data.count * data.size) for data in first]
            values = self.combined(combine, first, second)
        return [replace(data, shape=shape, stored=stored) for data in values]

    def first_axis(self, data: SpmBlock, axis: int) -> SpmBlock:
        """Return a written-out block with an axis moved before all others."""
        shape = (*data.shape[:axis], *data.shape[axis + 1 :])
        outer, length, inner = math.prod(shape[:axis]), data.shape[axis], math.prod(shape[axis:])
        moved = data
        if outer > 1 and length > 1:
            moved = self.blocks.empty(data.element, data.fmt, (length, outer, inner), (True,) * 3)
            exchange(self.kernel, moved, data, (1, outer, length), inner)
        return moved.viewed((length, *shape), tuple(extent > 1 for extent in (length, *shape)))

    def axis_back(self, data: SpmBlock, axis: int) -> SpmBlock:
        """Return a block whose first axis is moved to another place."""
        length, *rest = data.shape
        shape = (*rest[:axis], length, *rest[axis:])
        outer, inner = math.prod(rest[:axis]), math.prod(rest[axis:])
        moved = data
        if outer > 1 and length > 1:
            moved = self.blocks.empty(data.element, data.fmt, (outer, length, inner), (True,) * 3)
            exchange(self.kernel, moved, data, (1, length, outer), inner)
        return moved.viewed(shape, tuple(extent > 1 for extent in shape))

    def combined(self, combine: Combine, first: Blocks, second: Blocks) -> Blocks:
        """Return the results of a function as written-out blocks."""
        found = combine(first, second)
        made = [self.blocks.typed(value, one.element) for value, one in zip(found, first, strict=True)]
        return [
            self.blocks.compact(self.blocks.spread(data, one.stored))
            for data, one in zip(made, first, strict=True)
        ]


class ScanCode:
    """Writes scans: each round combines every index with one before it, at twice the last distance."""

    def __init__(self, reductions: ReductionCode) -> None:
        self.reductions, self.blocks = reductions, reductions.blocks

    def scan(self, values: Blocks, axis: int, reverse: bool, combine: Combine) -> Blocks:
        """Return running results along an axis, from its end if ``reverse``."""
        values = [self.reductions.first_axis(self.blocks.full(data), axis) for data in values]
        length, distance = values[0].shape[0], 1
        while distance < length:
            values = self._round(values, distance, reverse, combine)
            distance *= 2
        return [self.reductions.axis_back(data, axis) for data in values]

    def _round(self, values: Blocks, distance: int, reverse: bool, combine: Combine) -> Blocks:
        """Combine all indices with the ones at a distance."""
        length = values[0].shape[0]
        low = [_rows(data, 0, length - distance) for data in values]
        high = [_rows(data, distance, length) for data in values]
        found = self.reductions.combined(combine, *((high, low) if reverse else (low, high)))
        made = [self.blocks.empty(data.element, data.fmt, data.shape, data.stored) for data in values]
        for target, data, part in zip(made, values, found, strict=True):
            stays = (length - distance, length) if reverse else (0, distance)
            changes = (0, length - distance) if reverse else (distance, length)
            self.blocks.copy(_rows(target, *stays), _rows(data, *stays))
            self.blocks.copy(_rows(target, *changes), part)
        return made


def _rows(data: SpmBlock, first: int, end: int) -> SpmBlock:
    """Return some indices of the first axis of a written-out block."""
    shape = (end - first, *data.shape[1:])
    step = data.count // data.shape[0] * data.size
    stored = (end - first > 1, *data.stored[1:])
    return replace(data, address=data.address + first * step, shape=shape, stored=stored)
