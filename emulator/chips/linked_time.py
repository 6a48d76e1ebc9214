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
    """A message that reaches the first link of its way to another chip."""

    tile: int
    ticket: int
    time: int
    position: int
    """Position of the message in the state of the simulation."""


class LinkedSimulator(Simulator):
    """A ``Simulator`` whose events are interleaved with those of other chips."""

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
        """For each tile: instructions before its last poll, if polls failed repeatedly."""
        self.outstanding = np.zeros(len(tiles), dtype=np.int64)
        """For each tile: copies to other chips that are not done."""

    def polled(self, tile: Tile) -> None:
        again = self.polls[tile.number].again(tile.pc, self.logs[tile.number].written)
        self._polled[tile.number] = tile.retired if again else _NEVER
        super().polled(tile)

    def only_polls(self, tile: Tile) -> bool:
        """Return True if a tile's last instruction was another failed poll, and nothing arrived in between.

        After the first failed poll it may still continue, because the value of the register may satisfy it.
        """
        return bool(self._polled[tile.number] == tile.retired - 1)

    # -- between rounds ----------------------------------------------------------------------------------

    def round_ended(self, tiles: Sequence[Tile]) -> None:
        super().round_ended(tiles)
        self.carried -= self.outstanding

    def advance(self) -> None:
        """Record how far the tiles have come; time passes in ``reach``."""
        self._note_progress()

    def reach(self, bound: int) -> None:
        """Simulate the events before a time that no running tile can still change."""
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
        """Take the messages that have left since the last call."""
        self._take_departures()
        found, self._departures = self._departures, []
        return found

    # -- times of future events --------------------------------------------------------------------------

    @property
    def now(self) -> int:
        """Return the time of the last event."""
        return int(self.chip[layout.H_NOW])

    @now.setter
    def now(self, time: int) -> None:
        self.chip[layout.H_NOW] = max(time, self.now)

    @property
    def next_event(self) -> int:
        """Return the time of the next known event."""
        first = int(self.chip[self._places + layout.P_NEXT].min())
        return min(first, int(self.chip[layout.H_DDR_NEXT]))

    @property
    def next_deed(self) -> int:
        """Return the time before which no tile with a processed log may act."""
        return max(int(self.chip[self._places + layout.P_HOLD].min()), self.now)

    @property
    def next_departure(self) -> int:
        """Return the time before which nothing in the logs leaves for another chip."""
        return self.next_event if sum(self.tickets) > self.departed else layout.HUGE

    @property
    def next_turn(self) -> int:
        """Return the time before which no tile with an unprocessed log may act after its log."""
        exited = np.array([tile.status is Status.EXITED for tile in self.tiles])
        return layout.HUGE if (exited | (self._heads[:, layout.T_AT] == 0)).all() else self.next_event

    def let_pass(self, tiles: Iterable[int]) -> None:
        """After a round, let these tiles not hold back time until they act again."""
        self.reach(1)  # the last instructions show when each tile holds back time
        self.chip[self._places[list(tiles)] + layout.P_HOLD] = layout.HUGE

    def fullest(self) -> int | None:
        """Return the tile whose log must be processed next, if there is one."""
        full = half_full(self._heads)
        return max(full, key=lambda number: (self.logs[number].used, -number)) if full else None

    def is_full(self, tile: Tile) -> bool:
        """Return True if the log of a tile has no room for another instruction."""
        head = self.logs[tile.number].head
        return bool(head[layout.T_AT] > head[layout.T_SIZE] - layout.LOG_MARGIN)

    # -- messages of other chips -------------------------------------------------------------------------

    def arrived_from_afar(self, tile: int, stream: int) -> None:
        """Record that a message for a stream has arrived now."""
        self.arrived[tile, stream] += 1
        place = self._places[tile]
        self.chip[place + layout.P_ARRIVED + stream] += 1
        self._wake(tile)

    def copy_finished(self, tile: int, position: int) -> None:
        """Record that the copy to another chip at a position in the state is done now."""
        self.outstanding[tile] -= 1
        self.carried[tile] += 1
        self.chip[position + layout.M_END] = self.now
        if self.chip[position + layout.M_PHASE] == layout.AT_WORK:
            self.chip[position + layout.M_EVENT] = self.now
            self.chip[self._places[tile] + layout.P_MESSAGE_NEXT] = self.now
            self._wake(tile)

    def _wake(self, tile: int) -> None:
        self.chip[self._places[tile] + layout.P_NEXT] = self.now
