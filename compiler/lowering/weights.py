"""Weights of a convolution as the matrix engine takes them: Cx volumes [ky, kx, maps, channels]."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from compiler.codegen.aligned import Grid, slice_buffer
from compiler.codegen.expr import Value, add, multiply
from compiler.codegen.kernel import Kernel
from compiler.codegen.precision import constant_parts, engine_format, part_count, split
from compiler.codegen.tensors import DdrTensor, Stretch, dma_loops, stretches
from compiler.graph import Array
from compiler.lowering.record import Work
from compiler.operators.record import Call
from tx8isa.formats import Format
from tx8isa.layouts import Layout
from tx8isa.packing import pack

_MOST_MERGED = 64


@dataclass(frozen=True)
class Groups:
    """Groups as the engine sees them: ``count``, each with ``channels`` inputs and ``maps`` outputs.

    ``merged`` groups of the specification make one of them.
    """

    count: int
    channels: int
    maps: int
    merged: int


def groups_of(call: Call, constant: bool) -> Groups:
    """Merge groups of constant weights as long as 64 input channels are not exceeded."""
    count, channels = call.integer("group"), call.shape(1)[1]
    maps = call.shape(1)[0] // count
    merged = 1
    if constant and count > 1:
        fitting = [n for n in range(1, count + 1) if count % n == 0 and n * channels <= _MOST_MERGED]
        merged = max(fitting, default=1)
    return Groups(count // merged, channels * merged, maps * merged, merged)


@dataclass(frozen=True)
class Volume:
    """Which weights: a group, a block of a stretch of maps, a block of a stretch of input channels."""

    group: Value
    block: Value
    channels: Stretch
    step: Value


Weights = Callable[[Volume], list[Value]]
"""Loads a volume: one address per part."""


def weights_of(k: Kernel, work: Work, groups: Groups, maps: Stretch, channels: int) -> Weights:
    """How the weights of a stretch of maps get into the scratchpad, ``channels`` inputs at a time."""
    source = work.input(1)
    if source.value is not None:
        return _constant(k, _dense(np.asarray(source.value), groups), work.output.fmt, maps, channels)
    return _computed(k, source, groups, maps)


def _dense(weights: Array, groups: Groups) -> Array:
    """Weights [M, I, (Ky,) Kx] as [group, maps, channels, ky, kx], merged groups side by side with zeros."""
    maps, channels = groups.maps // groups.merged, groups.channels // groups.merged
    taps = weights.shape[2:] if weights.ndim == 4 else (*weights.shape[2:], 1)
    source = weights.reshape(groups.count, groups.merged, maps, channels, *taps)
    result = np.zeros((groups.count, groups.merged, maps, groups.merged, channels, *taps), weights.dtype)
    for index in range(groups.merged):
        result[:, index, :, index] = source[:, index]
    return result.reshape(groups.count, groups.maps, groups.channels, *taps)


def _constant(k: Kernel, dense: Array, compute: Format, maps: Stretch, channels: int) -> Weights:
    """Volumes laid out when compiling, in the order group, block of maps, block of channels."""
    fmt = engine_format(compute)
    packed: dict[int, list[DdrTensor]] = {}
    for stretch in stretches(dense.shape[2], channels):
        parts: list[list[Array]] = [[] for _ in range(part_count(compute))]
        for piece in _pieces(dense, maps, stretch):
            for images, data in zip(parts, constant_parts(piece, compute), strict=True):
                images.append(pack(np.ascontiguousarray(data), fmt, Layout.CX).view(data.dtype))
        shape = (parts[0][0].size,)
        symbols = [k.constant("weights", fmt, np.concatenate(images)).symbol for images in parts]
        packed[stretch.start] = [DdrTensor(symbol, fmt, shape) for symbol in symbols]

    def load(volume: Volume) -> list[Value]:
        number = add(multiply(volume.group, maps.count), volume.block)
        number = add(multiply(number, volume.channels.count), volume.step)
        addresses: list[Value] = []
        for tensor in packed[volume.channels.start]:
            addresses.append(k.buffer("w", tensor.size * tensor.bytes_each))
            source = tensor.at(multiply(number, tensor.size))
            k.emit(f"rdma.{fmt.token}", dst=addresses[-1], src=source, n=tensor.size)
        return addresses

    return load


def _pieces(dense: Array, maps: Stretch, channels: Stretch) -> list[Array]:
    """The volumes [ky, kx, maps, channels] of all groups, blocks of maps and blocks of channels."""
    found = []
    for group in dense:
        for block in range(maps.count):
            first = maps.start + block * maps.size
            rows = group[first : first + maps.size]
            for step in range(channels.count):
                lane = channels.start + step * channels.size
                found.append(rows[:, lane : lane + channels.size].transpose(2, 3, 0, 1))
    return found


def _computed(k: Kernel, source: DdrTensor, groups: Groups, maps: Stretch) -> Weights:
    """Weights that are a graph input: gathered tap by tap, then brought to the aligned layout."""
    taps = source.size // (source.shape[0] * source.shape[1])
    fmt, pitch = source.fmt.token, groups.channels * taps

    def load(volume: Volume) -> list[Value]:
        channels = volume.channels.size
        row = add(add(multiply(volume.group, groups.maps), multiply(volume.block, maps.size)), maps.start)
        lane = add(multiply(volume.step, channels), volume.channels.start)
        first = add(multiply(row, pitch), multiply(lane, taps))
        compact = k.buffer("w_taps", taps * maps.size * channels * source.bytes_each)
        loops = dma_loops((1, pitch, taps), (taps, maps.size, channels))
        k.emit(f"rdma.{fmt}", dst=compact, src=source.at(first), **loops)
        result = slice_buffer(k, "w", source.fmt, Grid(taps * maps.size, 1, taps * maps.size), channels)
        shape: list[Value] = [1, taps, maps.size, channels]
        k.emit(f"td.channelnorm.{fmt}", dst=result.base, src0=compact, shape=shape, dst_shape=shape)
        return [part.base for part in split(k, result)]

    return load
