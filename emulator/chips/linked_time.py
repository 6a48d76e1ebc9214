"""Simulated time of a chip with links: it advances only up to a given time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from emulator.tile.tile import Status, Tile
from emulator.timing import layout
from emulator.timing.chip import SimulationArrays
from emulator.timing.log import half_full
from emulator.timing.simulator import Simulator
from emulator.timing.slices import Sink
from tx8isa.machine.description import Machine

_NEVER = -2


class Departure(NamedTuple):
    """Something that comes to the first link of its way to another chip."""

    tile: int
    ticket: int
    time: int
    position: int
    """Position of the message in the state of the simulation."""


class LinkedSimulator(Simulator):
    """A ``Simulator`` between whose events come those of other chips."""

    needs_rounds, may_wait = True, False

    def __init__(
        self,
        tiles: Sequence[Tile],
        machine: Machine,
        sinks: Sequence[Sink] = (),
        arrays: SimulationArrays | None = None,
    ) -> None:
        super().__init__(tiles, machine, sinks, arrays)
        self._rows_away = np.zeros((layout.AWAY_ROWS, layout.AWAY_WORDS), dtype=np.int64)
        self.chip[layout.H_AWAY] = self._rows_away.ctypes.data
        self._departures: list[Departure] = []
        self.departed = 0
        """Messages that have left for other chips."""
        self._polled = np.full(len(tiles), _NEVER, dtype=np.int64)
        """For each tile: instructions before its last poll, if that was in vain once more."""
        self.outstanding = np.zeros(len(tiles), dtype=np.int64)
        """For each tile: copies to other chips that are not done."""

    def polled(self, tile: Tile) -> None:
        again = self.polls[tile.number].again(tile.pc, self.logs[tile.number].written)
        self._polled[tile.number] = tile.retired if again else _NEVER
        super().polled(tile)

    def only_polls(self, tile: Tile) -> bool:
        """Whether the last that a tile has done is to poll in vain once more, and nothing else in between.

        After the first time it may still go on: a register says what is there, not what is looked for.
        """
        return bool(self._polled[tile.number] == tile.retired - 1)

    # -- between rounds ----------------------------------------------------------------------------------

    def round_ended(self, tiles: Sequence[Tile]) -> None:
        super().round_ended(tiles)
        self.carried -= self.outstanding

    def advance(self) -> None:
        """Note how far the tiles have come; time passes in ``reach``."""
        self._note_progress()

    def reach(self, bound: int) -> None:
        """Simulate what comes before a time and is not held back by a tile that may still do something."""
        self.chip[layout.H_BOUND] = bound
        self._process()
        self._hand_out_moments()

    def _deliver(self) -> None:
        super()._deliver()
        self._take_departures()

    def _take_departures(self) -> None:
        count = int(self.chip[layout.H_AWAY_ROWS])
        if count:
            self.chip[layout.H_AWAY_ROWS] = 0
            self._departures += map(Departure._make, self._rows_away[:count].tolist())
            self.departed += count

    def departures(self) -> list[Departure]:
        """Take what has left since the last time."""
        self._take_departures()
        found, self._departures = self._departures, []
        return found

    # -- when something can happen -----------------------------------------------------------------------

    @property
    def now(self) -> int:
        """Time of the last event."""
        return int(self.chip[layout.H_NOW])

    @now.setter
    def now(self, time: int) -> None:
        self.chip[layout.H_NOW] = max(time, self.now)

    @property
    def next_event(self) -> int:
        """The time of the next event that is known."""
        first = int(self.chip[self._places + layout.P_NEXT].min())
        return min(first, int(self.chip[layout.H_DDR_NEXT]))

    @property
    def next_deed(self) -> int:
        """The time before which no tile whose log is worked off may do something."""
        return max(int(self.chip[self._places + layout.P_HOLD].min()), self.now)

    @property
    def next_departure(self) -> int:
        """The time before which nothing that is in the logs leaves for another chip."""
        return self.next_event if sum(self.tickets) > self.departed else layout.HUGE

    @property
    def next_turn(self) -> int:
        """The time before which no tile whose log is not worked off may do something after it."""
        exited = np.array([tile.status is Status.EXITED for tile in self.tiles])
        return layout.HUGE if (exited | (self._heads[:, layout.T_AT] == 0)).all() else self.next_event

    def let_pass(self, tiles: Iterable[int]) -> None:
        """After a round: let these tiles hold back nothing until they do something again."""
        self.reach(1)  # from what they have just done it follows when each holds back what
        self.chip[self._places[list(tiles)] + layout.P_HOLD] = layout.HUGE

    def fullest(self) -> int | None:
        """The tile whose log must be worked off next, if there is one."""
        full = half_full(self._heads)
        return max(full, key=lambda number: (self.logs[number].used, -number)) if full else None

    def is_full(self, tile: Tile) -> bool:
        """Whether the log of a tile has no room for another instruction."""
        head = self.logs[tile.number].head
        return bool(head[layout.T_AT] > head[layout.T_SIZE] - layout.LOG_MARGIN)

    # -- what other chips do -----------------------------------------------------------------------------

    def arrived_from_afar(self, tile: int, stream: int) -> None:
        """Something for a stream has come now."""
        self.arrived[tile, stream] += 1
        place = self._places[tile]
        self.chip[place + layout.P_ARRIVED + stream] += 1
        self._wake(tile)

    def copy_finished(self, tile: int, position: int) -> None:
        """The copy to another chip that is at a position in the state is known to be done now."""
        self.outstanding[tile] -= 1
        self.carried[tile] += 1
        self.chip[position + layout.M_END] = self.now
        if self.chip[position + layout.M_PHASE] == layout.AT_WORK:
            self.chip[position + layout.M_EVENT] = self.now
            self.chip[self._places[tile] + layout.P_MESSAGE_NEXT] = self.now
            self._wake(tile)

    def _wake(self, tile: int) -> None:
        self.chip[self._places[tile] + layout.P_NEXT] = self.now
