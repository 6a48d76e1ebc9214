"""Cuts of a stack: images and rows of the result divided over tiles, and blocks of rows in time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from compiler.codegen.kernel import Target
from compiler.codegen.slices.rates import rates_of
from compiler.lowering.conv.plan import OWN, TEAM_LOADS, WEIGHTS
from compiler.lowering.record import Cut, SequenceWork
from tx8isa.numbers.division import ceil_div
from tx8isa.numbers.limits import LARGEST_EXTENT, MOST_MOVES

from .bands import Bands, bands_of
from .stages import NeededRows, Stages, stages_of
from .whole import can_gather

_BLOCKS = (1, 2, 3, 4)
"""Blocks of rows that a tile's share may be cut into."""
_MOST_STAGES_OF_ROWS = 10
"""Most stages of stacks that are divided by rows: in longer ones too many rows are computed twice."""
BETWEEN = "between"
"""The choice in a cut that says what tiles exchange between stages."""
GATHER, HALO = "gather", "halo"
"""Tiles exchange channels of a result with all tiles, or the edge rows of their bands with neighbours."""
AHEAD = "ahead"
"""The size in a cut that says how many steps before their use tiles send weights, if it is not one."""
TOGETHER = "together"
"""The size in a cut that says of how many steps one command loads the weights, if not of one."""
_STEPS_TOGETHER = 3
"""The number of steps whose weights one command loads, in the cut that has fewer loads."""
_LONG_COPY = 4000
"""Cycles of copies of weights that a step of a stack in bands may not hide: it is about as long."""
_FAR = 2
"""A way of loading is not tried if it takes this many times as long as the other."""


@dataclass(frozen=True)
class StackPlan:
    """Parts of images and of rows, rows of a block, and how weights are loaded (``own`` or ``weights``)."""

    images: int
    row_parts: int
    rows: int
    team_loads: str

    def cut(self) -> Cut:
        """This plan as a cut, the form in which the search stores it."""
        tiles = (("images", self.images), ("rows", self.row_parts))
        return Cut(tiles, (("rows", self.rows),), ((TEAM_LOADS, self.team_loads),))


def stack_plan(cut: Cut) -> StackPlan:
    """The numbers of a cut."""
    return StackPlan(cut.parts("images"), cut.parts("rows"), cut.size("rows"), cut.choice(TEAM_LOADS, OWN))


def stack_cuts(target: Target, work: SequenceWork) -> Iterator[Cut]:
    """Cuts by channels, then by rows, large blocks first; none if neither is possible.

    The last cut has bands on half of the tiles: higher bands, and weights that are sent to fewer tiles.
    """
    stages = stages_of(work)
    if target.tiles > 1 and can_gather(work, stages, target.tiles, target.spm_bytes):
        yield gathered_cut(target)
    weights = sum(stage.layer.weight_bytes() for stage in stages.order)
    halves = [bands_of(stages, tiles) for tiles in (target.tiles, target.tiles // 2)]
    cuts = [
        halo_cut(bands)
        for bands in halves
        if bands is not None and weights <= target.spm_bytes and all(_addressable(stages, bands.size))
    ]
    yield from cuts[:1]
    if len(stages.order) <= _MOST_STAGES_OF_ROWS:
        yield from (plan.cut() for plan in plans(target, stages))
    yield from cuts[1:]


def stack_details(target: Target, work: SequenceWork) -> Iterator[Cut]:
    """Cuts into the same bands, with weights that are sent two steps before their use or loaded together."""
    stages = stages_of(work)
    for tiles in (target.tiles, target.tiles // 2):
        bands = bands_of(stages, tiles)
        if bands is not None and work.cut == halo_cut(bands):
            ahead = 2 if _has_long_copy(target, stages) else 1
            if ahead > 1:
                yield halo_cut(bands, ahead)
            yield halo_cut(bands, ahead, together=_STEPS_TOGETHER)
            return


def _has_long_copy(target: Target, stages: Stages) -> bool:
    """True if the weights of a stage may still be in transit when its step begins."""
    largest = max(stage.layer.weight_bytes() for stage in stages.order)
    return largest / rates_of(target.machine).shared_link > _LONG_COPY


def gathered_cut(target: Target) -> Cut:
    """The cut that divides the channels of all stages among all tiles, which exchange the results."""
    return Cut((("channels", target.tiles),), (), ((BETWEEN, GATHER),))


def halo_cut(bands: Bands, ahead: int = 1, together: int = 1) -> Cut:
    """The cut that divides rows into bands, whose tiles exchange the rows at their edges."""
    others = tuple((name, size) for name, size in ((AHEAD, ahead), (TOGETHER, together)) if size > 1)
    return Cut((("rows", bands.count),), (("rows", bands.size), *others), ((BETWEEN, HALO),))


def plans(target: Target, stages: Stages) -> Iterator[StackPlan]:
    """The plans from which the cuts of a stack are made."""
    weights = sum(stage.layer.weight_bytes() for stage in stages.order)
    if weights > target.spm_bytes:
        return
    batch, rows, ways = stages.last.layer.batch, stages.last.layer.geometry.rows, _ways(target, weights)
    images = max(n for n in range(1, target.tiles + 1) if n <= batch and target.tiles % n == 0)
    parts = min(rows, target.tiles // images)
    share = ceil_div(rows, parts)
    for size in dict.fromkeys(ceil_div(share, blocks) for blocks in _BLOCKS):
        if all(_addressable(stages, size)):
            yield from (StackPlan(images, parts, size, way) for way in ways)


def _ways(target: Target, weights: int) -> tuple[str, ...]:
    """The ways to load ``weights`` bytes of weights, without one that takes far longer than the other."""
    rates, tiles = rates_of(target.machine), target.tiles
    if not weights or tiles == 1:
        return (OWN,)
    copied = rates.send + rates.copy + weights / rates.shared_link
    own, shared = tiles * weights / rates.ddr, weights / rates.ddr + copied + rates.meeting
    if own > _FAR * shared:
        return (WEIGHTS,)
    return (OWN,) if shared > _FAR * own else (WEIGHTS, OWN)


def _addressable(stages: Stages, size: int) -> Iterator[bool]:
    """For each stage, True if instructions can address its rows of image and result."""
    for stage in stages.order:
        geometry = stage.layer.geometry
        yield _fits(stage.rows, size, geometry.columns) and _fits(stage.image, size, geometry.width)


def _fits(rows: NeededRows, size: int, width: int) -> bool:
    return max(rows.most(size), width) <= LARGEST_EXTENT and rows.most(size) * width <= MOST_MOVES
