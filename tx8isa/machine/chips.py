"""Several chips: the table ``[chips]`` of a machine description, and the routes between chips.

Chips are numbered like tiles: the chip at (x, y) is ``x * chips.y + y``. A message is routed along x first,
then along y. On a torus it takes the shorter direction, upwards if both are equally long (proposed).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from . import messages
from .figures import Cycles, Record

MOST_CHIPS = 32
"""Entries in the table of cards, one a chip (spec)."""
CARD_TABLE = 0x1_7F00_0000
"""Address of the table of cards, as the kernel cores see it (spec)."""
CARD_BYTES = 64
"""Bytes of an entry (proposed)."""
MOST_TILES = 16
"""Tile coordinates in an entry (spec)."""


class Chips(Record, frozen=True):
    """The mesh of chips, each a card with its own DDR."""

    x: Annotated[int, Meta(ge=1, le=MOST_CHIPS, description="Columns of chips.")]
    y: Annotated[int, Meta(ge=1, le=MOST_CHIPS, description="Rows of chips.")]
    shape: Annotated[Literal["mesh", "torus"], Meta(description="Whether the ends are linked.")]
    latency: Annotated[Cycles, Meta(description="One link: from the first byte leaving to its arrival.")]
    good: (
        Annotated[
            tuple[int, ...],
            Meta(min_length=1, max_length=MOST_CHIPS, description="By chip: a bit for each good tile."),
        ]
        | UnsetType
    ) = UNSET
    """Unset: all tiles of all chips are good."""

    @property
    def count(self) -> int:
        """The number of chips."""
        return self.x * self.y

    def xy(self, chip: int) -> tuple[int, int]:
        """Coordinates of a chip."""
        return divmod(chip, self.y)

    def number(self, x: int, y: int) -> int | None:
        """Return the chip at (x, y); None outside of the mesh."""
        return x * self.y + y if 0 <= x < self.x and 0 <= y < self.y else None

    def neighbours(self, chip: int) -> tuple[int, ...]:
        """Return the neighbours of a chip, ascending."""
        return tuple(other for other in range(self.count) if self.distance(chip, other) == 1)

    def next_hop(self, chip: int, target: int) -> int:
        """Return the neighbour to which a chip forwards a message for ``target``."""
        (x, y), (to_x, to_y) = self.xy(chip), self.xy(target)
        if x != to_x:
            return (x + self._step(x, to_x, self.x)) % self.x * self.y + y
        return x * self.y + (y + self._step(y, to_y, self.y)) % self.y

    def distance(self, chip: int, target: int) -> int:
        """Return the number of links between two chips."""
        (x, y), (to_x, to_y) = self.xy(chip), self.xy(target)
        return abs(self._way(x, to_x, self.x)) + abs(self._way(y, to_y, self.y))

    def good_tiles(self, chip: int, tiles: int) -> int:
        """The set of good tiles of a chip with ``tiles`` tiles, as a bit map."""
        return (1 << tiles) - 1 if self.good is UNSET else self.good[chip]

    def _way(self, at: int, to: int, extent: int) -> int:
        """Return the signed number of hops along an axis."""
        if self.shape == "mesh":
            return to - at
        up = (to - at) % extent
        return up if 2 * up <= extent else up - extent

    def _step(self, at: int, to: int, extent: int) -> int:
        return 1 if self._way(at, to, extent) > 0 else -1


def contradictions(chips: Chips, tiles: int, cached: int, seen: int) -> Iterator[str]:
    """Yield values of the table that are in range but contradict each other or the rest of the description.

    ``cached`` and ``seen``: address and size of the core's cached view of DDR.
    """
    count = chips.count
    if count > MOST_CHIPS:
        yield f"key chips: found {chips.x} x {chips.y} chips, expected at most {MOST_CHIPS}"
    if chips.latency.value == 0 or chips.latency.least == 0:
        yield "key chips.latency: found 0, expected more: nothing passes a link in no time"
    if chips.good is not UNSET:
        whole = (1 << tiles) - 1
        if len(chips.good) != count:
            yield f"key chips.good: found {len(chips.good)} bit maps, expected {count} (chips.x x chips.y)"
        for number, good in enumerate(chips.good):
            if not 0 < good <= whole:
                found, allowed = messages.number(good), messages.number(whole)
                yield f"key chips.good[{number}]: found {found}, expected a number from 1 to {allowed}"
    end = CARD_TABLE + CARD_BYTES * MOST_CHIPS
    if count > 1 and tiles > MOST_TILES:
        yield f"key grid: found {tiles} tiles, expected at most {MOST_TILES} on one of several chips"
    if count > 1 and not (cached <= CARD_TABLE and end <= cached + seen):
        place = f"the table of cards at {CARD_TABLE:#x}..{end - 1:#x}"
        yield f"key chips: found {count} chips, expected DDR that the core sees at {place}"
