"""Softmax in planes of 64 channels: [rows, axis] with a row at each position.

A row has one largest element and one sum, each stored as a number at the row's position. The matrix engine
repeats such numbers along the axis by a product with a row of ones. With the data as initial sums it also
adds them. It takes numbers in TF32 parts. A sum has two parts, which are 22 bits. A largest element has
enough parts to be exact, so that no difference is above 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from compiler.codegen.expr import Value, minimum
from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.slices.aligned import (
    Aligned,
    Grid,
    aligned_bytes,
    load_aligned,
    narrowed_slice,
    slice_buffer,
    store_aligned,
    widened_slice,
)
from compiler.codegen.slices.lanes import Folds
from compiler.codegen.slices.precision import split
from compiler.codegen.slices.tensors import BLOCK, DdrTensor
from compiler.codegen.slices.vector import Vector, round_in_place
from compiler.evaluation.sizes import Size, least
from compiler.lowering.record import Cut, Work
from compiler.operators.types import axis_from_front
from tx8isa.numbers.division import ceil_div
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import aligned_channels
from tx8isa.numbers.limits import LARGEST_EXTENT

from .quotient import divide

WAY = "planes"
"""The value of the choice ``way`` in cuts of this kind."""
_BYTES_EACH = 28
"""Scratchpad bytes for an element: FP32 data and factors, loaded and stored elements, all twice."""


@dataclass(frozen=True)
class PlaneSoftmaxPlan:
    """``count`` rows of ``axis`` elements, ``size`` at a time."""

    count: int
    axis: int
    size: int


def _largest_plan(target: Target, work: Work, room: int, pieces: int = 1) -> PlaneSoftmaxPlan | None:
    """The plan with slices as large as ``room`` bytes allow, and at least ``pieces`` of them for every tile.

    None if the axis is not the last one, is too long, or has a dynamic size, whose number of planes is
    unknown.
    """
    shape = work.input(0).shape
    axis = axis_from_front(work.spec.integer("axis"), len(shape))
    extent, count = shape[axis], math.prod(shape[:axis])
    if math.prod(shape[axis + 1 :]) > 1 or isinstance(extent, Size) or not 1 < extent <= LARGEST_EXTENT:
        return None
    most_rows = room // (_BYTES_EACH * aligned_channels(extent, BLOCK))
    return (
        PlaneSoftmaxPlan(count, extent, least(most_rows, ceil_div(count, target.tiles * pieces)))
        if most_rows
        else None
    )


def chosen_plane_plan(target: Target, work: Work, room: int) -> PlaneSoftmaxPlan | None:
    """The plan of the cut, or a default one if rows are long enough; None for another lowering."""
    plan = _largest_plan(target, work, room)
    if work.cut is None:
        return plan if plan is not None and plan.axis >= BLOCK else None
    if work.cut.choice("way", "") != WAY:
        return None
    if plan is None:
        raise ValueError(f"{work.cut} does not divide {work.input(0).shape}")
    return replace(plan, size=least(work.cut.size("rows"), plan.count))


def plane_softmax_cuts(target: Target, work: Work) -> Iterator[Cut]:
    """Cuts for the search: large slices, or smaller ones that are loaded while others are computed."""
    plans = [_largest_plan(target, work, target.spm_bytes, pieces) for pieces in (1, 2, 4)]
    for size in sorted({plan.size for plan in plans if plan is not None}, reverse=True):
        yield Cut(sizes=(("rows", size),), choices=(("way", WAY),))


def softmax_in_planes(
    kernel: Kernel, source: DdrTensor, target: DdrTensor, plan: PlaneSoftmaxPlan, fmt: Format
) -> None:
    """Emit the softmax, rounded to ``fmt``; slices are distributed round robin."""
    ones = kernel.buffer("ones", aligned_bytes(1, plan.axis, Format.TF32))
    kernel.emit("td.memset.tf32", dst=ones, value=1.0, n=aligned_channels(plan.axis, BLOCK))
    with kernel.items(ceil_div(plan.count, plan.size)) as item:
        begin = kernel.let(item * plan.size)
        count = kernel.let(minimum(plan.size, plan.count - begin))
        first = begin * plan.axis
        grid = Grid(count, 1, plan.size)
        data = widened_slice(kernel, load_aligned(kernel, "rows", source, first, plan.axis, grid, plan.axis))
        vector = Vector(kernel, Format.FP32, data.elements)
        largest = _reduced(kernel, "max", data)
        lanes = Vector(kernel, Format.FP32, largest.elements)
        lanes.vs("mul", largest.base, largest.base, -1.0)
        _repeat(kernel, _exact_parts(kernel, largest, source.fmt), ones, data.base, data.base, plan.axis)
        vector.unary("exp_lp", data.base, data.base)
        total = _reduced(kernel, "sum", data)
        division = divide(lanes, total.base, Folds(plan.count, plan.axis, 1))
        factors = slice_buffer(kernel, "factors", Format.FP32, grid, plan.axis)
        _repeat(kernel, split(kernel, total), ones, factors.base, None, plan.axis)
        vector.vv(division, data.base, data.base, factors.base)
        if target.fmt is not fmt:
            round_in_place(kernel, data.base, data.elements, data.room, fmt)
        store_aligned(kernel, narrowed_slice(kernel, data, target.fmt), target, first, plan.axis)


def _reduced(kernel: Kernel, name: str, data: Aligned) -> Aligned:
    """The sum or the maximum of each row, [rows, 1]."""
    folded = slice_buffer(kernel, name, Format.FP32, data.grid, 1)
    kernel.emit(f"ct.reduce.{name}.fp32", dst=folded.base, src0=data.base, shape=data.shape, dims="c")
    return folded


def _exact_parts(kernel: Kernel, numbers: Aligned, fmt: Format) -> list[Aligned]:
    """TF32 numbers whose sum is a number of ``fmt``, high digits first; ``numbers`` is overwritten with the
    last ones."""
    parts = [numbers.at(numbers.base, Format.TF32)]
    if fmt is not Format.FP32:
        return parts
    vector = Vector(kernel, Format.FP32, numbers.elements)
    for name in ("high", "middle"):
        part = slice_buffer(kernel, name, Format.TF32, numbers.grid, numbers.channels)
        kernel.emit("ct.cvt.fp32.tf32", dst=part.base, src0=numbers.base, n=numbers.elements, rnd="rtz")
        vector.vv("sub", numbers.base, numbers.base, part.base)
        parts.insert(-1, part)
    return parts


def _repeat(
    kernel: Kernel, parts: Sequence[Aligned], ones: Value, target: Value, initial: Value | None, axis: int
) -> None:
    """target [rows, axis] = the sum of the parts of each row's number, plus ``initial``."""
    for part in parts:
        psum: dict[str, Value] = {"psum": initial} if initial is not None else {}
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
        initial = target
