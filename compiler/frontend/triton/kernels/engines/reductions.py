"""Reductions of an axis: by the engine's reductions where there is one, else by halves with any function."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from compiler.codegen.slices.tensors import BLOCK
from tx8isa.numbers.layouts import SMALLEST_TAIL
from tx8isa.numbers.limits import LARGEST_EXTENT, MOST_MOVES

from .blocks import BlockCode
from compiler.frontend.triton.kernels.values import FLOAT_FORMATS, KernelValue, SpmBlock, UnsupportedOperation

Combine = Callable[[SpmBlock, SpmBlock], KernelValue]
"""The two operands of a reduction's function, and its result."""

ENGINE_REDUCTIONS = {"arith.addf": "sum", "arith.maxnumf": "max", "arith.minnumf": "min"}
"""Reductions of the vector engine by the operation that a reduction's function consists of."""


class ReductionCode:
    """Writes reductions with the blocks of a kernel."""

    def __init__(self, blocks: BlockCode) -> None:
        self.blocks, self.kernel = blocks, blocks.kernel

    def reduce(self, value: KernelValue, axis: int, operation: str, combine: Combine) -> SpmBlock:
        """The block without ``axis``; ``operation`` is the only one of its function, if there is only one."""
        data = self.blocks.full(value)
        if data.element not in FLOAT_FORMATS:
            raise UnsupportedOperation(
                f"a reduction of {data.element}; supported are {', '.join(FLOAT_FORMATS)}"
            )
        name = ENGINE_REDUCTIONS.get(operation, "")
        if name and axis == len(data.shape) - 1 and self._fits_engine(data):
            return self._by_engine(data, name)
        return self._by_halves(data, axis, combine)

    def _fits_engine(self, data: SpmBlock) -> bool:
        rows, length = math.prod(data.shape[:-1]), data.shape[-1]
        return rows <= LARGEST_EXTENT and SMALLEST_TAIL <= length <= LARGEST_EXTENT * BLOCK

    def _by_engine(self, data: SpmBlock, name: str) -> SpmBlock:
        """A reduction of the last axis: rows are positions of 64 channels, first added, then reduced."""
        *outer, length = data.shape
        rows = math.prod(outer)
        parts, lanes = max(length // BLOCK, 1), min(length, BLOCK)
        if parts > 1:
            narrow = self.blocks.empty(data.element, data.fmt, (rows, lanes), (True, True))
            self._emit(name, narrow, data, [1, rows, parts, lanes], "w")
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

    def _by_halves(self, data: SpmBlock, axis: int, combine: Combine) -> SpmBlock:
        """The axis comes first; then its second half is combined with its first until one index is left."""
        shape = (*data.shape[:axis], *data.shape[axis + 1 :])
        outer, length, inner = math.prod(shape[:axis]), data.shape[axis], math.prod(shape[axis:])
        if outer > 1:
            if max(outer, length) > LARGEST_EXTENT or outer * length > MOST_MOVES * BLOCK:
                raise UnsupportedOperation(
                    f"a reduction of {length} elements of {outer} rows; at most {LARGEST_EXTENT}"
                )
            moved = self.blocks.empty(data.element, data.fmt, (length, outer, inner), (True,) * 3)
            self.blocks.exchange(moved, data, outer, length, inner)
            data = moved
        stored = tuple(extent > 1 for extent in shape)
        while length > 1:
            length //= 2
            first = replace(data, shape=(length, *shape), stored=(length > 1, *stored))
            second = replace(first, address=first.address + first.count * first.size)
            found = combine(first, second)
            if not isinstance(found, SpmBlock) or found.count != first.count:
                raise UnsupportedOperation("a reduction whose function is not computed from its two operands")
            data = found
        return replace(data, shape=shape, stored=stored)
