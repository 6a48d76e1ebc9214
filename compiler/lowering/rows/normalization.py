"""LayerNormalization and RMSNormalization: whole rows in the scratchpad of a tile.

Scale and shift are one value per channel. Longer rows are shared by tiles (long_rows.py) or computed in lanes
(lane_normalization.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from compiler.codegen.expr import minimum
from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.slices.aligned import (
    Grid,
    channel_vector,
    load_aligned,
    load_vector,
    narrowed_slice,
    per_channel,
    store_aligned,
)
from compiler.codegen.slices.tensors import BLOCK, DdrTensor, View, copy_views
from compiler.codegen.slices.vector import WORD
from compiler.evaluation.sizes import Size, least
from compiler.graph import Shape
from compiler.lowering.record import Cut, Engine, Work, lowering
from compiler.operators.norms.normalization import normalization_of, normalized_axes
from compiler.operators.record import Call
from tx8isa.numbers.division import ceil_div
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import aligned_channels
from tx8isa.numbers.limits import LARGEST_EXTENT

from . import long_rows
from .lane_normalization import AFFINE, normalize_in_lanes
from .long_rows import LongRowPlan
from .moments import RowMoments, table_bytes

_FEWEST, _MOST = 8, 64
"""Rows of a slice: at least a step of the matrix engine, at most enough to keep every engine busy."""


def _check(call: Call) -> str | None:
    """Scale and B may only vary along the normalized axes."""
    axes = len(normalized_axes(call))
    for tensor in call.inputs[1:]:
        if tensor is None:
            continue
        leading = tensor.shape[: max(tensor.rank - axes, 0)]
        if any(size != 1 for size in leading):
            found = f"'{tensor.name}' {list(tensor.shape)}"
            return f"Scale and B that vary along the normalized axes alone; found {found}"
    return None


def _normalization_cuts(target: Target, work: Work) -> Iterable[Cut]:
    """Cuts for rows that are too long for one tile to hold several."""
    if _RowProblem.of(work, target, target.spm_bytes).slice_rows:
        return ()
    return long_rows.long_row_cuts(_long_row_plans(work, target), target)


def _long_row_plans(work: Work, target: Target) -> list[LongRowPlan]:
    """Plans for long rows that tiles share; the buffers are the row in both formats, squares, and two
    vectors."""
    source = _RowProblem.of(work, target, target.spm_bytes).source
    rows, channels = source.shape
    return long_rows.long_row_plans(rows, channels, 3 * source.bytes_each + 5 * WORD, target)


@lowering(
    "LayerNormalization",
    "RMSNormalization",
    check=_check,
    cuts=_normalization_cuts,
    prefetch=True,
    takes_fp32=True,
    engines=(Engine.MATRIX, Engine.VECTOR),
)
def normalization(kernel: Kernel, work: Work) -> None:
    """Subtract the mean (not for RMS), divide by the root of the mean square, apply scale and shift."""
    axes, source = normalized_axes(work.spec), work.input(0)
    shape = source.shape[axes[0] :]
    parameters = [
        (name, _vector(kernel, name, work.input(at), shape))
        for at, name in ((1, "scale"), (2, "shift"))
        if work.has(at)
    ]
    rows = _RowProblem.of(work, kernel.target, kernel.budget)
    if rows.slice_rows:
        _normalize_whole_rows(kernel, rows, parameters)
        return
    kernel.await_earlier_phases()
    plan = long_rows.chosen_long_row_plan(_long_row_plans(work, kernel.target), work.cut)
    if plan is None:
        normalize_in_lanes(kernel, work, parameters)
        return
    vectors = [
        (AFFINE[name], channel_vector(kernel, f"{name}_data", tensor).tensor) for name, tensor in parameters
    ]
    centred, epsilon = normalization_of(work.op).centred, work.spec.number("epsilon")
    long_rows.normalize_long_rows(kernel, rows.source, work.output, plan, vectors, epsilon, centred)


def _vector(kernel: Kernel, name: str, tensor: DdrTensor, shape: Shape) -> DdrTensor:
    """Return scale or shift as a vector of one value per channel; a constant stays constant."""
    size = math.prod(shape)
    if tensor.value is not None and not isinstance(size, Size):
        values = np.asarray(tensor.value, np.float64)
        values = values.reshape(values.shape[max(values.ndim - len(shape), 0) :])
        return replace(tensor, value=np.broadcast_to(values, shape).reshape(-1), shape=(size,))
    if tensor.size == size:
        return tensor.viewed(size)
    kernel.await_earlier_phases()
    vector = DdrTensor(kernel.scratch(name, size * tensor.bytes_each).symbol, tensor.fmt, (size,))
    steps = [0 if extent == 1 else step for extent, step in zip(tensor.shape, tensor.strides, strict=True)]
    view = View(tensor, ((0,) * len(shape) + tuple(steps))[-len(shape) :])
    copy_views(kernel, shape, view, View(vector, vector.viewed(*shape).strides))
    kernel.synchronize()
    return vector


@dataclass(frozen=True)
class _RowProblem:
    """Rows of ``source`` [rows, channels], for ``tiles`` tiles with ``budget`` bytes of scratchpad."""

    work: Work
    source: DdrTensor
    tiles: int
    budget: int

    @classmethod
    def of(cls, work: Work, target: Target, budget: int) -> _RowProblem:
        source, first = work.input(0), normalized_axes(work.spec)[0]
        shape = source.shape
        return cls(
            work, source.viewed(math.prod(shape[:first]), math.prod(shape[first:])), target.tiles, budget
        )

    @property
    def compute(self) -> Format:
        return self.work.arithmetic

    @property
    def channels(self) -> int:
        return self.source.shape[1]

    @property
    def slice_rows(self) -> int:
        """Rows of a slice such that all tiles have equally many; 0 if not even a few rows fit.

        It is 0, too, if the length of rows is dynamic, because the number of their planes is unknown.
        """
        rows, tiles = self.source.shape[0], self.tiles
        if isinstance(self.channels, Size):
            return 0
        row_bytes = aligned_channels(self.channels, BLOCK) * (40 if self.compute is Format.FP32 else 24)
        tables = table_bytes(self.channels, self.compute)
        most_rows = (self.budget - tables) // row_bytes
        if most_rows < least(_FEWEST, rows) or self.channels > LARGEST_EXTENT:
            return 0
        turns = ceil_div(rows, tiles * least(most_rows, _MOST))
        return ceil_div(rows, tiles * turns)


def _normalize_whole_rows(
    kernel: Kernel, rows: _RowProblem, parameters: Sequence[tuple[str, DdrTensor]]
) -> None:
    work, channels, size = rows.work, rows.channels, rows.slice_rows
    centred, epsilon = normalization_of(work.op).centred, work.spec.number("epsilon")
    moments = RowMoments(kernel, size, channels, rows.compute, centred)
    moments.prepare(epsilon)
    factors = {name: math.sqrt(channels) for name, tensor in parameters[:1] if tensor.value is not None}
    vectors = [
        (name, channel_vector(kernel, f"{name}_data", tensor, factors.get(name, 1.0)))
        for name, tensor in parameters
    ]
    # Constants can be loaded before the phase waits for other tiles.
    loaded = {
        name: load_vector(kernel, name, vector, 0, channels) for name, vector in vectors if vector.padded
    }
    kernel.await_earlier_phases()
    for name, vector in vectors:
        if name not in loaded:
            loaded[name] = load_vector(kernel, name, vector, 0, channels)
    with kernel.items(ceil_div(rows.source.shape[0], size)) as item:
        begin = kernel.let(item * size)
        grid = Grid(kernel.let(minimum(size, rows.source.shape[0] - begin)), 1, size)
        first = begin * channels
        data = load_aligned(kernel, "rows", rows.source, first, channels, grid, channels)
        if data.fmt is not rows.compute:
            data = narrowed_slice(kernel, data, rows.compute)
        wide = moments.normalized(data, epsilon, centred, 1.0 if factors else math.sqrt(channels))
        for name, _ in vectors:
            per_channel(kernel, AFFINE[name], wide, loaded[name])
        store_aligned(kernel, narrowed_slice(kernel, wide, work.output.fmt), work.output, first, channels)
