"""Programs whose tiles run on several host threads."""

from __future__ import annotations

from emulator.chip.system import System
from emulator.memory import state


def outcome(system: System) -> list[tuple[object, ...]]:
    """All state of the tiles that a program can see or that is reported."""
    return [
        (
            tile.words[state.X : state.X + 32].tolist(),
            tile.pc,
            tile.retired,
            tile.status,
            tile.counts.tolist(),
            tile.spm.data.tobytes(),
            tile.spm.lines.tobytes(),
        )
        for tile in system.tiles
    ]
