"""Conv on the matrix engine, over channels-last slices of output rows and blocks of output channels.

Where a row of all input channels does not fit, blocks of them are accumulated in FP32. Small groups are
merged: their weights become one block-diagonal matrix, so that the engine sees up to 64 input channels at a
time. (0 times an infinite input of another group is then NaN.)
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.codegen.aligned import (
    BLOCK,
    Aligned,
    aligned_bytes,
    channel_vector,
    load_aligned,
    load_vector,
    narrowed_slice,
    per_channel,
    slice_buffer,
    store_aligned,
)
from compiler.codegen.expr import Value, add, ceil_div, multiply, round_up
from compiler.codegen.kernel import Argument, Kernel
from compiler.codegen.precision import engine_format, multiply_parts, part_count, split
from compiler.codegen.tensors import Stretch, stretches
from compiler.codegen.windows import Geometry, RowBlock, geometry, limits, row_block, rows_per_block
from compiler.lowering.record import Order, Work, lowering
from compiler.lowering.weights import Groups, Volume, Weights, groups_of, weights_of
from compiler.operators.conv import conv_window
from compiler.operators.record import Call
from tx8isa.formats import Format
from tx8isa.layouts import SMALLEST_TAIL

_MOST_MAPS = 256
_MOST_CHANNELS = 16384
_SLACK = 8192


def _check(call: Call) -> str | None:
    window = conv_window(call)
    if max(call.shape(1)[:2]) > _MOST_CHANNELS:
        return f"at most {_MOST_CHANNELS} channels; found W {list(call.shape(1))}"
    for begin, end, extent in zip(window.pads_begin, window.pads_end, window.extents, strict=True):
        if max(begin, end) >= extent:
            return f"pads smaller than the dilated kernel; found {begin} and {end} with {extent}"
    return limits(window)


@dataclass(frozen=True)
class _Problem:
    """A convolution and how it is cut: maps, input channels and output rows of a slice."""

    work: Work
    g: Geometry
    groups: Groups
    maps: int
    channels: int
    rows: int

    @property
    def single(self) -> bool:
        """Whether all input channels of a group are taken together."""
        return self.channels == self.groups.channels


@dataclass(frozen=True)
class _Maps:
    """A block of output channels of a group; ``weights`` when all of them are loaded together."""

    group: Value
    block: Value
    first: Value
    count: int
    load: Weights
    weights: list[Value] | None
    bias: Value | None


@lowering("Conv", order=Order.CHANNELS_LAST, check=_check)
def convolution(k: Kernel, work: Work) -> None:
    """Each item is a block of output rows of one image, for one block of maps of one group."""
    p = _problem(k, work)
    batch, blocks, dealt = work.input(0).shape[0], ceil_div(p.g.rows, p.rows), 0
    bias = channel_vector(k, "bias_data", work.input(2)) if work.has(2) else None
    for stretch in stretches(p.groups.maps, p.maps):
        load = weights_of(k, work, p.groups, stretch, p.channels)

        def prepare(which: Value, stretch: Stretch = stretch, load: Weights = load) -> _Maps:
            group, block = k.let(which // stretch.count), k.let(which % stretch.count)
            first = add(add(multiply(group, p.groups.maps), multiply(block, stretch.size)), stretch.start)
            vector = load_vector(k, "bias", bias, first, stretch.size) if bias is not None else None
            volume = Volume(group, block, Stretch(0, p.channels, 1), 0)
            weights = load(volume) if p.single else None
            return _Maps(group, block, k.let(first), stretch.size, load, weights, vector)

        count = p.groups.count * stretch.count
        with k.grouped_items(count, batch * blocks, dealt, prepare) as (_, item, own):
            n, block = k.let(item // blocks), row_block(k, p.g, k.let(item % blocks), p.rows)
            _store(k, p, n, block, own.first, _convolve(k, p, n, block, own))
        dealt += count * batch * blocks


def _problem(k: Kernel, work: Work) -> _Problem:
    """Maps, channels and rows that fit: maps give way to weights, channels to rows."""
    g = geometry(conv_window(work.spec))
    groups = groups_of(work.spec, work.input(1).value is not None)
    fmt, batch = work.output.fmt, work.input(0).shape[0]
    parts, taps = part_count(fmt), g.kernel[0] * g.kernel[1]
    copies = 3 if parts > 1 else 2
    maps, channels = min(groups.maps, _MOST_MAPS), groups.channels

    def row_bytes() -> int:
        return copies * aligned_bytes(g.input_rows(1) * g.width, channels, fmt)

    def weight_bytes() -> int:
        return parts * aligned_bytes(taps * maps, channels, fmt)

    while row_bytes() * 2 > k.budget and channels > SMALLEST_TAIL:
        channels = _halved(channels)
    while weight_bytes() * 4 > k.budget and maps > 1:
        maps = _halved(maps) if maps > SMALLEST_TAIL else ceil_div(maps, 2)
    while groups.count * ceil_div(groups.maps, maps) * batch * g.rows < k.target.tiles and maps > BLOCK:
        maps = _halved(maps)
    per_in = copies * aligned_bytes(BLOCK, channels, fmt) // BLOCK
    per_out = (aligned_bytes(BLOCK, maps, Format.FP32) + 2 * aligned_bytes(BLOCK, maps, fmt)) // BLOCK
    items = groups.count * ceil_div(groups.maps, maps) * batch
    rows = rows_per_block(k, g, per_out * g.columns, per_in * g.width, weight_bytes() + _SLACK, items)
    return _Problem(work, g, groups, maps, channels, rows)


def _halved(extent: int) -> int:
    """About half, in whole planes as long as there are some."""
    return round_up(ceil_div(extent, 2), BLOCK if extent > BLOCK else SMALLEST_TAIL)


def _load(k: Kernel, p: _Problem, n: Value, block: RowBlock, lane: Value, channels: int) -> Aligned:
    """The image rows of a slice, ``channels`` of them from ``lane`` on."""
    source, g = p.work.input(0), p.g
    row = add(multiply(n, g.height), block.first)
    first = add(multiply(row, g.width * source.shape[-1]), lane)
    return load_aligned(k, "x", source, first, source.shape[-1], block.input, channels)


def _convolve(k: Kernel, p: _Problem, n: Value, block: RowBlock, maps: _Maps) -> Aligned:
    """The sums of one slice, with the bias in FP32; already rounded when nothing is added."""
    compute, g = p.work.output.fmt, p.g
    fmt = engine_format(compute)
    direct = p.single and maps.bias is None and part_count(compute) == 1
    result = slice_buffer(k, "y", fmt if direct else Format.FP32, block.output, maps.count)
    if not p.single:
        k.emit("td.memset.fp32", dst=result.base, value=0.0, n=result.elements)
    operands: dict[str, Argument] = {
        "dst_shape": result.shape, "window": [g.kernel[1], g.kernel[0], g.strides[1], g.strides[0]],
        "pad": block.pad, "dilation": [g.dilations[1], g.dilations[0]], "out_format": result.fmt.token,
    }  # fmt: skip
    for stretch in stretches(p.groups.channels, p.channels):
        with k.loop(stretch.count) as step:
            lane = add(
                add(multiply(maps.group, p.groups.channels), multiply(step, stretch.size)), stretch.start
            )
            data = split(k, _load(k, p, n, block, lane, stretch.size))
            weights = maps.weights or maps.load(Volume(maps.group, maps.block, stretch, step))
            images = [part.base for part in data]
            multiply_parts(
                k, f"ne.conv.{fmt.token}", ("a", images), ("w", weights), result.base, not p.single,
                {"shape": data[0].shape, **operands},
            )  # fmt: skip
    if maps.bias is not None:
        per_channel(k, "add", result, maps.bias)
    return result


def _store(k: Kernel, p: _Problem, n: Value, block: RowBlock, map_: Value, result: Aligned) -> None:
    target, g = p.work.output, p.g
    maps = target.shape[-1]
    if result.fmt is Format.FP32:
        result = narrowed_slice(k, result, target.fmt)
    row = add(multiply(n, g.rows), block.begin)
    store_aligned(k, result, target, add(multiply(row, g.columns * maps), map_), maps)
