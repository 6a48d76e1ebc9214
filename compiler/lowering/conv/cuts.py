"""Divides convolutions and pools: the candidates of the search, and the plan without a search.

A tile has a shard of the images, of the output rows and of the maps (output channels), and divides it into
slices. Rows are also divided into columns if there are fewer rows than tiles, or if one row does not fit. The
traffic with DDR decides: weights times the tiles along images and rows, images times the tiles along maps,
halo rows of windows. The time without overlap counts next: the first load, its arithmetic and the last store
(``cost``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache

from compiler.codegen.kernel import Target
from compiler.codegen.slices.rates import Rates, rates_of
from compiler.codegen.slices.tensors import BLOCK
from compiler.codegen.slices.windows import most_rows
from compiler.lowering.record import Cut, Work
from tx8isa.numbers.division import ceil_div, round_up
from tx8isa.numbers.layouts import SMALLEST_TAIL
from tx8isa.numbers.limits import LARGEST_EXTENT

from .cost import cost
from .layer import ConvLayer, Kind, known_layer, layer_of, stays_in_planes
from .plan import BOTH, IMAGE, WEIGHTS, ConvPlan, layer_for, narrowed, plan_of, slice_counts

_MOST_CUTS = 24
"""Candidates for the search."""


def conv_cuts(target: Target, work: Work) -> Iterable[Cut]:
    """The candidates of a convolution, best first by a rough estimate; all fit the scratchpad."""
    return best_cuts(target, layer_of(work)) if stays_in_planes(work) or not work.output.blocked else []


def best_cuts(target: Target, layer: ConvLayer) -> list[Cut]:
    """The best cuts of a layer, best first."""
    return [plan.cut() for plan in plans(layer, target, target.spm_bytes)[:_MOST_CUTS]]


def plans(layer: ConvLayer, target: Target, budget: int) -> list[ConvPlan]:
    """All plans that fit ``budget`` bytes of scratchpad, best first."""
    return _plans(known_layer(layer), target.tiles, budget, rates_of(target.machine))


def first_plan(layer: ConvLayer, target: Target, budget: int) -> ConvPlan | None:
    """The plan without a search: the best one, of whole rows if these fit; None if no plan fits.

    Slices with parts of rows need more loops, which may need more registers than there are. A search drops
    such a plan.
    """
    found = plans(layer, target, budget)
    return next((plan for plan in found if not plan.columns), found[0] if found else None)


def plan_for(layer: ConvLayer, cut: Cut) -> ConvPlan:
    """The plan of a cut; ValueError if it is not a candidate of the layer."""
    plan = plan_of(cut)
    if plan.columns and not _has_columns(layer):
        raise ValueError("slices of this layer have whole rows")
    if layer.all_positions and (plan.row_parts > 1 or plan.rows < layer.geometry.rows):
        raise ValueError("slices of this layer have all positions")
    return plan


@lru_cache(maxsize=1024)
def _plans(layer: ConvLayer, tiles: int, budget: int, rates: Rates) -> list[ConvPlan]:
    fitting = list(_candidates(layer, tiles, budget, BLOCK))
    if not fitting and not layer.blocked:
        fitting = list(_candidates(layer, tiles, budget, SMALLEST_TAIL))
    if all(plan.channels < layer.groups.channels for plan in fitting):
        fitting += _narrow(layer, tiles, budget)
    by_teams = [
        replace(plan, team_loads=what) for plan in fitting for what in _team_loads(layer, plan, tiles)
    ]
    fitting += [plan for plan in by_teams if fits(layer, plan, budget)]
    return sorted(fitting, key=lambda plan: cost(layer, plan, rates))


def _team_loads(layer: ConvLayer, plan: ConvPlan, tiles: int) -> list[str]:
    """The team loads of a plan: weights if each tile has one slice of maps, rows if each has one slice."""
    if plan.tiles != tiles or tiles == 1 or not layer.packed or layer.groups.count > 1 or layer.channelwise:
        return []
    if plan.channels < layer.groups.channels:
        return []
    slices = layer.groups.maps // plan.maps
    weights = layer.groups.maps % plan.maps == 0 and plan.map_parts < tiles and slices <= plan.map_parts
    image = plan.map_parts > 1 and _can_load_rows_together(layer, plan)
    possible = {WEIGHTS: weights, IMAGE: image, BOTH: weights and image}
    return [what for what, can in possible.items() if can]


def _can_load_rows_together(layer: ConvLayer, plan: ConvPlan) -> bool:
    """True if the tiles with the same output rows can load the image rows of these together.

    Each tile loads an equal share of the image. If the image is not loaded whole, a share is whole planes, or
    a part of one plane.
    """
    if not layer.blocked or plan.columns or slice_counts(layer, plan)[0] > 1:
        return False
    if plan.row_parts == 1:
        return True
    planes, rest = divmod(layer.groups.channels, BLOCK)
    if rest or not planes:
        return False
    in_planes = planes % plan.map_parts == 0
    return in_planes or (layer.geometry.row_step == 1 and plan.map_parts % planes == 0)


def fits(layer: ConvLayer, plan: ConvPlan, budget: int) -> bool:
    """True if the slices of a plan fit ``budget`` bytes of scratchpad."""
    layer = narrowed(layer_for(layer, plan), plan.columns)
    kept, own = layer.slice_bytes(plan.rows, plan.maps, plan.channels)
    return kept + own <= budget


def _candidates(
    layer: ConvLayer, tiles: int, budget: int, least: int, columns: int = 0
) -> Iterator[ConvPlan]:
    """Plans that fit and load nothing together; slices have at least ``least`` maps.

    ``columns``: the largest number of columns of a slice; with 0, slices have whole rows if there are as many
    rows as tiles.
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
    """Yield plans with these numbers of shards and columns, and sizes of rows with which they fit."""
    row_parts, column_parts, columns = grid
    shard, narrow = ceil_div(layer.geometry.rows, row_parts), narrowed(layer, columns)
    for rows in _rows(narrow, shard, plan.maps, plan.channels, budget):
        found = replace(plan, row_parts=row_parts, rows=rows, column_parts=column_parts, columns=columns)
        yield found
        if plan.channels == layer.groups.channels and slice_counts(layer, found)[1] > 1:
            yield replace(found, keep="rows")


def _grids(layer: ConvLayer, tiles: int, columns: int) -> Iterator[tuple[int, int, int]]:
    """Numbers of shards of rows and of columns, and columns of a slice (0: whole rows).

    Columns are divided if there are fewer rows than tiles, or for slices of at most ``columns``.
    """
    if layer.all_positions:
        yield 1, 1, 0
        return
    geometry = layer.geometry
    few = _has_columns(layer) and geometry.rows < tiles
    for parts in _part_counts(min(geometry.columns, tiles), tiles) if few else [1]:
        shard = ceil_div(geometry.columns, parts)
        most = min(shard, columns or shard)
        yield min(geometry.rows, tiles // parts), parts, 0 if most == geometry.columns else most


def _has_columns(layer: ConvLayer) -> bool:
    """True if slices can have parts of rows."""
    if layer.kind is Kind.POOL and not layer.engine_rounds:
        return False  # its sums are multiplied by factors for all positions of whole rows
    if layer.all_positions:
        return False
    geometry = layer.geometry
    return layer.blocked and layer.groups.count == 1 and geometry.columns > 1 and geometry.row_step == 1


def _narrow(layer: ConvLayer, tiles: int, budget: int) -> list[ConvPlan]:
    """Plans with the widest part of a row that fits with all input channels; none if no part does."""
    columns = layer.geometry.columns
    while _has_columns(layer) and columns > 1:
        columns = ceil_div(columns, 2)
        found = _candidates(layer, tiles, budget, BLOCK, columns)
        whole = [plan for plan in found if plan.channels == layer.groups.channels]
        if whole:
            return whole
    return []


def _part_counts(most: int, tiles: int) -> list[int]:
    """Useful numbers of parts up to ``most``: one part more would leave fewer tiles for each part."""
    counts = range(1, min(most, tiles) + 1)
    return [parts for parts in counts if parts in (most, tiles) or tiles // (parts + 1) < tiles // parts]


def _grains(layer: ConvLayer) -> int:
    """The number of smallest slices of maps, of all groups."""
    return layer.groups.count * ceil_div(layer.groups.maps, layer.grain)


def _maps(layer: ConvLayer, parts: int, least: int) -> list[int]:
    """Sizes of slices of maps: a whole shard, and smaller sizes."""
    maps = layer.groups.maps
    shard = min(round_up(ceil_div(maps * layer.groups.count, parts), layer.grain), maps, LARGEST_EXTENT)
    if layer.groups.count > 1:
        shard = maps if maps <= BLOCK or maps % BLOCK else min(shard, maps)
    found = [shard]
    while found[-1] > least:
        found.append(_halved(found[-1]))
    if not layer.blocked:
        return found
    if layer.groups.count > 1:
        return [size for size in found if maps % size == 0]
    return [size for size in found if size == maps or size % BLOCK == 0 or size in (16, 32)]


def _rows(layer: ConvLayer, shard: int, maps: int, channels: int, budget: int) -> list[int]:
    """Sizes of slices of rows: the largest that fits, and smaller sizes so that loads and stores overlap."""
    most = min(shard, most_rows(layer.geometry))

    def fitting(rows: int) -> bool:
        kept, own = layer.slice_bytes(rows, maps, channels)
        return kept + own <= budget

    if layer.all_positions:
        return [shard] if most == shard and fitting(shard) else []
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fitting(middle) else (low, middle - 1)
    if not low:
        return []
    slice_count = ceil_div(shard, low)
    return sorted({ceil_div(shard, slice_count * times) for times in (1, 2, 3, 4, 6)})


def _channels(layer: ConvLayer, budget: int, maps: int) -> list[int]:
    """Input channels of a slice: all of them, or the largest numbers with which a row and a few maps fit."""
    channels = layer.groups.channels
    if layer.channelwise:
        return [channels]
    maps = min(layer.groups.maps, maps)
    least = BLOCK if layer.blocked and channels % BLOCK else SMALLEST_TAIL
    while channels > least and sum(layer.slice_bytes(1, maps, channels)) > budget:
        channels = _halved(channels)
    return [channels]


def _halved(extent: int) -> int:
    """About half of a size, rounded to whole planes if it has several."""
    return round_up(ceil_div(extent, 2), BLOCK if extent > BLOCK else SMALLEST_TAIL)
