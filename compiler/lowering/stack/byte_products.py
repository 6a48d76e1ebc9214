"""Convolutions of bytes as stages of stacks: sums over planes of channels, and the bytes that they become.

The engine takes 128 channels of bytes as one plane, but values have planes of 64 in the scratchpad. A
convolution adds up products with single planes, in int32 and therefore in any order; so nothing is moved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Argument, Kernel
from compiler.codegen.slices.aligned import Aligned, slice_buffer
from compiler.codegen.slices.tensors import BLOCK, DdrTensor, Stretch
from compiler.codegen.slices.windows import Geometry, RowBlock
from compiler.graph import Array
from compiler.lowering.conv.int8 import requantisation, scale_number
from compiler.lowering.conv.layer import Kind
from compiler.lowering.conv.product import multiply_slice
from compiler.lowering.conv.sums import OPERAND_ELEMENTS, sum_parts
from compiler.lowering.conv.weights import packed_weights, row_weights
from compiler.operators.quantised.sums import sum_quantisation
from tx8isa.numbers.division import round_up
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import aligned_channels
from tx8isa.numbers.limits import LARGEST_DILATION, LARGEST_EXTENT, LARGEST_KERNEL

from .stages import Stage
from .whole import Share


@dataclass(frozen=True)
class MapVectors:
    """Addresses of what a stage has for each of its maps: a bias in int32, scales in FP32; None without."""

    bias: Value | None = None
    scales: Value | None = None


def of_bytes(stage: Stage) -> bool:
    """Whether a stage is a convolution of bytes."""
    return stage.layer.kind.weighted and stage.layer.fmt is Format.INT8


def map_vectors(
    kernel: Kernel, order: Sequence[Stage], share: Callable[[Stage], Share] | None = None
) -> dict[str, MapVectors]:
    """Load the vectors of the convolutions of bytes among these stages, by the symbols of their results.

    ``share``: how the maps of a stage are divided, if a tile has a part of them.
    """
    rows = kernel.target.tiles if share is not None else 1
    parts, places, offset = list[Array](), dict[tuple[str, int], int](), 0
    for stage in filter(of_bytes, order):
        for operand in (2, 3):
            values = _vector(stage, operand)
            if values is not None:
                own = share(stage) if share is not None else Share(values.size, 1)
                part = np.zeros((rows, round_up(own.width, BLOCK)), np.float32)
                part[: own.tiles, : own.width] = values.reshape(own.tiles, own.width)
                places[stage.result.symbol, operand] = offset
                offset += part.dtype.itemsize * part.shape[1]
                parts.append(part)
    if not parts:
        return {stage.result.symbol: MapVectors() for stage in filter(of_bytes, order)}
    data = np.concatenate(parts, axis=1)
    symbol = kernel.constant("vector_data", Format.FP32, data.reshape(-1)).symbol
    base, count = kernel.buffer("vectors", offset), data.shape[1]
    first = kernel.tile * count if share is not None else 0
    kernel.emit("rdma.fp32", dst=base, src=DdrTensor(symbol, Format.FP32, (data.size,)).at(first), n=count)
    found = {key: base + at for key, at in places.items()}
    return {
        symbol: MapVectors(found.get((symbol, 2)), found.get((symbol, 3)))
        for symbol in (stage.result.symbol for stage in filter(of_bytes, order))
    }


def sum_matrices(kernel: Kernel, order: Sequence[Stage]) -> dict[str, Value]:
    """Load what the matrix engine multiplies the operands of sums of bytes by, by the symbols of results."""
    sums = [stage for stage in order if stage.layer.kind is Kind.SUM]
    found = [sum_parts(sum_quantisation(stage.work.spec)) for stage in sums]
    parts = [np.zeros(OPERAND_ELEMENTS, np.float16) if each is None else each.matrices for each in found]
    if not parts:
        return {}
    data = np.concatenate(parts)
    base = kernel.buffer("matrices", data.nbytes)
    source = DdrTensor(kernel.constant("sum_data", Format.FP16, data).symbol, Format.FP16, data.shape)
    kernel.emit("rdma.fp16", dst=base, src=source.at(0), n=data.size)
    size = data.itemsize * OPERAND_ELEMENTS
    return {stage.result.symbol: base + at * size for at, stage in enumerate(sums)}


def _vector(stage: Stage, operand: int) -> Array | None:
    """The bits of a vector of the maps as FP32; None for a bias that is omitted, and for a scale of all."""
    if not stage.work.has(operand) or (operand == 3 and scale_number(stage.work) is not None):
        return None
    values = np.asarray(stage.work.input(operand).value).reshape(-1)
    return values.astype(np.int32).view(np.float32) if operand == 2 else values.astype(np.float32)


@dataclass(frozen=True)
class RowTap:
    """A row of a convolution's window: it adds to ``count`` rows of the result from ``first`` on.

    The image row of the first of them is ``image``.
    """

    number: int
    first: int
    count: int
    image: int


def row_taps(geometry: Geometry, slices: Stretch, maps: int, rows: Value | None) -> list[RowTap]:
    """The rows of a window for which slices of channels can be rows of a window in their place.

    Slices are contiguous, so a window with as many rows as there are slices, each an image apart,
    adds up all of them: one instruction for each row of the window that it replaces. An engine writes whole
    lines, so a row of the window that adds nothing to the last rows of the result comes first, before there
    is something in them. ``rows``: how many the result has, where an image is not there as a whole; windows
    then have one row. Nothing where this is not possible, or takes no fewer instructions.
    """
    (height, _), (stride, _), (dilation, _) = geometry.kernel, geometry.strides, geometry.dilations
    tall = slices.count > LARGEST_KERNEL or slices.count * geometry.height > LARGEST_EXTENT
    if height >= slices.count or tall or geometry.height > LARGEST_DILATION:
        return []
    if height == 1:
        return [RowTap(0, 0, geometry.rows, 0)]
    taps = []
    for number in range(height):
        skipped = number * dilation - geometry.begin[0]
        first = max(0, -(skipped // stride))
        last = min(geometry.rows - 1, (geometry.height - 1 - skipped) // stride)
        if first <= last:
            taps.append(RowTap(number, first, last - first + 1, first * stride + skipped))
    taps.sort(key=lambda tap: (tap.first + tap.count == geometry.rows, tap.first))
    ends = [tap for tap in taps if tap.first + tap.count < geometry.rows]
    one_plane = all(tap.count == geometry.rows for tap in taps) or maps <= BLOCK
    whole = any(tap.count == geometry.rows for tap in taps)
    before = not ends or (len(ends) == 1 and ends[0].first == 0 == slices.start)
    return taps if rows is None and whole and one_plane and before else []


@dataclass(frozen=True)
class SumsOfBytes:
    """Emits the sums of a stage for ``maps`` maps; the first instruction begins with the bias."""

    kernel: Kernel
    stage: Stage
    window: RowBlock
    maps: int
    sums: Aligned
    zeros: dict[str, Argument]
    bias: Value | None

    @property
    def _first(self) -> dict[str, Argument]:
        """Operands of the first instruction."""
        return self.zeros if self.bias is None else self.zeros | {"bias": self.bias}

    def by_rows(
        self, taps: Sequence[RowTap], image: Aligned, count: int, weights: Value, first: bool
    ) -> None:
        """All slices, the first of which is ``image``, with a row of the window at a time."""
        geometry, grid, out = self.stage.layer.geometry, image.grid, self.window.output
        stride, width = geometry.strides[0], aligned_channels(image.channels, BLOCK)
        volume = count * geometry.kernel[1] * self.maps * width
        each = out.width * aligned_channels(self.maps, BLOCK)
        biased = next(tap for tap in taps if tap.count == geometry.rows) if first else None
        for tap in taps:
            place, whole = self.sums.base + tap.first * each * 4, tap.count == geometry.rows
            start: dict[str, Argument] = {"psum": place, "psum_format": "int32"}
            if first and tap is taps[0]:
                start = {}
            rows = out.height if whole else tap.count
            self.kernel.emit(
                "ne.conv.int8",
                out=place,
                out_format="int32",
                shape=[1, grid.height * (count - 1) + (rows - 1) * stride + 1, grid.width, image.channels],
                dst_shape=[1, rows, out.width, self.maps],
                pad=[0, 0, *self.window.pad[2:]],
                window=[geometry.kernel[1], count, geometry.strides[1], stride],
                dilation=[geometry.dilations[1], grid.height],
                a=image.base + tap.image * grid.width * width,
                w=weights + tap.number * volume,
                **(self._first if tap is biased else self.zeros),
                **start,
            )
            rest = geometry.rows - tap.first - tap.count
            if rest:
                after = self.sums.base + (tap.first + tap.count) * each * 4
                self.kernel.emit("td.memset.int32", dst=after, value=0, n=rest * each)

    def by_slices(self, images: Sequence[Aligned], weights: Sequence[Value], first: bool) -> None:
        """A slice at a time."""
        for at, (image, part) in enumerate(zip(images, weights, strict=True)):
            begins = first and at == 0
            zeros, start = (self._first, None) if begins else (self.zeros, self.sums)
            multiply_slice(
                self.kernel, self.stage.layer, self.window.pad, [image], [part], self.sums, start, zeros
            )


def byte_weights(
    kernel: Kernel, stage: Stage, maps: Stretch, slices: Stretch, taps: Sequence[RowTap]
) -> tuple[DdrTensor, int]:
    """Constant weights of slices of channels for blocks of maps: a volume, and how many make up a block."""
    work, groups = stage.work, stage.layer.groups
    if taps:
        return row_weights(kernel, work, groups, stage.layer.geometry.kernel, maps, slices), 1
    return packed_weights(kernel, work, groups, maps, [slices]).packed[slices.start][0], slices.count


@dataclass(frozen=True)
class ByteImage:
    """The image of a stage: slices of channels in the scratchpad, and how they follow each other.

    ``stretches``: slices that are equally wide and contiguous, see ``engine_stretches``.
    ``rows``: rows of the result, where an image is not there as a whole.
    """

    slices: Sequence[Aligned]
    stretches: Sequence[Stretch]
    rows: Value | None = None


def multiply_bytes(
    product: SumsOfBytes,
    image: ByteImage,
    weights: Sequence[Value],
    scales: Value | None,
    into: Aligned | None,
) -> Aligned:
    """The bytes of a stage; ``weights``: the volumes of ``byte_weights``, of all stretches.

    ``into``: the place of the result; None for a new buffer.
    """
    geometry, at, volume = product.stage.layer.geometry, 0, 0
    for stretch in image.stretches:
        slices = image.slices[at : at + stretch.count]
        taps = row_taps(geometry, stretch, product.maps, image.rows)
        if taps:
            product.by_rows(taps, slices[0], stretch.count, weights[volume], at == 0)
        else:
            product.by_slices(slices, weights[volume : volume + stretch.count], at == 0)
        at, volume = at + stretch.count, volume + (1 if taps else stretch.count)
    how = requantisation(product.stage.work, scale_number(product.stage.work))
    return how.finished(product.kernel, product.sums, scales, product.stage.result.fmt, into)


def sums_of_bytes(
    kernel: Kernel, stage: Stage, window: RowBlock, maps: int, vectors: MapVectors
) -> SumsOfBytes:
    """The product of a stage for ``maps`` maps at the positions of a window, with a buffer for its sums."""
    sums = slice_buffer(kernel, "sums", stage.layer.sum_fmt, window.output, maps)
    how = requantisation(stage.work, scale_number(stage.work))
    return SumsOfBytes(kernel, stage, window, maps, sums, how.operands, vectors.bias)
