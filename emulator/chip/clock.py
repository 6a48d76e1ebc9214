"""How a system comes by simulated time, and its programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from emulator.tile.tile import Tile

if TYPE_CHECKING:
    from emulator.timing.simulator import Simulator
    from emulator.timing.slices import Sink

    from .system import System


def watch_time(system: System, timed: bool | None, sinks: Sequence[Sink]) -> Simulator | None:
    """The simulation of a system's time, which watches it; None without. Options as for ``System``."""
    if timed is None:
        timed = bool(sinks) or system.code.reads_clock
    if not timed:
        return None
    from emulator.timing.simulator import Simulator

    simulator = Simulator(system.tiles, system.machine, sinks)
    system.observers.append(simulator)
    return simulator


def look_at_time(simulator: Simulator | None, tile: Tile, register: bool) -> bool:
    """Whether ``tile.moment`` says what the tile's program finds now; else the tile has to wait.

    ``register``: it looks into a register of a unit, not into a CSR. Without simulation there is no moment.
    """
    if simulator is None:
        return True
    tile.moment = simulator.moment(tile, register)
    return tile.moment is not None
