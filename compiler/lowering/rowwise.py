"""Operators that fold along axes: reductions, Softmax, normalizations of long rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from compiler.codegen.expr import Value, minimum, subtract
from compiler.codegen.kernel import Kernel
from compiler.codegen.lane_turner import spread_over_lanes
from compiler.codegen.lanes import WORD, Folds, Item, Lanes
from compiler.codegen.tensors import DdrTensor, View, copy_views
from compiler.codegen.vector import Vector, widened
from compiler.lowering.movement import permute
from compiler.lowering.record import Work, lowering
from compiler.operators.normalization import normalized_axes
from compiler.operators.reduce import reduced_axes
from compiler.operators.types import normalized
from tx8isa.formats import Format

_REDUCTIONS = {"ReduceSum": "sum", "ReduceMean": "sum", "ReduceMax": "max"}


@lowering(*_REDUCTIONS)
def reduction(k: Kernel, work: Work) -> None:
    """One fold over all reduced axes; if others lie between them they are moved to the end first."""
    axes, source = reduced_axes(work.spec), work.input(0)
    if not axes:
        copy_views(k, (source.size,), View(source, (1,)), View(work.output, (1,)))
        return
    source, folds = _contiguous(k, source, axes)
    _reduce(k, source, folds, work.output, _REDUCTIONS[work.op], mean=work.op == "ReduceMean")


def _contiguous(k: Kernel, source: DdrTensor, axes: tuple[int, ...]) -> tuple[DdrTensor, Folds]:
    shape = source.shape
    real = [axis for axis in axes if shape[axis] != 1] or [axes[0]]
    between = [a for a in range(real[0], real[-1]) if a not in axes and shape[a] != 1]
    if not between:
        first, last = real[0], real[-1] + 1
        return source, Folds(math.prod(shape[:first]), math.prod(shape[first:last]), math.prod(shape[last:]))
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    perm = (*kept, *axes)
    moved = DdrTensor(
        k.scratch("moved", source.size * source.bytes_each).symbol, source.fmt, tuple(shape[a] for a in perm)
    )
    permute(k, source, moved, perm)
    k.synchronize()
    return moved, Folds(math.prod(shape[a] for a in kept), math.prod(shape[a] for a in axes), 1)


def _reduce(k: Kernel, source: DdrTensor, folds: Folds, target: DdrTensor, name: str, mean: bool) -> None:
    lanes = Lanes(k, source, folds, 2 * source.bytes_each + 2 * WORD)
    with lanes.items() as item:
        total = lanes.accumulator("total")
        lanes.clear(name, total)
        with item.sweep() as segment:
            lanes.combine(name, segment, segment.data, total)
        if mean:
            lanes.lane_vector().vs("div", total, total, float(folds.axis))
        item.store_folded(target, total)


@lowering("Softmax")
def softmax(k: Kernel, work: Work) -> None:
    """exp(x - max) / sum: the largest is subtracted, so that nothing overflows."""
    source = work.input(0)
    axis = normalized(work.spec.integer("axis"), len(source.shape))
    folds = Folds(math.prod(source.shape[:axis]), source.shape[axis], math.prod(source.shape[axis + 1 :]))
    lanes = Lanes(k, source, folds, 3 * source.bytes_each + 4 * WORD)
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


def normalization_by_lanes(k: Kernel, work: Work, vectors: Sequence[tuple[str, DdrTensor]]) -> None:
    """Layer or RMS normalization of long rows, in lanes; ``vectors``: scale and shift by these names.

    The mean (RMS: 0), then the mean of the squared differences from it, all in FP32.
    """
    source, axes = work.input(0), normalized_axes(work.spec)
    folds = Folds(math.prod(source.shape[: axes[0]]), math.prod(source.shape[axes[0] :]), 1)
    parameters = [_parameter(k, name, tensor) for name, tensor in vectors]
    centred = work.op == "LayerNormalization"
    lanes = Lanes(k, source, folds, 3 * source.bytes_each + 8 * WORD, work.output.bytes_each < WORD)
    edit = _Affine(k, lanes, parameters) if parameters else None
    with lanes.items() as item:
        mean, scale = lanes.accumulator("mean"), lanes.accumulator("deviation")
        if centred:
            _mean(lanes, item, mean)
        lanes.clear("sum", scale)
        with item.sweep() as segment:
            v = lanes.vector(segment.count)
            if centred:
                v.vuv("sub", segment.data, segment.data, mean, lanes.width)
            squares = k.buffer("squares", WORD * lanes.segment * lanes.width)
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


def _mean(lanes: Lanes, item: Item, mean: Value) -> None:
    lanes.clear("sum", mean)
    with item.sweep() as segment:
        lanes.combine("sum", segment, segment.data, mean)
    lanes.lane_vector().vs("div", mean, mean, float(lanes.folds.axis))


@dataclass(frozen=True)
class _Parameter:
    name: str
    tensor: DdrTensor


def _parameter(k: Kernel, name: str, tensor: DdrTensor) -> _Parameter:
    """Scale or shift along the normalized axes: a vector of FP32 constants, or computed in DDR."""
    if tensor.value is None:
        return _Parameter(name, tensor)
    data = np.asarray(tensor.value).astype(np.float32)
    symbol = k.constant(f"{name}_data", Format.FP32, data).symbol
    return _Parameter(name, DdrTensor(symbol, Format.FP32, data.shape))


def _spread(k: Kernel, lanes: Lanes, parameter: _Parameter, start: Value, count: Value) -> Value:
    """The parameter as FP32 rows [R, count], the same in every row."""
    tensor, room = parameter.tensor, lanes.segment * lanes.width
    data = k.buffer(parameter.name, tensor.bytes_each * room)
    source = tensor.at(start)
    k.emit(f"rdma.{tensor.fmt.token}", dst=data, src=source, n=count, stride0=0, iter0=lanes.width)
    return widened(k, data, Vector(k, Format.FP32, count).n * lanes.width, room, tensor.fmt)


class _Affine:
    """Multiply rows by the scale and add the shift."""

    def __init__(self, k: Kernel, lanes: Lanes, parameters: list[_Parameter]) -> None:
        self.k, self.slices, self.parameters = k, lanes, parameters
        axis = lanes.folds.axis
        self.tables = [self._table(p) for p in parameters] if lanes.by_engine else []
        spread = lanes.resident and not lanes.by_engine
        self.spread = [_spread(k, lanes, p, 0, axis) for p in parameters] if spread else []

    def _table(self, parameter: _Parameter) -> Value:
        """The parameter in all lanes."""
        k, tensor, axis = self.k, parameter.tensor, self.slices.folds.axis
        data = k.buffer(parameter.name, tensor.bytes_each * axis)
        k.emit(f"rdma.{tensor.fmt.token}", dst=data, src=tensor.at(0), n=axis)
        wide = widened(k, data, axis, axis, tensor.fmt)
        return spread_over_lanes(k, f"{parameter.name}s", wide, axis, self.slices.width)

    def rows(self, data: Value, start: Value, n: Value) -> None:
        v = Vector(self.k, Format.FP32, n)
        for index, parameter in enumerate(self.parameters):
            count = _count(self.slices, start)
            other = (
                self.spread[index] if self.spread else _spread(self.k, self.slices, parameter, start, count)
            )
            v.vv(_AFFINE[parameter.name], data, data, other)

    def lanes(self, data: Value) -> None:
        v = self.slices.vector(self.slices.folds.axis)
        for table, parameter in zip(self.tables, self.parameters, strict=True):
            v.vv(_AFFINE[parameter.name], data, data, table)


_AFFINE = {"scale": "mul", "shift": "add"}


def _count(lanes: Lanes, start: Value) -> Value:
    """Elements of the segment that begins at ``start``."""
    return (
        minimum(lanes.segment, subtract(lanes.folds.axis, start))
        if not isinstance(start, int)
        else lanes.segment
    )
