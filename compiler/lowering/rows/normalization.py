"""LayerNormalization and RMSNormalization: whole rows in the scratchpad of a tile.

The matrix engine adds up rows: a product with ones gives the sum of each row several times, side by side. The
TDMA repeats that to the width of a plane, if it is not yet as wide, and the plane for each plane of the rows.
Scale and shift are one value per channel. Longer rows are shared by tiles (long_rows.py) or computed in lanes
(lane_normalization.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from compiler.codegen.expr import Value, minimum
from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.slices.aligned import (
    Aligned,
    Grid,
    aligned_bytes,
    channel_vector,
    load_aligned,
    load_vector,
    narrowed_slice,
    per_channel,
    slice_buffer,
    store_aligned,
    widened_slice,
)
from compiler.codegen.slices.precision import engine_format, split
from compiler.codegen.slices.tensors import BLOCK, DdrTensor, View, copy_views
from compiler.codegen.slices.vector import WORD, Vector, convert
from compiler.evaluation.sizes import least
from compiler.graph import Shape
from compiler.lowering.record import Cut, Engine, Work, lowering
from compiler.operators.norms.normalization import normalized_axes
from compiler.operators.record import Call
from tx8isa.numbers.division import ceil_div
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import aligned_channels
from tx8isa.numbers.limits import LARGEST_EXTENT

from . import long_rows
from .lane_normalization import AFFINE, normalize_in_lanes
from .long_rows import LongRowPlan

_FEWEST_LANES = 8
"""The width of the steps of the matrix engine."""
_MOST_ONES = 1 << 16
"""Elements of the matrix of ones up to which the matrix engine gives a sum in all lanes of a plane."""
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
    """How tiles share long rows; the buffers are the row in both formats, squares, and two vectors."""
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
    centred, epsilon = work.op == "LayerNormalization", work.spec.number("epsilon")
    long_rows.normalize_long_rows(kernel, rows.source, work.output, plan, vectors, epsilon, centred)


def _vector(kernel: Kernel, name: str, tensor: DdrTensor, shape: Shape) -> DdrTensor:
    """Scale or shift as a vector of one value per channel; a constant stays one."""
    size = math.prod(shape)
    if tensor.value is not None:
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
        """Rows of a slice, so that all tiles have equally many; 0 if not even a few fit."""
        rows, tiles = self.source.shape[0], self.tiles
        row_bytes = aligned_channels(self.channels, BLOCK) * (40 if self.compute is Format.FP32 else 24)
        tables = (8 * _lanes(self.channels) + 16) * aligned_channels(self.channels, BLOCK)
        most_rows = (self.budget - tables) // row_bytes
        if most_rows < least(_FEWEST, rows) or self.channels > LARGEST_EXTENT:
            return 0
        turns = ceil_div(rows, tiles * least(most_rows, _MOST))
        return ceil_div(rows, tiles * turns)


def _normalize_whole_rows(
    kernel: Kernel, rows: _RowProblem, parameters: Sequence[tuple[str, DdrTensor]]
) -> None:
    work, channels, size = rows.work, rows.channels, rows.slice_rows
    sums = RowSums(kernel, channels, engine_format(rows.compute))
    vectors = [(name, channel_vector(kernel, f"{name}_data", tensor)) for name, tensor in parameters]
    # Constants can be loaded before other tiles are waited for.
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
        wide = normalized(kernel, sums, data, work.spec.number("epsilon"), work.op == "LayerNormalization")
        for name, _ in vectors:
            per_channel(kernel, AFFINE[name], wide, loaded[name])
        store_aligned(kernel, narrowed_slice(kernel, wide, work.output.fmt), work.output, first, channels)


def normalized(
    kernel: Kernel,
    sums: RowSums,
    data: Aligned,
    epsilon: float,
    centred: bool,
    of_sum: bool = False,
    shifted: Aligned | None = None,
) -> Aligned:
    """The rows in FP32, shifted to mean 0 if ``centred``, scaled to mean square 1.

    ``of_sum``: scaled to a sum of squares of 1, which takes an instruction less.
    ``shifted``: the rows in FP32 with mean 0, if they are known.
    """
    channels = float(data.channels)
    per_row = Vector(kernel, Format.FP32, data.grid.positions * sums.lanes)
    if centred and shifted is None:
        mean = sums.of(split(kernel, data))
        per_row.vs("div", mean.base, mean.base, channels)
    rows = widened_slice(kernel, data) if shifted is None else shifted
    vector = Vector(kernel, Format.FP32, rows.elements)
    if centred and shifted is None:
        vector.vv("sub", rows.base, rows.base, _repeated_for_planes(kernel, mean, rows).base)
    squares = slice_buffer(kernel, "squares", Format.FP32, rows.grid, rows.channels)
    vector.unary("square", squares.base, rows.base)
    scale = sums.of(_parts_of_squares(kernel, squares, data.fmt))
    if not of_sum:
        per_row.vs("div", scale.base, scale.base, channels)
    per_row.vs("add", scale.base, scale.base, epsilon * channels if of_sum else epsilon)
    per_row.unary("rsqrt", scale.base, scale.base)
    vector.vv("mul", rows.base, rows.base, _repeated_for_planes(kernel, scale, rows).base)
    return rows


def _parts_of_squares(kernel: Kernel, squares: Aligned, fmt: Format) -> list[Aligned]:
    """Squares for the matrix engine: one TF32 part is enough for a root that is rounded to 16 bits."""
    if fmt is Format.FP32:
        return split(kernel, squares)
    convert(kernel, squares.base, squares.base, squares.elements, Format.FP32, Format.TF32)
    return [squares.at(squares.base, Format.TF32)]


def _lanes(channels: int) -> int:
    """How many copies of the sum of a row of ``channels`` channels the matrix engine gives, side by side."""
    return BLOCK if channels * BLOCK <= _MOST_ONES else _FEWEST_LANES


class RowSums:
    """Sums of rows in FP32, ``lanes`` times each, as products with ones that are stored once for all rows."""

    def __init__(self, kernel: Kernel, channels: int, engine: Format) -> None:
        self.kernel, self.channels, self.lanes = kernel, channels, _lanes(channels)
        self.ones = {fmt: self._store_ones(fmt) for fmt in dict.fromkeys((engine, Format.TF32))}

    def _store_ones(self, fmt: Format) -> Value:
        ones = self.kernel.buffer("ones", aligned_bytes(self.channels, self.lanes, fmt))
        self.kernel.emit(f"td.memset.{fmt.token}", dst=ones, value=1.0, n=self.channels * self.lanes)
        return ones

    def of(self, parts: Sequence[Aligned]) -> Aligned:
        """The sums [rows, lanes] of the rows of all parts together."""
        target = slice_buffer(self.kernel, "sums", Format.FP32, parts[0].grid, self.lanes)
        for step, part in enumerate(parts):
            psum: dict[str, Value] = {"psum": target.base} if step else {}
            self.kernel.emit(
                f"ne.gemm.{part.fmt.token}",
                a=part.base,
                b=self.ones[part.fmt],
                out=target.base,
                m=part.grid.positions,
                k=self.channels,
                n=self.lanes,
                rt=1,
                out_format="fp32",
                **psum,
            )
        return target


def _repeated_for_planes(kernel: Kernel, values: Aligned, like: Aligned) -> Aligned:
    """FP32 [rows, lanes] with one value for each row, repeated to a slice of the shape of ``like``."""
    wide = values if values.channels == BLOCK else _repeated_for_lanes(kernel, values)
    target = slice_buffer(kernel, "beside", Format.FP32, like.grid, like.channels)
    rows, plane = like.grid.positions, like.grid.positions * (4 * BLOCK)
    if like.planes:
        kernel.emit(
            "td.gatherscatter",
            dst=target.base,
            src0=wide.base,
            n=plane,
            src_stride0=0,
            src_iter0=like.planes,
            dst_stride0=plane,
            dst_iter0=like.planes,
        )
    if like.tail:
        kernel.emit(
            "td.gatherscatter",
            dst=target.plane(like.planes),
            src0=wide.base,
            n=4 * like.tail,
            src_stride0=4 * BLOCK,
            src_iter0=rows,
            dst_stride0=4 * like.tail,
            dst_iter0=rows,
        )
    return target


def _repeated_for_lanes(kernel: Kernel, values: Aligned) -> Aligned:
    """FP32 [rows, lanes] with one value for each row, repeated to all lanes of a plane."""
    wide = slice_buffer(kernel, "row", Format.FP32, values.grid, BLOCK)
    size, copies = 4 * values.channels, BLOCK // values.channels
    kernel.emit(
        "td.gatherscatter",
        dst=wide.base,
        src0=values.base,
        n=size,
        src_stride0=0,
        src_iter0=copies,
        src_stride1=size,
        src_iter1=values.grid.positions,
        dst_stride0=size,
        dst_iter0=values.grid.positions * copies,
    )
    return wide
