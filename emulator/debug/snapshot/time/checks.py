"""Checks simulated time in a saved state as a whole, before it becomes words."""

from __future__ import annotations

from collections.abc import Sequence

from emulator.tile.tile import Tile
from emulator.timing.chip import others
from tx8isa.machine.description import Machine

from ..types import SavedTime, SimulatedChip, SnapshotError
from .bounds import check_chip, check_flows, check_tile, check_tile_time, count
from .rows import LoggedTile, Prices


def check_time(saved: SavedTime, tiles: Sequence[Tile], machine: Machine) -> None:
    """Raise SnapshotError for simulated time that no run of these tiles, already restored, has reached."""
    known = others(machine)
    if len(saved.replays) not in (0, len(known)):
        raise SnapshotError(
            f"the saved state: simulated time with other figures: found {len(saved.replays)}, "
            f"expected 0 or {len(known)}"
        )
    _check_simulation(saved.run, tiles, Prices([machine]))
    for one, other in zip(saved.replays, known, strict=False):
        _check_simulation(one, tiles, Prices([other, machine]))  # the range may have been asked for later
    count("tiles", saved.tiles, len(tiles))
    for tile, found in zip(tiles, saved.tiles, strict=True):
        words = len(saved.run.tiles[tile.number].rows) // 8
        check_tile_time(found, tile, len(tiles), words)


def _check_simulation(saved: SimulatedChip, tiles: Sequence[Tile], prices: Prices) -> None:
    check_chip(saved, len(tiles))
    for tile, found in zip(tiles, saved.tiles, strict=True):
        log = LoggedTile(tile, len(tiles), prices)
        log.check_rows(found.rows)
        for one in (one for worker in found.workers for one in worker):
            log.check_instruction(one)
        for message in found.messages:
            if message.transfer is not None:
                log.check_transfer(message.transfer)
        check_tile(found, tile, saved)
    check_flows(saved)
