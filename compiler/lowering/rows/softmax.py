"""Softmax: in planes of channels, in long rows that tiles share, or many rows at a time in lanes."""

from __future__ import annotations

import math
from collections.abc import Iterable

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.slices.lanes import Folds, Lanes
from compiler.codegen.slices.vector import WORD, round_in_place
from compiler.lowering.record import Cut, Engine, Work, lowering
from compiler.operators.types import axis_from_front

from . import long_rows, plane_softmax
from .long_rows import LongRowPlan
from .quotient import divide


def _softmax_folds(work: Work) -> Folds:
    shape = work.input(0).shape
    axis = axis_from_front(work.spec.integer("axis"), len(shape))
    return Folds(math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))


def _long_row_plans(target: Target, work: Work) -> list[LongRowPlan]:
    folds = _softmax_folds(work)
    if folds.inner > 1:
        return []
    return long_rows.long_row_plans(folds.outer, folds.axis, 4 * _bytes_each(work) + 2 * WORD, target)


def _bytes_each(work: Work) -> int:
    """Bytes of an element of operand or result, whichever are more."""
    return max(work.input(0).bytes_each, work.output.bytes_each)


def _softmax_cuts(target: Target, work: Work) -> Iterable[Cut]:
    yield from plane_softmax.plane_softmax_cuts(target, work)
    yield from long_rows.long_row_cuts(_long_row_plans(target, work), target)


@lowering("Softmax", cuts=_softmax_cuts, gives_fp32=True, engines=(Engine.VECTOR,))
def softmax(kernel: Kernel, work: Work) -> None:
    """exp(x - max) / sum: the largest is subtracted, so that nothing overflows."""
    source, target = work.input(0), work.output
    plane_plan = plane_softmax.chosen_plane_plan(kernel.target, work, kernel.budget)
    long_plan = None
    if not _in_planes(work):
        long_plan = long_rows.chosen_long_row_plan(_long_row_plans(kernel.target, work), work.cut)
    if long_plan is not None:
        long_rows.softmax_of_long_rows(kernel, source, target, long_plan, work.arithmetic)
    elif plane_plan is not None:
        plane_softmax.softmax_in_planes(kernel, source, target, plane_plan, work.arithmetic)
    else:
        _softmax_in_lanes(kernel, work)


def _in_planes(work: Work) -> bool:
    """True if the cut says that rows are computed in planes of channels."""
    return work.cut is not None and work.cut.choice("way", "") == plane_softmax.WAY


def _softmax_in_lanes(kernel: Kernel, work: Work) -> None:
    source, folds = work.input(0), _softmax_folds(work)
    lanes = Lanes(kernel, source, folds, 3 * _bytes_each(work) + 4 * WORD)
    with lanes.items() as item:
        largest, total = lanes.accumulator("largest"), lanes.accumulator("total")
        lanes.clear("max", largest)
        with item.sweep() as segment:
            lanes.combine("max", segment, segment.data, largest)
        lanes.clear("sum", total)
        with item.sweep() as segment:
            _exponential(lanes, segment.data, segment.count, largest)
            lanes.combine("sum", segment, segment.data, total)
        division = divide(lanes.lane_vector(), total, folds)
        with item.sweep() as segment:
            if not lanes.resident:
                _exponential(lanes, segment.data, segment.count, largest)
            lanes.vector(segment.count).vuv(division, segment.data, segment.data, total, lanes.width)
            if work.output.fmt is not work.arithmetic and not lanes.by_engine:
                n, room = segment.count * lanes.width, lanes.segment * lanes.width
                round_in_place(kernel, segment.data, n, room, work.arithmetic)
            item.store(work.output, segment)


def _exponential(lanes: Lanes, data: Value, count: Value, largest: Value) -> None:
    """data = exp(data - largest)."""
    vector = lanes.vector(count)
    vector.vuv("sub", data, data, largest, lanes.width)
    vector.unary("exp_lp", data, data)
