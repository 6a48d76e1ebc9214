"""Products of bytes: images in the order of the matrix engine, and sums in int32 as results.

Sums are exact: the engine's chain (docs/isa.md, INT8) ends with them here. They include the zero point of the
image, padding with it, and the bias. The engine's further steps to bytes cut bits off, where ONNX multiplies
by a scale in FP32 and rounds to even. So the vector engine does these steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Argument, Kernel
from compiler.codegen.slices.aligned import (
    Aligned,
    ChannelVector,
    Grid,
    aligned_bytes,
    channel_vector,
    load_vector,
    narrowed_slice,
    per_channel,
    slice_buffer,
)
from compiler.codegen.slices.precision import split
from compiler.codegen.slices.tensors import BLOCK, Stretch
from compiler.codegen.slices.vector import Vector, convert
from compiler.lowering.pointwise.quantisation import round_and_shift
from compiler.lowering.pointwise.record import known_number
from compiler.lowering.record import Work
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import LINE_BYTES, batch_bytes, block_channels, tail_width

from .engine_chain import ChainVectors, StoredChain, chained_slice, engine_chain, stored_chain

_PLANE = block_channels(8)
"""Channels of a plane of bytes for the engine."""
_PER_PLANE = _PLANE // BLOCK


@dataclass(frozen=True)
class Requantisation:
    """The conversion of the int32 sums of a product of bytes to its results.

    ``scale``: the number or the vector by which sums are multiplied; None leaves them unchanged. Scaled sums
    are results in floats, or are rounded and limited to ``low`` and ``high``.
    """

    x_zero: int
    y_zero: int
    low: int
    high: int
    scale: float | ChannelVector | None
    chain: StoredChain | None = None

    @property
    def operands(self) -> dict[str, Argument]:
        """The operand of the matrix engine for the zero point, in two's complement."""
        return {"zp_a": self.x_zero & 0xFF}

    def load_scales(self, kernel: Kernel, first: Value, channels: int) -> Value | ChainVectors | None:
        """Load the scales of some channels if they are a vector, or the vectors of the engine's steps."""
        if self.chain is not None:
            return self.chain.load(kernel, first, channels)
        if not isinstance(self.scale, ChannelVector):
            return None
        return load_vector(kernel, "scales", self.scale, first, channels)

    def finished(
        self,
        kernel: Kernel,
        sums: Aligned,
        scales: Value | ChainVectors | None,
        fmt: Format,
        into: Aligned | None = None,
    ) -> Aligned:
        """A slice of the result in its format from the sums, which are overwritten.

        ``scales``: the address of the scales of its channels, unless they are one number. ``into``: the place
        of a result that is not a float; None for a new buffer.
        """
        if isinstance(scales, ChainVectors):
            assert self.chain is not None
            result = into or slice_buffer(kernel, "bytes", fmt, sums.grid, sums.channels)
            chained_slice(kernel, self.chain.steps, scales, sums, result)
            return result
        if self.scale is None and scales is None:
            return sums
        convert(kernel, sums.base, sums.base, sums.elements, Format.INT32, Format.FP32)
        data = sums.at(sums.base, Format.FP32)
        vector = Vector(kernel, Format.FP32, data.elements)
        if scales is not None:
            per_channel(kernel, "mul", data, scales)
        elif isinstance(self.scale, float) and self.scale != 1.0:
            vector.vs("mul", data.base, data.base, self.scale)
        if not fmt.is_float:
            self._round(vector, data.base)
        if into is None:
            return narrowed_slice(kernel, data, fmt)
        convert(kernel, into.base, data.base, data.elements, data.fmt, into.fmt)
        return into

    def _round(self, vector: Vector, data: Value) -> None:
        """Round to whole numbers, unless the conversion to bytes does that and there is nothing to add."""
        if self.y_zero:
            round_and_shift(vector, data, self.y_zero)
        if self.low > np.iinfo(np.int8).min:
            vector.vs("max", data, data, self.low)
        if self.high < np.iinfo(np.int8).max:
            vector.vs("min", data, data, self.high)


def requantisation_of(kernel: Kernel, work: Work) -> Requantisation | None:
    """The requantisation of a product of bytes; None for products of floats."""
    if work.input(0).fmt is not Format.INT8:
        return None
    steps = engine_chain(work)
    if steps is not None:
        return replace(requantisation(work, None), chain=stored_chain(kernel, steps))
    number = scale_number(work)
    vector = work.has(3) and number is None
    return requantisation(work, channel_vector(kernel, "scale_data", work.input(3)) if vector else number)


def requantisation(work: Work, scale: float | ChannelVector | None) -> Requantisation:
    """The requantisation of a product of bytes with a scale."""
    x_zero, y_zero, low, high = (work.spec.integer(name) for name in ("x_zero", "y_zero", "low", "high"))
    return Requantisation(x_zero, y_zero, low, high, scale)


def scale_number(work: Work) -> float | None:
    """The scale of a product of bytes if it is one number."""
    return known_number(work.input(3)) if work.has(3) else None


def engine_stretches(stretch: Stretch, fmt: Format) -> list[Stretch]:
    """Divide slices of channels into parts that the matrix engine takes unchanged; for bytes, single planes.

    A stretch of slices that are larger than a plane but not whole planes must be a single slice.
    """
    whole, rest = divmod(stretch.size, BLOCK)
    if fmt is not Format.INT8 or stretch.size <= BLOCK:
        return [stretch]
    planes = [Stretch(stretch.start, BLOCK, whole * stretch.count)]
    return planes + [Stretch(stretch.start + whole * BLOCK, rest, 1)] * bool(rest)


def engine_slices(source: Aligned) -> list[Aligned]:
    """The parts of a slice, as :func:`engine_stretches` divides its channels."""
    if source.fmt is not Format.INT8 or source.channels <= BLOCK:
        return [source]
    firsts = range(0, source.channels, BLOCK)
    return [
        Aligned(source.plane(at), source.fmt, source.grid, min(source.channels - first, BLOCK))
        for at, first in enumerate(firsts)
    ]


def engine_parts(kernel: Kernel, source: Aligned) -> list[Aligned]:
    """Return a slice in the order of the matrix engine, where pairs of planes of bytes are adjacent."""
    if source.fmt is not Format.INT8:
        return split(kernel, source)
    if source.channels <= BLOCK:
        return [source]
    grid, channels = source.grid, source.channels
    size = batch_bytes(grid.room * grid.width, channels, source.fmt.bits) + LINE_BYTES
    target = Aligned(kernel.buffer("pairs", size), source.fmt, grid, channels)
    pairs = source.channels // _PLANE
    if pairs:
        for half in range(_PER_PLANE):
            _move_planes(kernel, target.base, source, half, BLOCK, pairs, half * BLOCK, _PLANE)
    _move_rest(kernel, target, source, pairs)
    return [target]


def _move_rest(kernel: Kernel, target: Aligned, source: Aligned, pairs: int) -> None:
    """Move the planes that are left after the full pairs, and the tail."""
    first, place = pairs * _PER_PLANE, target.base + target.grid.positions * (pairs * _PLANE)
    alone = source.planes - first
    pitch = tail_width(source.channels, _PLANE) or _PLANE
    for at in range(alone):
        _move_planes(kernel, place, source, first + at, BLOCK, 1, at * BLOCK, pitch)
    if source.tail:
        _move_planes(kernel, place, source, source.planes, source.tail, 1, alone * BLOCK, pitch)


def _move_planes(
    kernel: Kernel, target: Value, source: Aligned, first: int, width: int, count: int, lane: int, pitch: int
) -> None:
    """Move every second plane from ``first`` to one lane of the engine's order, ``pitch`` bytes wide.

    A single plane is moved without its lanes beyond the channels, which nothing has written.
    """
    positions, lanes = source.grid.positions, width
    loops: dict[str, Argument] = {}
    if count == 1:
        lanes = min(width, source.channels - first * BLOCK)
    else:
        loops = {"src_stride1": positions * (_PER_PLANE * BLOCK), "src_iter1": count}
        loops |= {"dst_stride1": positions * pitch, "dst_iter1": count}
    kernel.emit(
        "td.gatherscatter",
        dst=target + lane,
        src0=source.plane(first),
        n=lanes,
        src_stride0=width,
        src_iter0=positions,
        dst_stride0=pitch,
        dst_iter0=positions,
        **loops,
    )


def wide_planes(kernel: Kernel, grid: Grid, channels: int) -> Aligned:
    """A buffer for bytes in the engine's planes, of whole planes of 64 channels."""
    size = batch_bytes(grid.room * grid.width, channels, Format.INT8.bits) + LINE_BYTES
    return Aligned(kernel.buffer("wide", size), Format.INT8, grid, channels)


def take_apart(kernel: Kernel, wide: Aligned, target: Aligned) -> None:
    """Bytes in the engine's planes as planes of 64 channels."""
    positions, (pairs, alone) = wide.grid.positions, divmod(wide.channels // BLOCK, _PER_PLANE)
    kernel.emit(
        "td.gatherscatter",
        dst=target.base,
        src0=wide.base,
        n=BLOCK,
        src_stride0=_PLANE,
        src_iter0=positions,
        src_stride1=BLOCK,
        src_iter1=_PER_PLANE,
        src_stride2=positions * _PLANE,
        src_iter2=pairs,
        dst_stride0=BLOCK,
        dst_iter0=positions,
        dst_stride1=positions * BLOCK,
        dst_iter1=_PER_PLANE,
        dst_stride2=positions * _PLANE,
        dst_iter2=pairs,
    )
    if alone:
        place = wide.base + positions * (pairs * _PLANE)
        kernel.emit("td.gatherscatter", dst=target.plane(pairs * _PER_PLANE), src0=place, n=positions * BLOCK)


def engine_bytes(positions: int, channels: int) -> int:
    """Scratchpad bytes of the copy that :func:`engine_parts` makes of a slice of bytes."""
    if channels <= BLOCK:
        return 0
    return max(
        batch_bytes(positions, channels, Format.INT8.bits), aligned_bytes(positions, channels, Format.INT8)
    )
