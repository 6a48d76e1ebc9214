"""Conv on the matrix engine, with the pointwise operators behind it.

A tile has a share of the images, of the output rows and of the maps (output channels); the weights and the
bias of its first maps are on their way while other tiles finish what came before. A bias and a residual
tensor are where the sums begin (partial sums of the matrix engine), so that the engine can round to the
format of the result. Where a row of all input channels does not fit, blocks of them are accumulated in FP32.

Small groups are merged: their weights become one block-diagonal matrix, so that the engine sees up to 64
input channels at a time. (0 times an infinite input of another group is then NaN.)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from compiler.codegen.aligned import (
    Aligned,
    ChannelVector,
    Grid,
    Place,
    channel_vector,
    load_slice,
    load_vector,
    narrowed_slice,
    per_channel,
    slice_buffer,
    spread,
    store_slice,
    stored_elements,
    widened_slice,
)
from compiler.codegen.dealing import Share, coordinates, dealt, share, slices, within
from compiler.codegen.expr import Value, add, maximum, minimum, multiply
from compiler.codegen.kernel import Argument, Kernel
from compiler.codegen.precision import PRODUCTS, engine_format, part_count, split
from compiler.codegen.share import Team, TileGrid
from compiler.codegen.spm import SpmOverflow
from compiler.codegen.tensors import Stretch, stretches
from compiler.codegen.windows import RowBlock, limits, row_block
from compiler.lowering.blocked import through_compact
from compiler.lowering.conv_cuts import OWN, WEIGHTS, Plan, cuts, layer_for, plan_of, plans
from compiler.lowering.conv_layer import Epilogue, Kind, Layer, epilogue_of, layer_of, stays_in_planes
from compiler.lowering.gather import Gather, enter, meet_all
from compiler.lowering.pointwise import apply_steps
from compiler.lowering.record import Order, Work, lowering
from compiler.lowering.region import SliceRegion
from compiler.lowering.weights import PackedWeights, Volume, Weights, weights_of, windows_of
from compiler.operators.conv import conv_window
from compiler.operators.record import Call
from tx8isa.formats import Format

_MOST_CHANNELS = 16384


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
    """A convolution, how it is cut, and what this tile has of it."""

    work: Work
    layer: Layer
    plan: Plan
    epilogue: Epilogue
    images: Share
    rows: Share

    @property
    def single(self) -> bool:
        """Whether all input channels of a group are taken together."""
        return self.layer.channelwise or self.plan.channels == self.layer.groups.channels

    @property
    def height(self) -> Value | None:
        """Output rows of each of the tile's slices, if all have as many; at least 1."""
        if self.rows.even:
            return self.rows.size
        return within(maximum(self.rows.length, 1), 1, self.rows.size) if self.rows.most == 1 else None


@dataclass(frozen=True)
class _Maps:
    """The maps of a slice, ``first`` their first: weights, when they are loaded once, and the bias.

    ``start`` is the bias at every position of a slice, where the sums begin.
    """

    group: Value
    block: Value
    first: Value
    count: int
    load: Weights
    weights: list[Value] | None
    bias: Value | None
    start: Aligned | None


@lowering(
    "Conv", order=Order.CHANNELS_LAST, check=_check, cuts=cuts, anchor=True, blocked=True, prefetch=True
)
def convolution(k: Kernel, work: Work) -> None:
    """Slices of output rows of an image and of the maps of a group."""
    layer = layer_of(work)
    plan = plan_of(work.cut) if work.cut is not None else _best(k, layer, stays_in_planes(work))
    if plan is None:
        through_compact(k, work, convolution)
        return
    layer = layer_for(layer, plan)
    parts = (plan.images, plan.row_parts, plan.map_parts)
    image, row, map_ = coordinates(k, parts)
    p = _Problem(
        work, layer, plan, epilogue_of(work),
        share(layer.batch, plan.images, image, 1), share(layer.g.rows, plan.row_parts, row, plan.rows),
    )  # fmt: skip
    bias = channel_vector(k, "bias_data", work.input(2)) if work.has(2) else None
    if any(tensor is not None and tensor.value is None for tensor in work.inputs[1:]):
        k.begin()
    blocks = dealt(layer.groups.maps, plan.maps, plan.map_parts, map_, layer.groups.count)
    jobs = [_Job(k, p, stretch, own, bias) for stretch, own in blocks]
    grid = TileGrid(parts, (image, row, map_))
    early = _gathered(k, p, jobs, grid) if plan.share != OWN else _Early()
    k.begin()
    if p.single and (plan.keep == "rows" or early.data is not None):
        with _row_slices(k, p, early) as (n, block):
            _maps_of_rows(k, p, n, block, jobs, early.data)
    else:
        for job in jobs:
            with job.maps() as own, _row_slices(k, p, early) as (n, block):
                _slice(k, p, n, block, own, None)


@dataclass(frozen=True)
class _Early:
    """What is in the scratchpad before the loops: image, rows of it, and their data."""

    image: Value = 0
    block: RowBlock | None = None
    data: list[Aligned] | None = None


def _gathered(k: Kernel, p: _Problem, jobs: list[_Job], grid: TileGrid) -> _Early:
    """Let the tiles give each other what all of them need; all tiles take part.

    Shared weights are on their way to the scratchpad before the tiles come together, and then to the other
    tiles while each loads rows of its own. While an image is on its way, each loads its own weights: not
    earlier, because tiles come together when all their loads are complete.
    """
    early = _Early()
    if p.rows.most == p.images.most == 1:
        n = k.let(p.images.some)
        begin, count = k.let(p.rows.some), k.let(p.height or p.rows.size)
        early = _Early(n, row_block(k, p.layer.g, begin, count, p.rows.size))
    with k.registers.scope():
        if p.plan.share == WEIGHTS:
            early = _with_shared_weights(k, p, jobs, grid.team(k, 0, 1), early)
        else:
            early = _with_shared_image(k, p, jobs, grid.team(k, 0, 1, 2), early)
    return early


def _with_shared_weights(k: Kernel, p: _Problem, jobs: list[_Job], team: Team, early: _Early) -> _Early:
    gathers = [gather for job in jobs for gather in job.gathers(team)]
    enter(k, *(gather.target for gather in gathers))
    if early.block is not None:
        early = replace(early, data=_load(k, p, early.image, early.block, 0, p.layer.groups.channels))
    for gather in gathers:
        gather.send()
    meet_all(k, gathers)
    return early


def _with_shared_image(k: Kernel, p: _Problem, jobs: list[_Job], team: Team, early: _Early) -> _Early:
    assert early.block is not None
    source = p.work.input(0)
    target = slice_buffer(k, "x", source.fmt, early.block.input, source.shape[-1])
    enter(k, target.base)
    gather = Gather(k, team, (source, 0, stored_elements(source)), target.base)
    k.emit("ncc.wait")
    gather.send()
    for job in jobs:
        job.load_weights()
    meet_all(k, [gather])
    return replace(early, data=split(k, target))


def _best(k: Kernel, layer: Layer, in_planes: bool) -> Plan | None:
    """The plan that promises most; None where it takes smaller slices than blocked tensors have."""
    found = plans(layer, k.target.tiles, k.budget) if in_planes or not layer.blocked else []
    if not found and not layer.blocked:
        need = layer.g.input_rows(1)
        raise SpmOverflow(f"one row of output and {need} of input do not fit the SPM")
    return found[0] if found else None


@contextmanager
def _row_slices(k: Kernel, p: _Problem, early: _Early) -> Iterator[tuple[Value, RowBlock]]:
    """The tile's slices: image, and rows of it."""
    if early.block is not None:
        with k.loop(minimum(p.images.length, 1)), k.loop(minimum(p.rows.length, 1)):
            yield early.image, early.block
        return
    with slices(k, p.images) as (n, _), slices(k, p.rows) as (begin, count):
        yield n, row_block(k, p.layer.g, begin, count, p.rows.size)


def _maps_of_rows(
    k: Kernel, p: _Problem, n: Value, block: RowBlock, jobs: list[_Job], data: list[Aligned] | None
) -> None:
    """All maps of a slice of rows, which is loaded once."""
    if data is None and p.layer.groups.count == 1 and not p.layer.channelwise:
        data = _load(k, p, n, block, 0, p.layer.groups.channels)
    for job in jobs:
        with job.maps() as own:
            _slice(k, p, n, block, own, data)


class _Job:
    """The maps of one stretch that are this tile's; loaded at once if it has one slice of them."""

    def __init__(
        self, k: Kernel, p: _Problem, stretch: Stretch, own: Share, bias: ChannelVector | None
    ) -> None:
        self.k, self.p, self.stretch, self.own, self.bias = k, p, stretch, own, bias
        if p.layer.channelwise:
            self.load = windows_of(k, p.work, stretch)
        else:
            self.load = weights_of(k, p.work, p.layer.groups, stretch, p.plan.channels)
        self.early = self._prepare(own.some) if own.most == 1 else None

    @contextmanager
    def maps(self) -> Iterator[_Maps]:
        """Each slice of the maps."""
        with slices(self.k, self.own) as (number, _):
            yield self.early or self._prepare(number)

    def gathers(self, team: Team) -> list[Gather]:
        """Begin to load this tile's part of the weights that a team shares."""
        assert isinstance(self.load, PackedWeights) and self.early is not None
        addresses = self.early.weights or []
        runs = self.load.runs(self._volume(self.early.group, self.early.block))
        pairs = zip(runs, addresses, strict=True)
        return [Gather(self.k, team, (t, first, t.size), to) for (t, first), to in pairs]

    def load_weights(self) -> None:
        """Load the weights for which there is only room so far."""
        if self.early is not None:
            assert isinstance(self.load, PackedWeights)
            volume = self._volume(self.early.group, self.early.block)
            self.load.load(volume, self.early.weights or [])

    def _volume(self, group: Value, block: Value) -> Volume:
        return Volume(group, block, Stretch(0, self.p.plan.channels, 1), 0)

    def _weights(self, group: Value, block: Value) -> list[Value] | None:
        """Those of all channels, or where they will be once the tiles have shared them."""
        volume = self._volume(group, block)
        if self.p.plan.share != OWN and self.own.most == 1:
            assert isinstance(self.load, PackedWeights)
            return self.load.buffers(volume)
        return self.load(volume) if self.p.single else None

    def _prepare(self, number: Value) -> _Maps:
        k, p, stretch, height = self.k, self.p, self.stretch, self.p.height
        group, block = k.let(number // stretch.count), k.let(number % stretch.count)
        inner = add(multiply(block, stretch.size), stretch.start)
        first = k.let(add(multiply(group, p.layer.groups.maps), inner))
        bias = load_vector(k, "bias", self.bias, first, stretch.size) if self.bias is not None else None
        start = None
        if bias is not None and p.single and p.epilogue.residual is None and height is not None:
            start = _spread(k, p, Grid(height, p.layer.g.columns, p.rows.size), stretch.size, bias)
        weights = self._weights(group, block)
        return _Maps(group, block, first, stretch.size, self.load, weights, bias, start)


def _spread(k: Kernel, p: _Problem, grid: Grid, maps: int, bias: Value) -> Aligned:
    start = slice_buffer(k, "start", Format.FP32, grid, maps)
    spread(k, start, bias)
    return start


def _load(k: Kernel, p: _Problem, n: Value, block: RowBlock, lane: Value, channels: int) -> list[Aligned]:
    """The image rows of a slice, ``channels`` of them from ``lane`` on, as the matrix engine takes them."""
    return split(k, load_slice(k, "x", p.work.input(0), block.source(n, lane), block.input, channels))


def _slice(k: Kernel, p: _Problem, n: Value, block: RowBlock, own: _Maps, data: list[Aligned] | None) -> None:
    """One slice from the image (``data``, or still to be loaded) to its place in the result."""
    at = block.target(n, own.first)
    start = _start(k, p, own, block, at)
    result = _convolve(k, p, n, block, own, data, start)
    region = SliceRegion(k, result, at)
    apply_steps(region, result.base, p.epilogue.steps)
    if result.fmt is Format.FP32:
        result = narrowed_slice(k, result, p.work.output.fmt)
    store_slice(k, result, p.work.output, at)


def _start(k: Kernel, p: _Problem, own: _Maps, block: RowBlock, at: Place) -> Aligned | None:
    """Where the sums of a slice begin: residual and bias; FP32 and its own if they are accumulated there."""
    residual = p.epilogue.residual
    if residual is not None:
        start = load_slice(k, "residual", residual, at, block.output, own.count)
        if own.bias is None and p.single:
            return start
        start = widened_slice(k, start)
        if own.bias is not None:
            per_channel(k, "add", start, own.bias)
        return start
    if own.start is not None or (own.bias is None and p.single):
        return own.start
    if own.bias is not None:
        return _spread(k, p, block.output, own.count, own.bias)
    start = slice_buffer(k, "y", Format.FP32, block.output, own.count)
    k.emit("td.memset.fp32", dst=start.base, value=0.0, n=start.elements)
    return start


def _convolve(
    k: Kernel, p: _Problem, n: Value, block: RowBlock, own: _Maps, data: list[Aligned] | None,
    start: Aligned | None,
) -> Aligned:  # fmt: skip
    """The sums of one slice: rounded if nothing inexact follows, otherwise in FP32."""
    compute = p.work.output.fmt
    if p.single:
        fmt = engine_format(compute) if p.layer.direct else Format.FP32
        result = slice_buffer(k, "y", fmt, block.output, own.count)
        lane = own.first if p.layer.channelwise else multiply(own.group, p.layer.groups.channels)
        channels = own.count if p.layer.channelwise else p.layer.groups.channels
        images = data or _load(k, p, n, block, lane, channels)
        assert own.weights is not None
        _multiply(k, p, block, images, own.weights, result, start)
        return result
    assert start is not None
    for stretch in stretches(p.layer.groups.channels, p.plan.channels):
        with k.loop(stretch.count) as step:
            inner = add(multiply(step, stretch.size), stretch.start)
            lane = add(multiply(own.group, p.layer.groups.channels), inner)
            images = _load(k, p, n, block, lane, stretch.size)
            weights = own.load(Volume(own.group, own.block, stretch, step))
            _multiply(k, p, block, images, weights, start, start)
    return start


def _multiply(
    k: Kernel, p: _Problem, block: RowBlock, images: list[Aligned], weights: list[Value], result: Aligned,
    start: Aligned | None,
) -> None:  # fmt: skip
    """The products of all parts, added to ``start``."""
    g, data, kind = p.layer.g, images[0], engine_format(p.work.output.fmt).token
    common: dict[str, Argument] = {"out": result.base, "out_format": result.fmt.token}
    mnemonic, right = f"{p.layer.kind.value}.{kind}", "w"
    if p.layer.kind is Kind.GEMM:
        right = "b"
        common |= {"m": data.grid.positions, "k": data.channels, "n": result.channels}
    else:
        common |= {
            "shape": data.shape, "dst_shape": result.shape, "pad": block.pad,
            "window": [g.kernel[1], g.kernel[0], g.strides[1], g.strides[0]],
        }  # fmt: skip
        if p.layer.kind is Kind.CONV:
            common["dilation"] = [g.dilations[1], g.dilations[0]]
    for a, b in PRODUCTS[: 3 if part_count(p.work.output.fmt) > 1 else 1]:
        operands = common | {"a": images[a].base, right: weights[b]}
        if start is not None:
            operands |= {"psum": start.base, "psum_format": start.fmt.token}
        k.emit(mnemonic, **operands)
        start = result
