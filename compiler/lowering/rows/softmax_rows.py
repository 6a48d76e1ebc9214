"""Softmax of rows that stay rows: [rows, axis] in planes of 64, a row at each position.

What belongs to a row is one number at its position. The matrix engine spreads such numbers over the axis, by
a product with a row of ones, and where its sums begin with the data it adds them at once. It takes them in
two TF32 parts, which is 22 bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from compiler.codegen.expr import Value, minimum
from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.slices.aligned import (
    BLOCK,
    Aligned,
    Grid,
    aligned_bytes,
    load_aligned,
    narrowed_slice,
    slice_buffer,
    store_aligned,
    widened_slice,
)
from compiler.codegen.slices.precision import split
from compiler.codegen.slices.tensors import DdrTensor
from compiler.codegen.slices.vector import Vector
from compiler.lowering.record import Cut, Work
from compiler.operators.types import axis_from_front
from tx8isa.numbers.division import ceil_div
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import aligned_channels
from tx8isa.numbers.limits import LARGEST_EXTENT

WAY = "planes"
"""The choice ``way`` of a cut that names this way."""
_BYTES_EACH = 28
"""Scratchpad bytes for an element: FP32 data and factors, what is loaded and stored, all twice."""
_LEAST = -3.0e38
"""Data are brought above this: a lower largest element of a row would have no second part."""


@dataclass(frozen=True)
class Rows:
    """``count`` rows of ``axis`` elements, ``size`` at a time."""

    count: int
    axis: int
    size: int


def rows_of(target: Target, work: Work, room: int, pieces: int = 1) -> Rows | None:
    """Rows in slices, ``pieces`` of them for every tile, that take ``room`` bytes together.

    None where the axis is not the last, or too long.
    """
    shape = work.input(0).shape
    axis = axis_from_front(work.spec.integer("axis"), len(shape))
    extent, count = shape[axis], math.prod(shape[:axis])
    if math.prod(shape[axis + 1 :]) > 1 or not 1 < extent <= LARGEST_EXTENT:
        return None
    most = room // (_BYTES_EACH * aligned_channels(extent, BLOCK))
    return Rows(count, extent, min(most, ceil_div(count, target.tiles * pieces))) if most else None


def decided(target: Target, work: Work, room: int) -> Rows | None:
    """What a cut names, or the rule, which leaves short rows to other ways; None for those."""
    rows = rows_of(target, work, room)
    if work.cut is None:
        return rows if rows is not None and rows.axis >= BLOCK else None
    if work.cut.choice("way", "") != WAY:
        return None
    if rows is None:
        raise ValueError(f"{work.cut} does not divide {work.input(0).shape}")
    return replace(rows, size=min(work.cut.size("rows"), rows.count))


def cuts(target: Target, work: Work) -> Iterator[Cut]:
    """Larger slices, or smaller ones that are loaded while others are computed."""
    found = [rows_of(target, work, target.spm_bytes, pieces) for pieces in (1, 2, 4)]
    for size in sorted({rows.size for rows in found if rows is not None}, reverse=True):
        yield Cut(sizes=(("rows", size),), choices=(("way", WAY),))


def softmax_of_rows(kernel: Kernel, source: DdrTensor, target: DdrTensor, rows: Rows) -> None:
    """Slices are dealt round robin."""
    ones = kernel.buffer("ones", aligned_bytes(1, rows.axis, Format.TF32))
    kernel.emit("td.memset.tf32", dst=ones, value=1.0, n=aligned_channels(rows.axis, BLOCK))
    with kernel.items(ceil_div(rows.count, rows.size)) as item:
        begin = kernel.let(item * rows.size)
        count = kernel.let(minimum(rows.size, rows.count - begin))
        first = begin * rows.axis
        grid = Grid(count, 1, rows.size)
        data = widened_slice(kernel, load_aligned(kernel, "rows", source, first, rows.axis, grid, rows.axis))
        v = Vector(kernel, Format.FP32, data.elements)
        v.vs("max", data.base, data.base, _LEAST)
        largest = _folded(kernel, "max", data)
        lanes = Vector(kernel, Format.FP32, largest.elements)
        lanes.vs("mul", largest.base, largest.base, -1.0)
        _spread(kernel, largest, ones, data.base, data.base, rows.axis)
        v.unary("exp_lp", data.base, data.base)
        total = _folded(kernel, "sum", data)
        lanes.unary("recip", total.base, total.base)
        factors = slice_buffer(kernel, "factors", Format.FP32, grid, rows.axis)
        _spread(kernel, total, ones, factors.base, None, rows.axis)
        v.vv("mul", data.base, data.base, factors.base)
        store_aligned(kernel, narrowed_slice(kernel, data, target.fmt), target, first, rows.axis)


def _folded(kernel: Kernel, name: str, data: Aligned) -> Aligned:
    """The sum or the largest of each row, [rows, 1]."""
    folded = slice_buffer(kernel, name, Format.FP32, data.grid, 1)
    kernel.emit(f"ct.reduce.{name}.fp32", dst=folded.base, src0=data.base, shape=data.shape, dims="c")
    return folded


def _spread(
    kernel: Kernel, numbers: Aligned, ones: Value, target: Value, sums: Value | None, axis: int
) -> None:
    """target [rows, axis] = the number of each row, plus ``sums``."""
    for part in split(kernel, numbers):
        psum: dict[str, Value] = {"psum": sums} if sums is not None else {}
        kernel.emit(
            "ne.gemm.tf32",
            a=part.base,
            b=ones,
            out=target,
            m=part.grid.height,
            k=1,
            n=axis,
            rt=1,
            out_format="fp32",
            **psum,
        )
        sums = target
