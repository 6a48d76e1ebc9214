"""Events of a run, for simulated time, the sanitizer and others that observe the run without changing it.

There are two levels. Compiled code calls hooks (``engines/hooks.py``); Python calls the methods of every
``Observer``. Events of one tile come in the order of its program. Methods marked *between rounds* are called
while no tile runs. All others are called by the thread that runs the tile, so they may access only that
tile's data.
"""

from __future__ import annotations

from collections.abc import Sequence

from .events import Copy, Packet
from .tile import Tile


class Observer:
    """Base class of observers, whose methods do nothing. Program counters are still on the instruction."""

    needs_rounds = True
    """True if it must see all barriers, exits and round ends, not only the ones that Python handles."""

    def waited(self, tile: Tile, worker: int) -> None:
        """A program has seen in a status register that a worker has finished all its work."""

    def result_read(self, tile: Tile, worker: int) -> None:
        """A program has read the result of a worker's instruction in the write-back registers."""

    def polled(self, tile: Tile) -> None:
        """A program's poll of a unit's register has failed."""

    def copy_started(self, tile: Tile, copy: Copy, block: int | None) -> None:
        """The DTE was told to copy, by an instruction (block None) or through a register block."""

    def copies_awaited(self, tile: Tile) -> None:
        """A tile waits until its copies are done (``dte.wait``), or has seen a finished one in dma_status."""

    def update_sent(self, tile: Tile, target: int, packet: Packet, chip: int | None) -> None:
        """A packet counter update was sent to a tile, perhaps of another chip."""

    def arrival_seen(self, tile: Tile, stream: int) -> None:
        """A program has seen in a stream's registers that packets have arrived."""

    def barrier_entered(self, tile: Tile, group: int) -> None:
        """A tile waits at the barrier of a set of tiles."""

    def exited(self, tile: Tile) -> None:
        """A tile has ended; its queues are empty."""

    def copy_done(self, tile: Tile, copy: Copy, error: bool) -> None:
        """Between rounds: a copy was carried out, or refused by a stream; in the order of their start."""

    def barrier_released(self, group: int) -> None:
        """Called between rounds, when all tiles of a set have reached their barrier."""

    def never_goes_on(self, tiles: Sequence[Tile]) -> None:
        """Between rounds: no tile can ever continue; a fault follows."""

    def round_ended(self, tiles: Sequence[Tile]) -> None:
        """Between rounds: copies were carried out and barriers released; the next round begins."""

    def run_ended(self, tiles: Sequence[Tile]) -> None:
        """Every tile has exited, or the run was stopped by a fault."""
