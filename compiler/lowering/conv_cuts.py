"""The ways in which a convolution or a pool can be divided, and what they cost roughly.

A tile has a contiguous share of the images, of the output rows and of the maps (output channels), and cuts it
into slices. What decides is the traffic with DDR: weights times the tiles along images and rows, images times
the tiles along maps, the halo rows of windows; then what the load of the first slice, its arithmetic and the
store of the last take, which nothing overlaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from compiler.codegen.aligned import BLOCK
from compiler.codegen.expr import ceil_div, round_up
from compiler.codegen.kernel import Target
from compiler.codegen.precision import PRODUCTS, part_count
from compiler.codegen.windows import most_rows
from compiler.lowering.conv_layer import Kind, Layer, layer_of, stays_in_planes
from compiler.lowering.record import Cut, Work
from tx8isa.cost import link_rate
from tx8isa.formats import Format
from tx8isa.layouts import SMALLEST_TAIL, aligned_channels
from tx8isa.machine import load_machine

_MOST_CUTS = 24
_MOST_MAPS = 4096
KEEP = "keep"
"""Choice: ``weights`` stay while rows pass, or ``rows`` stay while maps pass."""
SHARE = "share"
"""Choice: what tiles load together and give to each other."""
OWN, WEIGHTS, IMAGE = "own", "weights", "image"
_MEETING, _BARRIER = 3000, 800
"""Cycles by which a phase is longer when tiles share: issue and fixed time of a copy, and a barrier."""
_DETOUR = 2
"""How often the bytes that a tile receives pass the busiest link."""


@dataclass(frozen=True)
class Plan:
    """A cut in numbers: parts of images, rows and maps; rows, maps and input channels of a slice."""

    images: int
    row_parts: int
    map_parts: int
    rows: int
    maps: int
    channels: int
    keep: str = "weights"
    share: str = OWN

    def cut(self) -> Cut:
        """As the search has it."""
        tiles = (("images", self.images), ("rows", self.row_parts), ("maps", self.map_parts))
        sizes = (("rows", self.rows), ("maps", self.maps), ("channels", self.channels))
        return Cut(tiles, sizes, ((KEEP, self.keep), (SHARE, self.share)))


def plan_of(cut: Cut) -> Plan:
    """The numbers of a cut."""
    return Plan(
        cut.parts("images"), cut.parts("rows"), cut.parts("maps"),
        cut.size("rows"), cut.size("maps"), cut.size("channels"),
        cut.choice(KEEP, "weights"), cut.choice(SHARE, OWN),
    )  # fmt: skip


def cuts(target: Target, work: Work) -> Iterable[Cut]:
    """Promising ways, best first, by a rough estimate; all of them fit the scratchpad."""
    return best_cuts(target, layer_of(work)) if stays_in_planes(work) or not work.output.blocked else []


def best_cuts(target: Target, layer: Layer) -> list[Cut]:
    """The best ways to divide a layer, best first."""
    return [plan.cut() for plan in plans(layer, target.tiles, target.spm_bytes)[:_MOST_CUTS]]


@lru_cache(maxsize=1024)
def plans(layer: Layer, tiles: int, budget: int) -> list[Plan]:
    """All ways that are worth a look and fit ``budget`` bytes, best first; none when nothing fits."""
    fitting = list(_candidates(layer, tiles, budget, BLOCK))
    if not fitting and not layer.blocked:
        fitting = list(_candidates(layer, tiles, budget, SMALLEST_TAIL))
    sharing = [replace(plan, share=way) for plan in fitting for way in _shared(layer, plan, tiles)]
    fitting += [plan for plan in sharing if fits(layer, plan, budget)]
    return sorted(fitting, key=lambda plan: cost(layer, plan))


def _shared(layer: Layer, plan: Plan, tiles: int) -> list[str]:
    """What tiles can share: the weights of one slice of maps each, or an image that all need whole."""
    if plan.images * plan.row_parts * plan.map_parts != tiles or not layer.packed:
        return []
    single, maps = plan.channels == layer.groups.channels, layer.groups.maps
    if not single or layer.groups.count > 1 or layer.channelwise or maps % plan.maps:
        return []
    found = [WEIGHTS] if plan.map_parts < tiles and maps // plan.maps <= plan.map_parts else []
    whole = layer.batch == 1 and plan.row_parts == 1 and plan.rows == layer.g.rows
    return [*found, IMAGE] if whole and layer.blocked and plan.map_parts == tiles > 1 else found


def fits(layer: Layer, plan: Plan, budget: int) -> bool:
    """Whether the slices of a plan fit ``budget`` bytes of scratchpad."""
    layer = layer_for(layer, plan)
    kept, own = layer.slice_bytes(plan.rows, plan.maps, plan.channels)
    return kept + own <= budget


def layer_for(layer: Layer, plan: Plan) -> Layer:
    """The layer as a plan computes it: an image that is shared comes with all its rows."""
    return replace(layer, g=replace(layer.every_row, whole=True)) if plan.share == IMAGE else layer


def _candidates(layer: Layer, tiles: int, budget: int, least: int) -> Iterator[Plan]:
    """Plans that fit, without sharing; slices of maps are not cut below ``least``."""
    for channels in _channels(layer, budget, least):
        for images in _divisors(min(layer.batch, tiles), tiles):
            for map_parts in _divisors(_grains(layer), tiles // images):
                row_parts = min(layer.g.rows, tiles // (images * map_parts))
                for maps in _maps(layer, map_parts, least):
                    rows = ceil_div(layer.g.rows, row_parts)
                    for size in _rows(layer, rows, maps, channels, budget):
                        plan = Plan(images, row_parts, map_parts, size, maps, channels)
                        yield plan
                        if channels == layer.groups.channels and _rounds(layer, plan)[1] > 1:
                            yield Plan(images, row_parts, map_parts, size, maps, channels, "rows")


def _divisors(most: int, tiles: int) -> list[int]:
    """Numbers of parts up to ``most`` of which others can make use of what they leave of the tiles."""
    return [n for n in range(1, min(most, tiles) + 1) if n in (most, tiles) or tiles // (n + 1) < tiles // n]


def _grains(layer: Layer) -> int:
    """Smallest slices of maps, of all groups."""
    return layer.groups.count * ceil_div(layer.groups.maps, layer.grain)


def _maps(layer: Layer, parts: int, least: int) -> list[int]:
    """Sizes of slices of maps: a whole share, and smaller ones."""
    maps = layer.groups.maps
    share = min(round_up(ceil_div(maps * layer.groups.count, parts), layer.grain), maps, _MOST_MAPS)
    if layer.groups.count > 1:
        share = maps if maps <= BLOCK or maps % BLOCK else min(share, maps)
    found = [share]
    while found[-1] > least:
        found.append(_halved(found[-1]))
    if not layer.blocked:
        return found
    if layer.groups.count > 1:
        return [size for size in found if maps % size == 0]
    return [size for size in found if size == maps or size % BLOCK == 0 or size in (16, 32)]


def _rows(layer: Layer, share: int, maps: int, channels: int, budget: int) -> list[int]:
    """Sizes of slices of rows: the largest that fits, and some that let loads and stores overlap."""
    most = min(share, most_rows(layer.g))

    def fitting(rows: int) -> bool:
        kept, own = layer.slice_bytes(rows, maps, channels)
        return kept + own <= budget

    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fitting(middle) else (low, middle - 1)
    return sorted({ceil_div(share, ceil_div(share, low) * n) for n in (1, 2, 3, 4, 6)}) if low else []


def _channels(layer: Layer, budget: int, maps: int) -> list[int]:
    """Input channels of a slice: all, or the largest blocks of which one row and a few maps fit."""
    channels = layer.groups.channels
    if layer.channelwise:
        return [channels]
    maps = min(layer.groups.maps, maps)
    least = BLOCK if layer.blocked and channels % BLOCK else SMALLEST_TAIL
    while channels > least and sum(layer.slice_bytes(1, maps, channels)) > budget:
        channels = _halved(channels)
    return [channels]


def _halved(extent: int) -> int:
    """About half, in whole planes as long as there are some."""
    return round_up(ceil_div(extent, 2), BLOCK if extent > BLOCK else SMALLEST_TAIL)


# --- what a plan costs ------------------------------------------------------------------------------------


def _rounds(layer: Layer, plan: Plan) -> tuple[int, int]:
    """Slices of the busiest tile: of images and rows together, and of maps."""
    images = ceil_div(layer.batch, plan.images)
    rows = ceil_div(ceil_div(layer.g.rows, plan.row_parts), plan.rows)
    maps = ceil_div(layer.groups.count * ceil_div(layer.groups.maps, plan.maps), plan.map_parts)
    return images * rows, maps


@dataclass(frozen=True)
class _Rates:
    """Of the chip whose description is the default: cycles of a tile, bytes a cycle."""

    issue: float
    ddr: float
    dma: float
    run: float
    steps: float
    vector: float
    link: float
    array: tuple[int, int, int]

    @staticmethod
    @lru_cache(maxsize=1)
    def known() -> _Rates:
        machine = load_machine(None)
        timing = machine.timing
        return _Rates(
            timing.core.issue.value, machine.ddr.nominal.value / machine.engines.clock.value,
            timing.rdma.rate.value, timing.rdma.run.value,
            timing.ne.steps.value * timing.ne.efficiency.value, timing.ct.rates.fp32.value,
            link_rate(machine),
            (machine.engines.ne_array.m, machine.engines.ne_array.k, machine.engines.ne_array.n),
        )  # fmt: skip


def cost(layer: Layer, plan: Plan) -> float:
    """Cycles of the phase, roughly: the busiest engine, and of the others what no other slice overlaps."""
    r, layer = _Rates.known(), layer_for(layer, plan)
    passes, blocks = _rounds(layer, plan)
    weight_loads = blocks if plan.keep == "weights" or blocks == 1 else blocks * passes
    image_loads = passes if plan.keep == "rows" else passes * blocks
    tiles = plan.images * plan.row_parts * plan.map_parts
    image, weights, result = _traffic(layer, plan)
    slices = passes * blocks
    loads = image * image_loads, weights * weight_loads
    read = [tiles * loads[0], tiles * loads[1]]
    meeting = 0.0
    if plan.share != OWN:
        which = (IMAGE, WEIGHTS).index(plan.share)
        read[which] //= tiles if plan.share == IMAGE else plan.images * plan.row_parts
        meeting = _MEETING + _DETOUR * loads[which] / r.link
        if plan.share == IMAGE or passes == 1:  # what is not shared is loaded meanwhile
            meeting = _BARRIER + max(0, meeting - read[1 - which] / r.ddr)
    moved = sum(read) + tiles * result * slices
    memory = max(moved / tiles / r.dma, moved / r.ddr) + _runs(layer, plan) * slices * r.run
    times = memory, slices * _products(layer, plan) / r.steps, slices * _vector(layer, plan) / r.vector
    issue = r.issue * (4 * slices + 3 * weight_loads)
    busiest = max(*times, issue)
    return busiest + max(0, sum(times) - busiest) / slices + meeting


def _traffic(layer: Layer, plan: Plan) -> tuple[int, int, int]:
    """DDR bytes of a slice: of the image, weights, and the result with what is added to it."""
    g, each = layer.g, layer.fmt.bits // 8
    inputs = plan.maps if layer.channelwise else layer.groups.channels
    image = g.input_rows(plan.rows) * g.width * aligned_channels(inputs, BLOCK) * each
    per_map = layer.taps * (1 if layer.channelwise else aligned_channels(inputs, BLOCK))
    result = plan.rows * g.columns * aligned_channels(plan.maps, BLOCK) * each
    return image, per_map * plan.maps * each * part_count(layer.fmt), result * (1 + layer.residual)


def _runs(layer: Layer, plan: Plan) -> int:
    """Runs of DDR shorter than the DMA likes, beyond what their bytes cost."""
    results = plan.rows * layer.g.columns * (1 + layer.residual)
    if layer.blocked:
        return results if plan.maps < min(BLOCK, layer.groups.maps) else 0
    return results * ceil_div(plan.maps, BLOCK) // 2


def _products(layer: Layer, plan: Plan) -> int:
    """Steps of the matrix engine for a slice."""
    m, k, n = _Rates.known().array
    rows = ceil_div(plan.rows * layer.g.columns, m)
    if layer.kind is Kind.POOL:
        return 0
    if layer.kind is Kind.DEPTHWISE:
        steps = plan.maps * rows * ceil_div(layer.taps, k)
    else:
        steps = rows * ceil_div(layer.taps * layer.groups.channels, k) * ceil_div(plan.maps, n)
    slower = 2 if layer.fmt in (Format.FP32, Format.TF32) else 1
    return slower * steps * (len(PRODUCTS) if part_count(layer.fmt) > 1 else 1)


def _vector(layer: Layer, plan: Plan) -> int:
    """Elements that the vector engine goes over for a slice, as if all were FP32."""
    elements = plan.rows * layer.g.columns * aligned_channels(plan.maps, BLOCK)
    passes = layer.passes / 2 if layer.direct else layer.passes + 1.0
    if layer.kind is Kind.POOL:
        passes += layer.taps / (2 if layer.direct else 1)
    return int(elements * (passes + 2 * layer.residual))
