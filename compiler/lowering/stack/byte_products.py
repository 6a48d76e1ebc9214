"""Convolutions of bytes as stages of stacks: sums over planes of channels, and their conversion to bytes.

The engine takes 128 channels of bytes as one plane, but values have planes of 64 in the scratchpad. A
convolution adds up products with single planes, in int32 and therefore in any order; so nothing is moved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

import numpy as np

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Argument, Kernel
from compiler.codegen.slices.aligned import Aligned, slice_buffer
from compiler.codegen.slices.tensors import BLOCK, DdrTensor, Stretch
from compiler.codegen.slices.windows import Geometry, RowBlock
from compiler.graph import Array
from compiler.lowering.conv.layer import Kind
from compiler.lowering.conv.product import multiply_slice
from compiler.lowering.conv.quantised.engine_chain import (
    ZEROS_BYTES,
    ChainVectors,
    EngineChain,
    chained_slice,
    engine_chain,
    fits_instruction,
)
from compiler.lowering.conv.quantised.int8 import requantisation, scale_number, take_apart, wide_planes
from compiler.lowering.conv.quantised.sums import sum_data
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
    """Addresses of a stage's vectors for its maps: a bias in int32, scales in FP32.

    None for a missing one.
    """

    bias: Value | None = None
    scales: Value | None = None
    chain: ChainVectors | None = None
    """Instead of both, the vectors of the engine's own steps to bytes."""


def of_bytes(stage: Stage) -> bool:
    """True if a stage is a convolution of bytes."""
    return stage.layer.kind.weighted and stage.layer.fmt is Format.INT8


def map_vectors(
    kernel: Kernel, order: Sequence[Stage], share: Callable[[Stage], Share] | None = None
) -> dict[str, MapVectors]:
    """Load the vectors of the convolutions of bytes among these stages, by the symbols of their results.

    ``share``: the division of a stage's maps, if a tile has a part of them.
    """
    rows = kernel.target.tiles if share is not None else 1
    parts = [np.zeros((rows, ZEROS_BYTES // 4), np.float32)]
    places, offset = dict[tuple[str, int], int](), ZEROS_BYTES
    for stage in filter(of_bytes, order):
        for operand, values in _vectors(stage).items():
            own = share(stage) if share is not None else Share(values.size, 1)
            part = np.zeros((rows, round_up(own.width, BLOCK)), values.dtype)
            part[: own.tiles, : own.width] = values.reshape(own.tiles, own.width)
            places[stage.result.symbol, operand] = offset
            offset += part.dtype.itemsize * part.shape[1]
            parts.append(part.view(np.float32))
    if not places:
        return {stage.result.symbol: MapVectors() for stage in filter(of_bytes, order)}
    data = np.concatenate(parts, axis=1)
    symbol = kernel.constant("vector_data", Format.FP32, data.reshape(-1)).symbol
    base, count = kernel.buffer("vectors", offset), data.shape[1]
    first = kernel.tile * count if share is not None else 0
    kernel.emit("rdma.fp32", dst=base, src=DdrTensor(symbol, Format.FP32, (data.size,)).at(first), n=count)
    found = {key: base + at for key, at in places.items()}
    made = dict[str, MapVectors]()
    for stage in filter(of_bytes, order):
        bias, scales = (found.get((stage.result.symbol, operand)) for operand in (2, 3))
        if engine_chain(stage.work) is None:
            made[stage.result.symbol] = MapVectors(bias, scales)
        else:
            assert bias is not None and scales is not None
            made[stage.result.symbol] = MapVectors(chain=ChainVectors(bias, scales, base))
    return made


def sum_matrices(kernel: Kernel, order: Sequence[Stage]) -> dict[str, Value]:
    """Load the matrices that multiply the operands of sums of bytes; addresses by the symbols of results."""
    sums = [stage for stage in order if stage.layer.kind is Kind.SUM]
    parts = [sum_data(sum_quantisation(stage.work.spec)) for stage in sums]
    if not any(part.size for part in parts):
        return {stage.result.symbol: 0 for stage in sums}
    data = np.concatenate(parts).view(np.float16)
    base = kernel.buffer("matrices", data.nbytes)
    source = DdrTensor(kernel.constant("sum_data", Format.FP16, data).symbol, Format.FP16, data.shape)
    kernel.emit("rdma.fp16", dst=base, src=source.at(0), n=data.size)
    places = accumulate((part.size for part in parts), initial=0)
    return {stage.result.symbol: base + place for stage, place in zip(sums, places, strict=False)}


def _vectors(stage: Stage) -> dict[int, Array]:
    """The vectors of the maps, by the operands' numbers, without an omitted bias or a scale common to all.

    If the engine's own steps make the bytes, the vectors are theirs.
    """
    work, chain = stage.work, engine_chain(stage.work)
    if chain is not None:
        return {2: chain.biases, 3: chain.scales}
    found = dict[int, Array]()
    if work.has(2):
        found[2] = np.asarray(work.input(2).value).reshape(-1).astype(np.int32)
    if scale_number(work) is None:
        found[3] = np.asarray(work.input(3).value).reshape(-1).astype(np.float32)
    return found


@dataclass(frozen=True)
class RowTap:
    """A row of a convolution's window: it adds to ``count`` rows of the result from ``first``.

    ``image`` is the image row for the first of these.
    """

    number: int
    first: int
    count: int
    image: int


def row_taps(geometry: Geometry, slices: Stretch, maps: int, rows: Value | None) -> list[RowTap]:
    """The rows of a window that can be replaced by slices of channels as rows of a window.

    Slices are contiguous, so a window with one row for each slice, an image apart, adds up all of them.
    That takes one instruction for each row of the window that it replaces. An engine writes whole
    lines, so a row of the window that adds nothing to the last rows of the result comes first, before these
    have values. ``rows``: number of rows of the result, if only a part of the image is present; windows
    then have one row. Empty if this is not possible, or saves no instructions.
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
    if taps[0].count < geometry.rows:  # one that has all positions may then be the last
        taps.sort(key=lambda tap: tap.count == geometry.rows)
    ends = [tap for tap in taps if tap.first + tap.count < geometry.rows]
    one_plane = all(tap.count == geometry.rows for tap in taps) or maps <= BLOCK
    whole = any(tap.count == geometry.rows for tap in taps)
    before = not ends or (len(ends) == 1 and ends[0].first == 0 == slices.start)
    return taps if rows is None and whole and one_plane and before else []


@dataclass(frozen=True)
class SumsOfBytes:
    """Emits the sums of a stage for ``maps`` maps; the first instruction begins with the bias.

    ``result``: the slice into which the last instruction writes bytes, with the operands ``last``; None if
    it writes sums.
    """

    kernel: Kernel
    stage: Stage
    window: RowBlock
    maps: int
    sums: Aligned
    zeros: dict[str, Argument]
    bias: Value | None
    result: Aligned | None = None
    last: dict[str, Argument] = field(default_factory=dict)

    @property
    def _first(self) -> dict[str, Argument]:
        """Operands of the first instruction."""
        return self.zeros if self.bias is None else self.zeros | {"bias": self.bias}

    def by_rows(
        self, taps: Sequence[RowTap], image: Aligned, count: int, weights: Value, first: bool, last: bool
    ) -> None:
        """Multiply all slices, from ``image``, with one row of the window at a time."""
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
            ends = self._ends(last and tap is taps[-1])
            self.kernel.emit(
                "ne.conv.int8",
                out=place if ends is None else ends.base,
                out_format="int32" if ends is None else "int8",
                shape=[1, grid.height * (count - 1) + (rows - 1) * stride + 1, grid.width, image.channels],
                dst_shape=[1, rows, out.width, self.maps],
                pad=[0, 0, *self.window.pad[2:]],
                window=[geometry.kernel[1], count, geometry.strides[1], stride],
                dilation=[geometry.dilations[1], grid.height],
                a=image.base + tap.image * grid.width * width,
                w=weights + tap.number * volume,
                **(self._first if tap is biased else self.zeros),
                **start,
                **(self.last if ends is not None else {}),
            )
            rest = geometry.rows - tap.first - tap.count
            if rest:
                after = self.sums.base + (tap.first + tap.count) * each * 4
                self.kernel.emit("td.memset.int32", dst=after, value=0, n=rest * each)

    def by_slices(self, images: Sequence[Aligned], weights: Sequence[Value], first: bool, last: bool) -> None:
        """Multiply one slice at a time."""
        for at, (image, part) in enumerate(zip(images, weights, strict=True)):
            begins = first and at == 0
            zeros, start = (self._first, None) if begins else (self.zeros, self.sums)
            ends = self._ends(last and at == len(images) - 1)
            zeros = zeros if ends is None else zeros | self.last
            target = ends or self.sums
            multiply_slice(
                self.kernel, self.stage.layer, self.window.pad, [image], [part], target, start, zeros
            )

    def _ends(self, last: bool) -> Aligned | None:
        """The slice into which an instruction writes bytes, if it is the last one."""
        return self.result if last else None


def byte_weights(
    kernel: Kernel, stage: Stage, maps: Stretch, slices: Stretch, taps: Sequence[RowTap]
) -> tuple[DdrTensor, int]:
    """Constant weights of slices of channels for blocks of maps: a volume, and the number in a block."""
    work, groups = stage.work, stage.layer.groups
    if taps:
        return row_weights(kernel, work, groups, stage.layer.geometry.kernel, maps, slices), 1
    return packed_weights(kernel, work, groups, maps, [slices]).packed[slices.start][0], slices.count


@dataclass(frozen=True)
class ByteImage:
    """The image of a stage: slices of channels in the scratchpad, in stretches that are contiguous.

    ``stretches``: slices that are equally wide and contiguous, see ``engine_stretches``.
    ``rows``: rows of the result, if only a part of the image is present.
    """

    slices: Sequence[Aligned]
    stretches: Sequence[Stretch]
    rows: Value | None = None


def multiply_bytes(
    product: SumsOfBytes,
    image: ByteImage,
    weights: Sequence[Value],
    vectors: MapVectors,
    into: Aligned | None,
) -> Aligned:
    """The bytes of a stage; ``weights``: the volumes of ``byte_weights``, of all stretches.

    ``into``: the place of the result; None for a new buffer.
    """
    stage, kernel, sums = product.stage, product.kernel, product.sums
    if vectors.chain is None:
        _multiply(product, image, weights)
        how = requantisation(stage.work, scale_number(stage.work))
        return how.finished(kernel, sums, vectors.scales, stage.result.fmt, into)
    chain = engine_chain(stage.work)
    assert chain is not None
    result = into or slice_buffer(kernel, "bytes", stage.result.fmt, sums.grid, sums.channels)
    if _fits_last(product, image, chain):
        product = replace(product, result=result, last=chain.operands(vectors.chain))
        _multiply(product, image, weights)
    elif _fits_last(replace(product, maps=BLOCK), image, chain) and _is_soon_apart(kernel, sums):
        wide = wide_planes(kernel, sums.grid, sums.channels)
        product = replace(product, result=wide, last=chain.operands(vectors.chain))
        _multiply(product, image, weights)
        take_apart(kernel, wide, result)
    else:
        _multiply(product, image, weights)
        chained_slice(kernel, chain, vectors.chain, sums, result)
    return result


def _fits_last(product: SumsOfBytes, image: ByteImage, chain: EngineChain) -> bool:
    """True if the last instruction of a product has all positions and can end with the steps to bytes."""
    layer, stretch = product.stage.layer, image.stretches[-1]
    taps = row_taps(layer.geometry, stretch, product.maps, image.rows)
    whole = not taps or taps[-1].count == layer.geometry.rows
    return whole and fits_instruction(chain, layer.kind is Kind.GEMM and not taps, product.maps)


def _is_soon_apart(kernel: Kernel, sums: Aligned) -> bool:
    """True if taking apart the engine's planes of bytes on the TDMA engine takes less time than issuing an
    instruction for each plane of sums.
    """
    timing, planes = kernel.target.machine.timing, sums.channels // BLOCK
    if sums.channels % BLOCK:
        return False
    pairs, alone = divmod(planes, 2)
    moves = 2 * pairs * sums.grid.room * sums.grid.width * timing.tdma.transfer.value
    return bool(moves < (planes - 1 - alone) * timing.issue.of("ct").value)


def _multiply(product: SumsOfBytes, image: ByteImage, weights: Sequence[Value]) -> None:
    """All instructions of a product."""
    geometry, at, volume = product.stage.layer.geometry, 0, 0
    for number, stretch in enumerate(image.stretches, 1):
        slices, first, last = image.slices[at : at + stretch.count], at == 0, number == len(image.stretches)
        taps = row_taps(geometry, stretch, product.maps, image.rows)
        if taps:
            product.by_rows(taps, slices[0], stretch.count, weights[volume], first, last)
        else:
            product.by_slices(slices, weights[volume : volume + stretch.count], first, last)
        at, volume = at + stretch.count, volume + (1 if taps else stretch.count)


def sums_of_bytes(
    kernel: Kernel, stage: Stage, window: RowBlock, maps: int, vectors: MapVectors
) -> SumsOfBytes:
    """The product of a stage for ``maps`` maps at the positions of a window, with a buffer for its sums."""
    sums = slice_buffer(kernel, "sums", stage.layer.sum_fmt, window.output, maps)
    how = requantisation(stage.work, scale_number(stage.work))
    return SumsOfBytes(kernel, stage, window, maps, sums, how.operands, vectors.bias)
