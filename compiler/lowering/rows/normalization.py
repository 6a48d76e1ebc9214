"""LayerNormalization and RMSNormalization of whole rows in the scratchpad; longer ones are shared by tiles
(long_rows.py), or go by way of lanes.

The matrix engine sums rows up: a product with ones gives the sum of each several times, side by side. The
TDMA makes that as wide as a plane of channels and lays it beside every plane. Scale and shift are one value
per channel.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from compiler.codegen.expr import Value, minimum
from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.slices.aligned import (
    BLOCK,
    Aligned,
    ChannelVector,
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
from compiler.codegen.slices.tensors import DdrTensor, View, copy_views
from compiler.codegen.slices.vector import Vector, convert
from compiler.codegen.teams.collective import WORD
from compiler.graph import Shape
from compiler.lowering.record import Cut, Work, lowering
from compiler.operators.norms.normalization import normalized_axes
from compiler.operators.record import Call
from tx8isa.numbers.division import ceil_div
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import aligned_channels
from tx8isa.numbers.limits import LARGEST_EXTENT

from . import long_rows
from .long_rows import LongRows
from .rowwise import normalization_by_lanes

_LANES = 8
"""How often the matrix engine gives a sum: the width of its steps."""
_FEWEST, _MOST = 8, 64
"""Rows of a slice: a step of the matrix engine, and enough to keep every engine at work."""


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


def _cuts(target: Target, work: Work) -> Iterable[Cut]:
    """Of rows that are too long for one tile to hold several."""
    if _Rows.of(work, target, target.spm_bytes).fitting:
        return ()
    return long_rows.cuts(_long(work, target))


def _long(work: Work, target: Target) -> LongRows | None:
    """How tiles share long rows: in the scratchpad are the row in both formats, squares, and two vectors."""
    source = _Rows.of(work, target, target.spm_bytes).source
    rows, channels = source.shape
    return long_rows.long_rows(rows, channels, 3 * source.bytes_each + 5 * WORD, target)


@lowering("LayerNormalization", "RMSNormalization", check=_check, cuts=_cuts, prefetch=True, rounds=True)
def normalization(kernel: Kernel, work: Work) -> None:
    """The mean, then the mean of the squared differences from it (RMS: from 0), summed in FP32."""
    axes, source = normalized_axes(work.spec), work.input(0)
    shape = source.shape[axes[0] :]
    parameters = [
        (name, _vector(kernel, name, work.input(at), shape))
        for at, name in ((1, "scale"), (2, "shift"))
        if work.has(at)
    ]
    rows = _Rows.of(work, kernel.target, kernel.budget)
    if rows.fitting:
        _by_rows(kernel, rows, parameters)
        return
    kernel.begin()
    plan = long_rows.decided(_long(work, kernel.target), work.cut)
    if plan is None:
        normalization_by_lanes(kernel, work, parameters)
        return
    vectors = [(_AFFINE[name], channel_vector(kernel, f"{name}_data", v).tensor) for name, v in parameters]
    centred, epsilon = work.op == "LayerNormalization", work.spec.number("epsilon")
    long_rows.normalization_of(kernel, rows.source, work.output, plan, vectors, epsilon, centred)


def _vector(kernel: Kernel, name: str, tensor: DdrTensor, shape: Shape) -> DdrTensor:
    """Scale or shift, one value per channel; a constant is known."""
    size = math.prod(shape)
    if tensor.value is not None:
        values = np.asarray(tensor.value, np.float64)
        values = values.reshape(values.shape[max(values.ndim - len(shape), 0) :])
        return replace(tensor, value=np.broadcast_to(values, shape).reshape(-1), shape=(size,))
    if tensor.size == size:
        return tensor.viewed(size)
    kernel.begin()
    vector = DdrTensor(kernel.scratch(name, size * tensor.bytes_each).symbol, tensor.fmt, (size,))
    steps = [0 if extent == 1 else step for extent, step in zip(tensor.shape, tensor.strides, strict=True)]
    view = View(tensor, ((0,) * len(shape) + tuple(steps))[-len(shape) :])
    copy_views(kernel, shape, view, View(vector, vector.viewed(*shape).strides))
    kernel.synchronize()
    return vector


@dataclass(frozen=True)
class _Rows:
    """The problem: rows of ``source`` [rows, channels], for ``tiles`` with ``budget`` bytes of scratchpad."""

    work: Work
    source: DdrTensor
    tiles: int
    budget: int

    @classmethod
    def of(cls, work: Work, target: Target, budget: int) -> _Rows:
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
    def fitting(self) -> int:
        """Rows of a slice so that every tile has as many; 0 if not even a few fit."""
        rows, tiles = self.source.shape[0], self.tiles
        each = aligned_channels(self.channels, BLOCK) * (40 if self.compute is Format.FP32 else 24)
        tables = (8 * _LANES + 16) * aligned_channels(self.channels, BLOCK)
        most = (self.budget - tables) // each
        if most < min(_FEWEST, rows) or self.channels > LARGEST_EXTENT:
            return 0
        turns = ceil_div(rows, tiles * min(most, _MOST))
        return ceil_div(rows, tiles * turns)


def _by_rows(kernel: Kernel, rows: _Rows, parameters: Sequence[tuple[str, DdrTensor]]) -> None:
    work, channels, size = rows.work, rows.channels, rows.fitting
    sums = _Sums(kernel, channels, engine_format(rows.compute))
    vectors = [(name, channel_vector(kernel, f"{name}_data", tensor)) for name, tensor in parameters]
    known = {name: load_vector(kernel, name, v, 0, channels) for name, v in vectors if v.padded}
    kernel.begin()
    loaded = [(_AFFINE[name], _loaded(kernel, known, name, vector, channels)) for name, vector in vectors]
    with kernel.items(ceil_div(rows.source.shape[0], size)) as item:
        begin = kernel.let(item * size)
        grid = Grid(kernel.let(minimum(size, rows.source.shape[0] - begin)), 1, size)
        first = begin * channels
        data = load_aligned(kernel, "rows", rows.source, first, channels, grid, channels)
        if data.fmt is not rows.compute:
            data = narrowed_slice(kernel, data, rows.compute)
        wide = _normalized(kernel, sums, data, work.spec.number("epsilon"), work.op == "LayerNormalization")
        for name, vector in loaded:
            per_channel(kernel, name, wide, vector)
        store_aligned(kernel, narrowed_slice(kernel, wide, work.output.fmt), work.output, first, channels)


_AFFINE = {"scale": "mul", "shift": "add"}


def _loaded(
    kernel: Kernel, known: dict[str, Value], name: str, vector: ChannelVector, channels: int
) -> Value:
    return known[name] if name in known else load_vector(kernel, name, vector, 0, channels)


def _normalized(kernel: Kernel, sums: _Sums, data: Aligned, epsilon: float, centred: bool) -> Aligned:
    """The rows in FP32, brought to mean 0 (if ``centred``) and mean square 1."""
    channels = float(data.channels)
    row = Vector(kernel, Format.FP32, data.grid.positions * _LANES)
    if centred:
        mean = sums.of(split(kernel, data))
        row.vs("div", mean.base, mean.base, channels)
    wide = widened_slice(kernel, data)
    v = Vector(kernel, Format.FP32, wide.elements)
    if centred:
        v.vv("sub", wide.base, wide.base, _beside_planes(kernel, mean, wide).base)
    squares = slice_buffer(kernel, "squares", Format.FP32, wide.grid, wide.channels)
    v.unary("square", squares.base, wide.base)
    scale = sums.of(_parts_of_squares(kernel, squares, data.fmt))
    row.vs("div", scale.base, scale.base, channels)
    row.vs("add", scale.base, scale.base, epsilon)
    row.unary("rsqrt", scale.base, scale.base)
    v.vv("mul", wide.base, wide.base, _beside_planes(kernel, scale, wide).base)
    return wide


def _parts_of_squares(kernel: Kernel, squares: Aligned, fmt: Format) -> list[Aligned]:
    """Squares for the matrix engine: TF32, whose rounding is less than that of a root to 16 bits."""
    if fmt is Format.FP32:
        return split(kernel, squares)
    convert(kernel, squares.base, squares.base, squares.elements, Format.FP32, Format.TF32)
    return [squares.at(squares.base, Format.TF32)]


class _Sums:
    """Sums of rows in FP32, _LANES times each. The ones that the matrix engine needs are made here."""

    def __init__(self, kernel: Kernel, channels: int, engine: Format) -> None:
        self.kernel, self.channels = kernel, channels
        self.ones = {fmt: self._made(fmt) for fmt in dict.fromkeys((engine, Format.TF32))}

    def _made(self, fmt: Format) -> Value:
        ones = self.kernel.buffer("ones", aligned_bytes(self.channels, _LANES, fmt))
        self.kernel.emit(f"td.memset.{fmt.token}", dst=ones, value=1.0, n=self.channels * _LANES)
        return ones

    def of(self, parts: Sequence[Aligned]) -> Aligned:
        """[rows, _LANES]: the sums of slices that are added up."""
        target = slice_buffer(self.kernel, "sums", Format.FP32, parts[0].grid, _LANES)
        for step, part in enumerate(parts):
            psum: dict[str, Value] = {"psum": target.base} if step else {}
            self.kernel.emit(
                f"ne.gemm.{part.fmt.token}",
                a=part.base,
                b=self.ones[part.fmt],
                out=target.base,
                m=part.grid.positions,
                k=self.channels,
                n=_LANES,
                rt=1,
                out_format="fp32",
                **psum,
            )
        return target


def _beside_planes(kernel: Kernel, values: Aligned, like: Aligned) -> Aligned:
    """FP32 [rows, _LANES], one value for each row, as a slice of the shape of ``like``."""
    wide = slice_buffer(kernel, "row", Format.FP32, like.grid, BLOCK)
    size, copies = 4 * _LANES, BLOCK // _LANES
    kernel.emit(
        "td.gatherscatter",
        dst=wide.base,
        src0=values.base,
        n=size,
        src_stride0=0,
        src_iter0=copies,
        src_stride1=size,
        src_iter1=like.grid.positions,
        dst_stride0=size,
        dst_iter0=like.grid.positions * copies,
    )
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
