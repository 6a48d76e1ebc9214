"""The ways in which a convolution or a pool can be divided.

A tile has a contiguous share of the images, of the output rows and of the maps (output channels), and cuts it
into slices. Rows are divided too where there are fewer than tiles, or where one does not fit. What decides is
the traffic with DDR: weights times the tiles along images and rows, images times the tiles along maps, the
halo rows of windows; then what the load of the first slice, its arithmetic and the store of the last take,
which nothing overlaps (``cost``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache

from compiler.codegen.kernel import Target
from compiler.codegen.slices.aligned import BLOCK
from compiler.codegen.slices.windows import most_rows
from compiler.lowering.record import Cut, Work
from tx8isa.numbers.division import ceil_div, round_up
from tx8isa.numbers.layouts import SMALLEST_TAIL
from tx8isa.numbers.limits import LARGEST_EXTENT

from .cost import Rates, cost, rates_of
from .layer import ConvLayer, Kind, layer_of, stays_in_planes
from .plan import BOTH, IMAGE, WEIGHTS, ConvPlan, layer_for, narrowed, plan_of, rounds

_MOST_CUTS = 24


def cuts(target: Target, work: Work) -> Iterable[Cut]:
    """Promising ways, best first, by a rough estimate; all of them fit the scratchpad."""
    return best_cuts(target, layer_of(work)) if stays_in_planes(work) or not work.output.blocked else []


def best_cuts(target: Target, layer: ConvLayer) -> list[Cut]:
    """The best ways to divide a layer, best first."""
    return [plan.cut() for plan in plans(layer, target, target.spm_bytes)[:_MOST_CUTS]]


def plans(layer: ConvLayer, target: Target, budget: int) -> list[ConvPlan]:
    """All ways that are worth a look and fit ``budget`` bytes, best first; none when nothing fits."""
    return _plans(layer, target.tiles, budget, rates_of(target.machine))


def first_plan(layer: ConvLayer, target: Target, budget: int) -> ConvPlan | None:
    """What is done without a search: the best way, of whole rows if these fit; None when nothing fits.

    Slices of parts of rows in many loops can need more registers than there are, which a search gets over.
    """
    found = plans(layer, target, budget)
    return next((plan for plan in found if not plan.columns), found[0] if found else None)


def plan_for(layer: ConvLayer, cut: Cut) -> ConvPlan:
    """The plan of a cut; ValueError for one that the layer cannot have been given."""
    plan = plan_of(cut)
    if plan.columns and not _has_columns(layer):
        raise ValueError("slices of this layer have whole rows")
    return plan


@lru_cache(maxsize=1024)
def _plans(layer: ConvLayer, tiles: int, budget: int, rates: Rates) -> list[ConvPlan]:
    fitting = list(_candidates(layer, tiles, budget, BLOCK))
    if not fitting and not layer.blocked:
        fitting = list(_candidates(layer, tiles, budget, SMALLEST_TAIL))
    if all(plan.channels < layer.groups.channels for plan in fitting):
        fitting += _narrow(layer, tiles, budget)
    sharing = [replace(plan, team_loads=way) for plan in fitting for way in _shared(layer, plan, tiles)]
    fitting += [plan for plan in sharing if fits(layer, plan, budget)]
    return sorted(fitting, key=lambda plan: cost(layer, plan, rates))


def _shared(layer: ConvLayer, plan: ConvPlan, tiles: int) -> list[str]:
    """What tiles can share: the weights of one slice of maps each, or one slice of rows each, or both."""
    if plan.tiles != tiles or tiles == 1 or not layer.packed or layer.groups.count > 1 or layer.channelwise:
        return []
    if plan.channels < layer.groups.channels:
        return []
    slices = layer.groups.maps // plan.maps
    weights = layer.groups.maps % plan.maps == 0 and plan.map_parts < tiles and slices <= plan.map_parts
    image = plan.map_parts > 1 and _shares_rows(layer, plan)
    both = weights and image
    return [WEIGHTS] * weights + [IMAGE] * image + [BOTH] * both


def _shares_rows(layer: ConvLayer, plan: ConvPlan) -> bool:
    """Whether the tiles with the same rows can bring together what of the image these need.

    Each brings a part of the whole image, or planes or equal parts of one of some rows.
    """
    if not layer.blocked or plan.columns or rounds(layer, plan)[0] > 1:
        return False
    if plan.row_parts == 1:
        return True
    planes, rest = divmod(layer.groups.channels, BLOCK)
    if rest or not planes:
        return False
    in_planes = planes % plan.map_parts == 0
    return in_planes or (layer.geometry.row_step == 1 and plan.map_parts % planes == 0)


def fits(layer: ConvLayer, plan: ConvPlan, budget: int) -> bool:
    """Whether the slices of a plan fit ``budget`` bytes of scratchpad."""
    layer = narrowed(layer_for(layer, plan), plan.columns)
    kept, own = layer.slice_bytes(plan.rows, plan.maps, plan.channels)
    return kept + own <= budget


def _candidates(
    layer: ConvLayer, tiles: int, budget: int, least: int, columns: int = 0
) -> Iterator[ConvPlan]:
    """Plans that fit, without sharing; slices of maps are not cut below ``least``.

    Slices have whole rows where these are many; at most ``columns`` positions of each if that is not 0.
    """
    narrow = narrowed(layer, columns)
    for channels in _channels(narrow, budget, least):
        for images in _part_counts(min(layer.batch, tiles), tiles):
            for map_parts in _part_counts(_grains(layer), tiles // images):
                for grid in _grids(layer, tiles // (images * map_parts), columns):
                    for maps in _maps(layer, map_parts, least):
                        yield from _of_rows(
                            layer, ConvPlan(images, 0, map_parts, 0, maps, channels), grid, budget
                        )


def _of_rows(layer: ConvLayer, plan: ConvPlan, grid: tuple[int, int, int], budget: int) -> Iterator[ConvPlan]:
    """A plan with rows, columns and their parts, if it fits so."""
    row_parts, column_parts, columns = grid
    share, narrow = ceil_div(layer.geometry.rows, row_parts), narrowed(layer, columns)
    for rows in _rows(narrow, share, plan.maps, plan.channels, budget):
        found = replace(plan, row_parts=row_parts, rows=rows, column_parts=column_parts, columns=columns)
        yield found
        if plan.channels == layer.groups.channels and rounds(layer, found)[1] > 1:
            yield replace(found, keep="rows")


def _grids(layer: ConvLayer, tiles: int, columns: int) -> Iterator[tuple[int, int, int]]:
    """How tiles can share rows and columns: parts of both, and columns of a slice (0: all).

    Columns are divided if there are not as many rows as tiles, or to give slices of at most ``columns``.
    """
    geometry = layer.geometry
    few = _has_columns(layer) and geometry.rows < tiles
    for parts in _part_counts(min(geometry.columns, tiles), tiles) if few else [1]:
        share = ceil_div(geometry.columns, parts)
        most = min(share, columns or share)
        yield min(geometry.rows, tiles // parts), parts, 0 if most == geometry.columns else most


def _has_columns(layer: ConvLayer) -> bool:
    """Whether slices need not have whole rows."""
    if layer.kind is Kind.POOL and not layer.direct:
        return False  # means are multiplied by factors of all positions of some rows
    geometry = layer.geometry
    return layer.blocked and layer.groups.count == 1 and geometry.columns > 1 and geometry.row_step == 1


def _narrow(layer: ConvLayer, tiles: int, budget: int) -> list[ConvPlan]:
    """Plans with as wide a part of the rows as fits with all input channels; none if even one does not."""
    columns = layer.geometry.columns
    while _has_columns(layer) and columns > 1:
        columns = ceil_div(columns, 2)
        found = _candidates(layer, tiles, budget, BLOCK, columns)
        whole = [plan for plan in found if plan.channels == layer.groups.channels]
        if whole:
            return whole
    return []


def _part_counts(most: int, tiles: int) -> list[int]:
    """Numbers of parts up to ``most``; one part more would leave fewer tiles for each of them."""
    counts = range(1, min(most, tiles) + 1)
    return [parts for parts in counts if parts in (most, tiles) or tiles // (parts + 1) < tiles // parts]


def _grains(layer: ConvLayer) -> int:
    """Smallest slices of maps, of all groups."""
    return layer.groups.count * ceil_div(layer.groups.maps, layer.grain)


def _maps(layer: ConvLayer, parts: int, least: int) -> list[int]:
    """Sizes of slices of maps: a whole share, and smaller ones."""
    maps = layer.groups.maps
    share = min(round_up(ceil_div(maps * layer.groups.count, parts), layer.grain), maps, LARGEST_EXTENT)
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


def _rows(layer: ConvLayer, share: int, maps: int, channels: int, budget: int) -> list[int]:
    """Sizes of slices of rows: the largest that fits, and some that let loads and stores overlap."""
    most = min(share, most_rows(layer.geometry))

    def fitting(rows: int) -> bool:
        kept, own = layer.slice_bytes(rows, maps, channels)
        return kept + own <= budget

    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fitting(middle) else (low, middle - 1)
    return sorted({ceil_div(share, ceil_div(share, low) * times) for times in (1, 2, 3, 4, 6)}) if low else []


def _channels(layer: ConvLayer, budget: int, maps: int) -> list[int]:
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
