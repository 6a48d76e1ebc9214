"""Layer and RMS normalization of rows that other lowerings cannot hold: many rows at a time, one in each
lane."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from compiler.codegen.expr import Value, minimum
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.lanes import AxisSegment, Folds, Lanes, LaneSlice
from compiler.codegen.slices.row_transposer import spread_over_lanes
from compiler.codegen.slices.tensors import DdrTensor
from compiler.codegen.slices.vector import WORD, Vector, widened
from compiler.lowering.record import Work
from compiler.operators.norms.normalization import normalization_of, normalized_axes
from tx8isa.numbers.formats import Format

AFFINE = {"scale": "mul", "shift": "add"}
"""The instructions that apply the parameters of a normalization."""


def centrings(fmt: Format) -> int:
    """Number of times that rows of a format are shifted by their mean.

    A sum of FP32 numbers far from 0 loses digits of the mean. The mean of the differences recovers them. Sums
    of shorter numbers are exact enough.
    """
    return 2 if fmt is Format.FP32 else 1


def normalize_in_lanes(kernel: Kernel, work: Work, vectors: Sequence[tuple[str, DdrTensor]]) -> None:
    """Subtract the mean (not for RMS), divide by the root of the mean square, all in FP32.

    ``vectors``: scale and shift, if present, by these names.
    """
    source, axes = work.input(0), normalized_axes(work.spec)
    folds = Folds(math.prod(source.shape[: axes[0]]), math.prod(source.shape[axes[0] :]), 1)
    parameters = [_Parameter.of(kernel, name, tensor) for name, tensor in vectors]
    lanes = Lanes(kernel, source, folds, 3 * source.bytes_each + 8 * WORD, work.output.bytes_each < WORD)
    affine = _AffineStep(kernel, lanes, parameters) if parameters else None
    with lanes.items() as item:
        means: list[Value] = []
        for _ in range(centrings(source.fmt) if normalization_of(work.op).centred else 0):
            means.append(_mean(lanes, item, means))
        scale = lanes.accumulator("deviation")
        lanes.clear("sum", scale)
        with item.sweep() as segment:
            vector = lanes.vector(segment.count)
            _centre(lanes, segment, means)
            squares = kernel.buffer("squares", WORD * lanes.segment * lanes.width)
            vector.vv("mul", squares, segment.data, segment.data)
            lanes.combine("sum", segment, squares, scale)
        per_lane = lanes.lane_vector()
        per_lane.vs("div", scale, scale, folds.axis)
        per_lane.vs("add", scale, scale, work.spec.number("epsilon"))
        per_lane.unary("rsqrt", scale, scale)
        with item.sweep() as segment:
            vector = lanes.vector(segment.count)
            if not lanes.resident:
                _centre(lanes, segment, means)
            vector.vuv("mul", segment.data, segment.data, scale, lanes.width)
            item.store(work.output, segment, affine)


def _mean(lanes: Lanes, item: LaneSlice, means: Sequence[Value]) -> Value:
    """The mean of the rows less their earlier ``means``, a number for each lane."""
    mean = lanes.accumulator("mean")
    lanes.clear("sum", mean)
    with item.sweep() as segment:
        _centre(lanes, segment, means)
        lanes.combine("sum", segment, segment.data, mean)
    lanes.lane_vector().vs("div", mean, mean, lanes.folds.axis)
    return mean


def _centre(lanes: Lanes, segment: AxisSegment, means: Sequence[Value]) -> None:
    """Subtract the means from a segment; a resident segment needs only the last of them."""
    vector = lanes.vector(segment.count)
    for mean in means[-1:] if lanes.resident else means:
        vector.vuv("sub", segment.data, segment.data, mean, lanes.width)


@dataclass(frozen=True)
class _Parameter:
    """Scale or shift, a vector along the normalized axes in DDR."""

    name: str
    tensor: DdrTensor

    @classmethod
    def of(cls, kernel: Kernel, name: str, tensor: DdrTensor) -> _Parameter:
        """A constant is stored in FP32."""
        if tensor.value is None:
            return cls(name, tensor)
        data = np.asarray(tensor.value).astype(np.float32)
        symbol = kernel.constant(f"{name}_data", Format.FP32, data).symbol
        return cls(name, DdrTensor(symbol, Format.FP32, data.shape))


def _load_for_rows(kernel: Kernel, lanes: Lanes, parameter: _Parameter, start: Value, count: Value) -> Value:
    """Load the parameter as FP32 rows [width, count], equal in every row; returns their address."""
    tensor, room = parameter.tensor, lanes.segment * lanes.width
    data = kernel.buffer(parameter.name, tensor.bytes_each * room)
    source = tensor.at(start)
    kernel.emit(f"rdma.{tensor.fmt.token}", dst=data, src=source, n=count, stride0=0, iter0=lanes.width)
    return widened(kernel, data, Vector(kernel, Format.FP32, count).n * lanes.width, room, tensor.fmt)


class _AffineStep:
    """Multiplies rows by the scale and adds the shift when they are stored."""

    def __init__(self, kernel: Kernel, lanes: Lanes, parameters: list[_Parameter]) -> None:
        self.kernel, self.slice, self.parameters = kernel, lanes, parameters
        axis = lanes.folds.axis
        self.tables = [self._table(parameter) for parameter in parameters] if lanes.by_engine else []
        self.loaded: list[Value] = []
        """Parameters that stay in the scratchpad as rows."""
        if lanes.resident and not lanes.by_engine:
            self.loaded = [_load_for_rows(kernel, lanes, parameter, 0, axis) for parameter in parameters]

    def _table(self, parameter: _Parameter) -> Value:
        """Load the parameter with the same values in all lanes; its address."""
        kernel, tensor, axis = self.kernel, parameter.tensor, self.slice.folds.axis
        data = kernel.buffer(parameter.name, tensor.bytes_each * axis)
        kernel.emit(f"rdma.{tensor.fmt.token}", dst=data, src=tensor.at(0), n=axis)
        wide = widened(kernel, data, axis, axis, tensor.fmt)
        return spread_over_lanes(kernel, f"{parameter.name}s", wide, axis, self.slice.width)

    def rows(self, data: Value, start: Value, n: Value) -> None:
        """Apply the parameters to rows of a segment that begins at ``start``."""
        vector = Vector(self.kernel, Format.FP32, n)
        for index, parameter in enumerate(self.parameters):
            if self.loaded:
                other = self.loaded[index]
            else:
                count = _segment_length(self.slice, start)
                other = _load_for_rows(self.kernel, self.slice, parameter, start, count)
            vector.vv(AFFINE[parameter.name], data, data, other)

    def lanes(self, data: Value) -> None:
        """Apply the parameters to data whose rows are columns of lanes."""
        vector = self.slice.vector(self.slice.folds.axis)
        for table, parameter in zip(self.tables, self.parameters, strict=True):
            vector.vv(AFFINE[parameter.name], data, data, table)


def _segment_length(lanes: Lanes, start: Value) -> Value:
    """Elements of the segment that begins at ``start``."""
    return lanes.segment if isinstance(start, int) else minimum(lanes.segment, lanes.folds.axis - start)
