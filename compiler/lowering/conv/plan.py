"""Plans: cuts of a convolution or a pool as numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from compiler.lowering.record import Cut
from tx8isa.numbers.division import ceil_div

from .layer import ConvLayer

KEEP = "keep"
"""Name of a choice: ``weights`` are kept for all rows, or ``rows`` are kept for all maps."""
TEAM_LOADS = "share"
"""Name of a choice: the data that tiles load together (``own``: nothing)."""
OWN, WEIGHTS, IMAGE, BOTH = "own", "weights", "image", "both"
_COLUMNS = "columns"


@dataclass(frozen=True)
class ConvPlan:
    """A cut as numbers: shards of images, rows and maps; rows, maps and input channels of a slice.

    ``columns`` is 0 if slices have whole rows. Otherwise it is the largest number of columns of a slice, and
    ``column_parts`` the number of shards of a row.
    """

    images: int
    row_parts: int
    map_parts: int
    rows: int
    maps: int
    channels: int
    keep: str = "weights"
    team_loads: str = OWN
    column_parts: int = 1
    columns: int = 0

    @property
    def grid(self) -> tuple[int, ...]:
        """Tiles along images, rows, columns if they are divided, and maps."""
        columns = (self.column_parts,) if self.columns else ()
        return (self.images, self.row_parts, *columns, self.map_parts)

    @property
    def tiles(self) -> int:
        """Tiles that have a place in the grid."""
        return math.prod(self.grid)

    @property
    def weights_by_team(self) -> bool:
        """True if tiles with the same maps load their weights together."""
        return self.team_loads in (WEIGHTS, BOTH)

    @property
    def image_by_team(self) -> bool:
        """True if tiles with the same rows load them together."""
        return self.team_loads in (IMAGE, BOTH)

    def cut(self) -> Cut:
        """The plan as a Cut, the form that the search stores."""
        tiles = [("images", self.images), ("rows", self.row_parts), ("maps", self.map_parts)]
        sizes = [("rows", self.rows), ("maps", self.maps), ("channels", self.channels)]
        if self.columns:
            tiles.append((_COLUMNS, self.column_parts))
            sizes.append((_COLUMNS, self.columns))
        return Cut(tuple(tiles), tuple(sizes), ((KEEP, self.keep), (TEAM_LOADS, self.team_loads)))


def plan_of(cut: Cut) -> ConvPlan:
    """The plan of a cut."""
    return ConvPlan(
        cut.parts("images"),
        cut.parts("rows"),
        cut.parts("maps"),
        cut.size("rows"),
        cut.size("maps"),
        cut.size("channels"),
        cut.choice(KEEP, "weights"),
        cut.choice(TEAM_LOADS, OWN),
        cut.parts(_COLUMNS),
        dict(cut.sizes).get(_COLUMNS, 0),
    )


def slice_counts(layer: ConvLayer, plan: ConvPlan) -> tuple[int, int]:
    """Slices of the busiest tile: how many divide images, rows and columns, and how many divide maps."""
    images = ceil_div(layer.batch, plan.images)
    rows = ceil_div(ceil_div(layer.geometry.rows, plan.row_parts), plan.rows)
    if plan.columns:
        rows *= ceil_div(ceil_div(layer.geometry.columns, plan.column_parts), plan.columns)
    maps = ceil_div(layer.groups.count * ceil_div(layer.groups.maps, plan.maps), plan.map_parts)
    return images * rows, maps


def layer_for(layer: ConvLayer, plan: ConvPlan) -> ConvLayer:
    """The layer as a plan computes it; an image that all tiles load together keeps all its rows."""
    whole = plan.image_by_team and plan.row_parts == 1
    return replace(layer, geometry=replace(layer.every_row, whole=True)) if whole else layer


def narrowed(layer: ConvLayer, columns: int) -> ConvLayer:
    """The layer of slices with ``columns`` columns of the result; 0 for whole rows."""
    if not columns:
        return layer
    return replace(
        layer, geometry=replace(layer.geometry, columns=columns, width=layer.geometry.input_columns(columns))
    )
