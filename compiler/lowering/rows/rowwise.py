"""Operators that fold along axes: reductions, Softmax, normalizations of long rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from compiler.codegen.expr import Value, minimum
from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.slices.lane_turner import spread_over_lanes
from compiler.codegen.slices.lanes import WORD, Folds, Lanes, LaneSlice
from compiler.codegen.slices.tensors import DdrTensor, View, copy_views
from compiler.codegen.slices.vector import Vector, widened
from compiler.graph import Shape
from compiler.lowering.record import Cut, Work, lowering
from compiler.operators.norms.normalization import normalized_axes
from compiler.operators.reductions.axes import reduced_axes
from compiler.operators.types import axis_from_front
from tx8isa.numbers.formats import Format

from . import long_folds, long_rows, softmax_rows
from .long_folds import Reduction
from .long_rows import LongRows

_REDUCTIONS = {"ReduceSum": "sum", "ReduceMean": "sum", "ReduceMax": "max"}


def _reduction_cuts(target: Target, work: Work) -> Iterable[Cut]:
    """Folding long runs of memory, or many folds at once in lanes; nothing where runs are short."""
    axes, source = reduced_axes(work.spec), work.input(0)
    folds = _folds(source.shape, axes) if axes else []
    if len(folds) != 1 or not long_folds.worth_a_try(folds[0]):
        return ()
    return long_folds.cuts(folds[0], source, target)


@lowering(*_REDUCTIONS, cuts=_reduction_cuts)
def reduction(kernel: Kernel, work: Work) -> None:
    """A fold for each run of reduced axes that lie together; between two of them values are FP32 in DDR."""
    axes, source = reduced_axes(work.spec), work.input(0)
    if not axes:
        copy_views(kernel, (source.size,), View(source, (1,)), View(work.output, (1,)))
        return
    *before, last = _folds(source.shape, axes)
    name, divisor = _REDUCTIONS[work.op], 1
    if work.op == "ReduceMean":
        divisor = math.prod(folds.axis for folds in (*before, last))
    for folds in before:
        size = folds.outer * folds.inner
        partial = DdrTensor(kernel.scratch("partial", WORD * size).symbol, Format.FP32, (size,))
        _fold(kernel, Reduction(source, partial, folds, name), None)
        kernel.synchronize()
        source = partial
    _fold(kernel, Reduction(source, work.output, last, name, divisor), work.cut)


def _folds(shape: Shape, axes: tuple[int, ...]) -> list[Folds]:
    """The reduced axes in runs that lie together, the last run first; each leaves axes of one element."""
    sizes, found = list(shape), []
    while left := [axis for axis in axes if sizes[axis] != 1]:
        first, end = left[-1], left[-1] + 1
        while first > 0 and (first - 1 in axes or sizes[first - 1] == 1):
            first -= 1
        found.append(Folds(math.prod(sizes[:first]), math.prod(sizes[first:end]), math.prod(sizes[end:])))
        sizes[first:end] = [1] * (end - first)
    return found or [Folds(1, 1, math.prod(shape))]


def _fold(kernel: Kernel, what: Reduction, cut: Cut | None) -> None:
    """Long runs by themselves, if the cut or the rule says so; else in lanes."""
    if cut is not None:
        dealt = cut.choice("way", "lanes") == "long"
        fold = long_folds.fold_of(what.folds, what.source, cut, kernel.target) if dealt else None
    else:
        fold = long_folds.rule(what.folds, what.source, kernel.target)
    if fold is None:
        _fold_in_lanes(kernel, what)
    else:
        long_folds.fold_long(kernel, what, fold)


def _fold_in_lanes(kernel: Kernel, what: Reduction) -> None:
    lanes = Lanes(kernel, what.source, what.folds, 2 * what.source.bytes_each + 2 * WORD)
    with lanes.items() as item:
        total = lanes.accumulator("total")
        lanes.clear(what.name, total)
        with item.sweep() as segment:
            lanes.combine(what.name, segment, segment.data, total)
        if what.divisor > 1:
            lanes.lane_vector().vs("div", total, total, float(what.divisor))
        item.store_folded(what.target, total)


def _softmax_folds(work: Work) -> Folds:
    shape = work.input(0).shape
    axis = axis_from_front(work.spec.integer("axis"), len(shape))
    return Folds(math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))


def _long_softmax(target: Target, work: Work) -> LongRows | None:
    folds, source = _softmax_folds(work), work.input(0)
    if folds.inner > 1:
        return None
    return long_rows.long_rows(folds.outer, folds.axis, 4 * source.bytes_each + 2 * WORD, target)


def _softmax_cuts(target: Target, work: Work) -> Iterable[Cut]:
    yield from softmax_rows.cuts(target, work)
    yield from long_rows.cuts(_long_softmax(target, work))


@lowering("Softmax", cuts=_softmax_cuts)
def softmax(kernel: Kernel, work: Work) -> None:
    """exp(x - max) / sum: the largest is subtracted, so that nothing overflows."""
    rows = softmax_rows.decided(kernel.target, work, kernel.budget)
    plan = None if _in_planes(work) else long_rows.decided(_long_softmax(kernel.target, work), work.cut)
    if plan is not None:
        long_rows.softmax_of(kernel, work.input(0), work.output, plan)
    elif rows is not None:
        softmax_rows.softmax_of_rows(kernel, work.input(0), work.output, rows)
    else:
        _softmax_by_lanes(kernel, work)


def _in_planes(work: Work) -> bool:
    return work.cut is not None and work.cut.choice("way", "") == softmax_rows.WAY


def _softmax_by_lanes(kernel: Kernel, work: Work) -> None:
    source, folds = work.input(0), _softmax_folds(work)
    lanes = Lanes(kernel, source, folds, 3 * source.bytes_each + 4 * WORD)
    with lanes.items() as item:
        largest, total = lanes.accumulator("largest"), lanes.accumulator("total")
        lanes.clear("max", largest)
        with item.sweep() as segment:
            lanes.combine("max", segment, segment.data, largest)
        lanes.clear("sum", total)
        with item.sweep() as segment:
            _exponential(lanes, segment.data, segment.count, largest)
            lanes.combine("sum", segment, segment.data, total)
        lanes.lane_vector().unary("recip", total, total)
        with item.sweep() as segment:
            if not lanes.resident:
                _exponential(lanes, segment.data, segment.count, largest)
            lanes.vector(segment.count).vuv("mul", segment.data, segment.data, total, lanes.width)
            item.store(work.output, segment)


def _exponential(lanes: Lanes, data: Value, count: Value, largest: Value) -> None:
    """data = exp(data - largest)."""
    v = lanes.vector(count)
    v.vuv("sub", data, data, largest, lanes.width)
    v.unary("exp_lp", data, data)


def normalization_by_lanes(kernel: Kernel, work: Work, vectors: Sequence[tuple[str, DdrTensor]]) -> None:
    """Layer or RMS normalization of long rows, in lanes; ``vectors``: scale and shift by these names.

    The mean (RMS: 0), then the mean of the squared differences from it, all in FP32.
    """
    source, axes = work.input(0), normalized_axes(work.spec)
    folds = Folds(math.prod(source.shape[: axes[0]]), math.prod(source.shape[axes[0] :]), 1)
    parameters = [_parameter(kernel, name, tensor) for name, tensor in vectors]
    centred = work.op == "LayerNormalization"
    lanes = Lanes(kernel, source, folds, 3 * source.bytes_each + 8 * WORD, work.output.bytes_each < WORD)
    edit = _Affine(kernel, lanes, parameters) if parameters else None
    with lanes.items() as item:
        mean, scale = lanes.accumulator("mean"), lanes.accumulator("deviation")
        if centred:
            _mean(lanes, item, mean)
        lanes.clear("sum", scale)
        with item.sweep() as segment:
            v = lanes.vector(segment.count)
            if centred:
                v.vuv("sub", segment.data, segment.data, mean, lanes.width)
            squares = kernel.buffer("squares", WORD * lanes.segment * lanes.width)
            v.unary("square", squares, segment.data)
            lanes.combine("sum", segment, squares, scale)
        lane = lanes.lane_vector()
        lane.vs("div", scale, scale, float(folds.axis))
        lane.vs("add", scale, scale, work.spec.number("epsilon"))
        lane.unary("rsqrt", scale, scale)
        with item.sweep() as segment:
            v = lanes.vector(segment.count)
            if centred and not lanes.resident:
                v.vuv("sub", segment.data, segment.data, mean, lanes.width)
            v.vuv("mul", segment.data, segment.data, scale, lanes.width)
            item.store(work.output, segment, edit)


def _mean(lanes: Lanes, item: LaneSlice, mean: Value) -> None:
    lanes.clear("sum", mean)
    with item.sweep() as segment:
        lanes.combine("sum", segment, segment.data, mean)
    lanes.lane_vector().vs("div", mean, mean, float(lanes.folds.axis))


@dataclass(frozen=True)
class _Parameter:
    name: str
    tensor: DdrTensor


def _parameter(kernel: Kernel, name: str, tensor: DdrTensor) -> _Parameter:
    """Scale or shift along the normalized axes: a vector of FP32 constants, or computed in DDR."""
    if tensor.value is None:
        return _Parameter(name, tensor)
    data = np.asarray(tensor.value).astype(np.float32)
    symbol = kernel.constant(f"{name}_data", Format.FP32, data).symbol
    return _Parameter(name, DdrTensor(symbol, Format.FP32, data.shape))


def _spread(kernel: Kernel, lanes: Lanes, parameter: _Parameter, start: Value, count: Value) -> Value:
    """The parameter as FP32 rows [R, count], the same in every row."""
    tensor, room = parameter.tensor, lanes.segment * lanes.width
    data = kernel.buffer(parameter.name, tensor.bytes_each * room)
    source = tensor.at(start)
    kernel.emit(f"rdma.{tensor.fmt.token}", dst=data, src=source, n=count, stride0=0, iter0=lanes.width)
    return widened(kernel, data, Vector(kernel, Format.FP32, count).n * lanes.width, room, tensor.fmt)


class _Affine:
    """Multiply rows by the scale and add the shift."""

    def __init__(self, kernel: Kernel, lanes: Lanes, parameters: list[_Parameter]) -> None:
        self.kernel, self.slices, self.parameters = kernel, lanes, parameters
        axis = lanes.folds.axis
        self.tables = [self._table(p) for p in parameters] if lanes.by_engine else []
        spread = lanes.resident and not lanes.by_engine
        self.spread = [_spread(kernel, lanes, p, 0, axis) for p in parameters] if spread else []

    def _table(self, parameter: _Parameter) -> Value:
        """The parameter in all lanes."""
        kernel, tensor, axis = self.kernel, parameter.tensor, self.slices.folds.axis
        data = kernel.buffer(parameter.name, tensor.bytes_each * axis)
        kernel.emit(f"rdma.{tensor.fmt.token}", dst=data, src=tensor.at(0), n=axis)
        wide = widened(kernel, data, axis, axis, tensor.fmt)
        return spread_over_lanes(kernel, f"{parameter.name}s", wide, axis, self.slices.width)

    def rows(self, data: Value, start: Value, n: Value) -> None:
        v = Vector(self.kernel, Format.FP32, n)
        for index, parameter in enumerate(self.parameters):
            count = _count(self.slices, start)
            other = (
                self.spread[index]
                if self.spread
                else _spread(self.kernel, self.slices, parameter, start, count)
            )
            v.vv(_AFFINE[parameter.name], data, data, other)

    def lanes(self, data: Value) -> None:
        v = self.slices.vector(self.slices.folds.axis)
        for table, parameter in zip(self.tables, self.parameters, strict=True):
            v.vv(_AFFINE[parameter.name], data, data, table)


_AFFINE = {"scale": "mul", "shift": "add"}


def _count(lanes: Lanes, start: Value) -> Value:
    """Elements of the segment that begins at ``start``."""
    return minimum(lanes.segment, lanes.folds.axis - start) if not isinstance(start, int) else lanes.segment
