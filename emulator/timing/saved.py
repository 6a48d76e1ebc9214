"""The state of simulated time as arrays and numbers, as ``Simulator.save`` returns it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from emulator.tile.moment import Moment
from tx8isa.errors import Tx8Error

Words = npt.NDArray[np.int64]


@dataclass(frozen=True)
class SimulationState:
    """One simulation: the run's, or one with other figures of the machine."""

    chip: Words
    """The words of ``layout``; host addresses in them have no meaning."""
    rows: list[Words]
    """For each tile: the rows of its log that are not processed yet."""


@dataclass(frozen=True)
class LogState:
    """The state of a tile's log besides its rows."""

    skipped: int
    """Instructions that do not count."""
    dropped: int
    """Words that were processed."""
    progress: int
    """Words of PROGRESS rows."""
    efforts: int
    """Words of EFFORT rows."""
    came_from: int
    """The program counter at its last row."""
    before: int
    """Instructions before that row."""
    library: int
    """In the C runtime's library: instructions already handled; else -1."""
    kinds: bytes
    """A byte for each record: 1 if the tile has executed one."""
    lines: bytes
    """A byte for each line of the code: 1 if the tile has executed it."""
    polled_at: int
    """Words that were written at its failed poll; -1 before."""
    polls: dict[int, int]
    """Instructions executed at the first failed poll, by the address of the load."""


@dataclass(frozen=True)
class TimeState:
    """Simulated time of a chip; lists are by tile."""

    run: SimulationState
    logs: list[LogState]
    sent: Words
    carried: Words
    """``sent``: messages of copies that were started; ``carried``: messages of copies that were carried
    out."""
    arrived: Words
    seen: Words
    """[tile, stream]: numbers of arrived copies and updates, and of those that the program waited for."""
    moments: list[Moment | None]
    coming: list[list[tuple[int, int]]]
    """(tile, stream) of the messages that the tile has sent in this round."""
    replays: list[SimulationState]
    """On ``chip.others``; empty when the range was not asked for."""


class StandstillError(Tx8Error):
    """Simulated time cannot advance for a tile, whatever the others do, because of an edited saved state."""

    def __init__(self, tile: int, cycles: int) -> None:
        super().__init__(
            f"simulated time of tile {tile} stands still after {cycles} cycles: it waits for what never "
            "happens. The saved state that the run began with is one that no run leaves; save it again"
        )
