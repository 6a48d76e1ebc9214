"""Arranges the weights of a convolution for the matrix engine: Cx volumes [ky, kx, maps, channels]."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.aligned import Grid, slice_buffer
from compiler.codegen.slices.precision import constant_parts, engine_format, part_count, split
from compiler.codegen.slices.tensors import BLOCK, DdrTensor, Stretch, dma_loops, stretches
from compiler.graph import Array
from compiler.lowering.record import Work
from compiler.operators.record import Call
from compiler.operators.windows.conv import conv_window
from compiler.operators.windows.geometry import Window
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import LINE_BYTES, Layout, place
from tx8isa.numbers.packing import pack


@dataclass(frozen=True)
class Groups:
    """Groups as the engine computes them: ``count`` groups with ``channels`` inputs and ``maps`` outputs
    each.

    ``merged`` groups of the specification make one group of the engine.
    """

    count: int
    channels: int
    maps: int
    merged: int


def groups_of(call: Call, constant: bool) -> Groups:
    """Merge groups of constant weights as long as their input channels are at most one plane."""
    count, channels = call.integer("group"), call.shape(1)[1]
    maps = call.shape(1)[0] // count
    merged = 1
    if constant and count > 1:
        fitting = [number for number in range(1, count + 1) if count % number == 0]
        merged = max((number for number in fitting if number * channels <= BLOCK), default=1)
    return Groups(count // merged, channels * merged, maps * merged, merged)


@dataclass(frozen=True)
class Volume:
    """Names a volume of weights: a group, a block of maps, and a range of input channels."""

    group: Value
    block: Value
    channels: Stretch
    step: Value


Weights = Callable[[Volume], list[Value]]
"""Loads a volume: one address per part."""


@dataclass(frozen=True)
class PackedWeights:
    """Volumes that were laid out contiguously when compiling; by the stretch of channels, per part."""

    kernel: Kernel
    maps: Stretch
    packed: dict[int, list[DdrTensor]]

    def runs(self, volume: Volume) -> list[tuple[DdrTensor, Value]]:
        """The source of each part of a volume: a tensor, and the volume's first element in it."""
        number = volume.group * self.maps.count + volume.block
        number = number * volume.channels.count + volume.step
        return [(t, number * t.size) for t in self.packed[volume.channels.start]]

    def __call__(self, volume: Volume) -> list[Value]:
        addresses = self.buffers(volume)
        self.load(volume, addresses)
        return addresses

    def buffers(self, volume: Volume) -> list[Value]:
        """Room for the parts of a volume."""
        return [self.kernel.buffer("w", t.size * t.bytes_each) for t, _ in self.runs(volume)]

    def load(self, volume: Volume, addresses: list[Value], begin: float = 0, end: float = 1) -> None:
        """Load the parts of a volume to their addresses, or only the elements between two fractions of
        each."""
        for (tensor, first), address in zip(self.runs(volume), addresses, strict=True):
            low, high = (line_at(tensor, fraction) for fraction in (begin, end))
            if low < high:
                target, source = address + low * tensor.bytes_each, tensor.at(first + low)
                self.kernel.emit(f"rdma.{tensor.fmt.token}", dst=target, src=source, n=high - low)


def line_at(tensor: DdrTensor, fraction: float) -> int:
    """The element at a fraction of a run, rounded to the begin of a scratchpad line, or to the end of the
    run."""
    elements = LINE_BYTES // tensor.bytes_each
    return tensor.size if fraction == 1 else int(fraction * tensor.size) // elements * elements


def weights_of(kernel: Kernel, work: Work, groups: Groups, maps: Stretch, channels: int) -> Weights:
    """Return the loader of the weights of a stretch of maps, ``channels`` inputs at a time."""
    source = work.input(1)
    if source.value is None:
        return _computed(kernel, source, groups, maps)
    return packed_weights(kernel, work, groups, maps, stretches(groups.channels, channels))


def packed_weights(
    kernel: Kernel, work: Work, groups: Groups, maps: Stretch, channels: Sequence[Stretch]
) -> PackedWeights:
    """Constant weights of a stretch of maps, in volumes of blocks of these stretches of input channels."""
    values, compute = np.asarray(work.input(1).value), work.input(0).fmt
    taps = values.size // (values.shape[0] * values.shape[1])
    packed = {}
    for stretch in channels:
        count = groups.count * maps.count * stretch.count

        def volumes(stretch: Stretch = stretch) -> Array:
            return _volumes(_dense(values, groups), maps, stretch)

        shape = (count, taps * maps.size, stretch.size)
        packed[stretch.start] = _packed(kernel, compute, shape, volumes)
    return PackedWeights(kernel, maps, packed)


def row_weights(
    kernel: Kernel, work: Work, groups: Groups, window: tuple[int, int], maps: Stretch, channels: Stretch
) -> DdrTensor:
    """Constant weights for slices of channels that are rows of a window: [ky, slices, kx, maps, channels].

    One volume for each block of maps, contiguous; ``window``: its rows and columns.
    """
    values, (rows, columns) = np.asarray(work.input(1).value), window
    shape = (maps.count, rows * channels.count * columns * maps.size, channels.size)

    def volumes() -> Array:
        (dense,) = _dense(values, groups)
        blocks = _stretch(dense, maps)[:, :, channels.start :][:, :, : channels.count * channels.size]
        parts = blocks.reshape(maps.count, maps.size, channels.count, channels.size, rows, columns)
        return parts.transpose(0, 4, 2, 5, 1, 3).reshape(shape)

    (tensor,) = _packed(kernel, work.input(0).fmt, shape, volumes)
    return tensor


def windows_of(kernel: Kernel, work: Work, maps: Stretch) -> PackedWeights:
    """Return the loader of a depthwise convolution's windows: constants [C, 1, (Ky,) Kx].

    Maps are channels.
    """
    windows = _filled(np.asarray(work.input(1).value), conv_window(work.spec))
    shape = (maps.count, windows.shape[1], maps.size)

    def volumes() -> Array:
        return _stretch(windows, maps).transpose(0, 2, 1)

    return PackedWeights(kernel, maps, {0: _packed(kernel, work.input(0).fmt, shape, volumes)})


def _filled(windows: Array, window: Window) -> Array:
    """Windows [C, 1, (Ky,) Kx] as [C, elements], with zeros between the taps of dilated ones."""
    filled = np.zeros((len(windows), *window.extents), windows.dtype)
    filled[:, *(slice(None, None, step) for step in window.dilations)] = windows[:, 0]
    return filled.reshape(len(windows), -1)


def _packed(
    kernel: Kernel, compute: Format, shape: tuple[int, int, int], make: Callable[[], Array]
) -> list[DdrTensor]:
    """Contiguous volumes [count, rows, channels] as constants, one for each part."""
    fmt, size = engine_format(compute), place(engine_format(compute), shape, Layout.NCX).total_bytes
    found = []
    for part in range(part_count(compute)):

        def image(part: int = part) -> Array:
            data = constant_parts(make(), compute)[part]
            return pack(np.ascontiguousarray(data), fmt, Layout.NCX).view(data.dtype)

        symbol = kernel.lazy_constant("weights", fmt, size * 8 // fmt.bits, image).symbol
        found.append(DdrTensor(symbol, fmt, (size * 8 // fmt.bits // shape[0],)))
    return found


def _dense(weights: Array, groups: Groups) -> Array:
    """Weights [M, I, (Ky,) Kx] as [group, maps, channels, taps], merged groups side by side with zeros."""
    maps, channels = groups.maps // groups.merged, groups.channels // groups.merged
    source = weights.reshape(groups.count, groups.merged, maps, channels, -1)
    if groups.merged == 1:
        return source[:, 0]
    shape = (groups.count, groups.merged, maps, groups.merged, channels, source.shape[-1])
    result = np.zeros(shape, weights.dtype)
    for index in range(groups.merged):
        result[:, index, :, index] = source[:, index]
    return result.reshape(groups.count, groups.maps, groups.channels, -1)


def _stretch(data: Array, blocks: Stretch) -> Array:
    """A stretch of the first axis as blocks."""
    return data[blocks.start :][: blocks.count * blocks.size].reshape(
        blocks.count, blocks.size, *data.shape[1:]
    )


def _volumes(dense: Array, maps: Stretch, channels: Stretch) -> Array:
    """Volumes [taps * maps, channels] in the order group, block of maps, block of channels."""
    found = []
    for group in dense:
        rows = _stretch(group, maps)[:, :, channels.start :][:, :, : channels.count * channels.size]
        parts = rows.reshape(maps.count, maps.size, channels.count, channels.size, -1)
        found.append(parts.transpose(0, 2, 4, 1, 3))
    return np.concatenate(found).reshape(-1, dense.shape[-1] * maps.size, channels.size)


def _computed(kernel: Kernel, source: DdrTensor, groups: Groups, maps: Stretch) -> Weights:
    """Weights that are a graph input: gathered tap by tap, then brought to the aligned layout."""
    taps = source.size // (source.shape[0] * source.shape[1])
    fmt, pitch = source.fmt.token, groups.channels * taps

    def load(volume: Volume) -> list[Value]:
        channels = volume.channels.size
        row = volume.group * groups.maps + volume.block * maps.size + maps.start
        lane = volume.step * channels + volume.channels.start
        first = row * pitch + lane * taps
        compact = kernel.buffer("w_taps", taps * maps.size * channels * source.bytes_each)
        loops = dma_loops((1, pitch, taps), (taps, maps.size, channels))
        kernel.emit(f"rdma.{fmt}", dst=compact, src=source.at(first), **loops)
        result = slice_buffer(kernel, "w", source.fmt, Grid(taps * maps.size, 1, taps * maps.size), channels)
        shape: list[Value] = [1, taps, maps.size, channels]
        kernel.emit(f"td.channelnorm.{fmt}", dst=result.base, src0=compact, shape=shape, dst_shape=shape)
        return [part.base for part in split(kernel, result)]

    return load
