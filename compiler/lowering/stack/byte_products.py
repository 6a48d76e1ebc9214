"""Convolutions of bytes as stages of stacks: sums over planes of channels, and the bytes that they become.

The engine takes 128 channels of bytes as one plane, but values have planes of 64 in the scratchpad. A
convolution adds up products with single planes, in int32 and therefore in any order; so nothing is moved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.aligned import Aligned, slice_buffer
from compiler.codegen.slices.tensors import BLOCK, DdrTensor
from compiler.codegen.slices.windows import RowBlock
from compiler.graph import Array
from compiler.lowering.conv.int8 import engine_slices, requantisation, scale_number
from compiler.lowering.conv.product import multiply_slice
from tx8isa.numbers.division import round_up
from tx8isa.numbers.formats import Format

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


def _vector(stage: Stage, operand: int) -> Array | None:
    """The bits of a vector of the maps as FP32; None for a bias that is omitted, and for a scale of all."""
    if not stage.work.has(operand) or (operand == 3 and scale_number(stage.work) is not None):
        return None
    values = np.asarray(stage.work.input(operand).value).reshape(-1)
    return values.astype(np.int32).view(np.float32) if operand == 2 else values.astype(np.float32)


def multiply_bytes(
    kernel: Kernel,
    stage: Stage,
    window: RowBlock,
    images: Sequence[Aligned],
    weights: Sequence[Value],
    maps: int,
    vectors: MapVectors,
    into: Aligned | None = None,
) -> Aligned:
    """Bytes of ``maps`` maps at the positions of a window; ``weights`` are those of the engine's slices.

    ``into``: the place of the result; None for a new buffer.
    """
    how = requantisation(stage.work, scale_number(stage.work))
    sums = slice_buffer(kernel, "sums", stage.layer.sum_fmt, window.output, maps)
    parts = [part for image in images for part in engine_slices(image)]
    start, operands = None, how.operands
    if vectors.bias is not None:
        operands = operands | {"bias": vectors.bias}
    for image, part in zip(parts, weights, strict=True):
        multiply_slice(kernel, stage.layer, window.pad, [image], [part], sums, start, operands)
        start, operands = sums, how.operands
    return how.finished(kernel, sums, vectors.scales, stage.result.fmt, into)
