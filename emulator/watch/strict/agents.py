"""The numbers of a chip's agents (``shadow_words``): who accesses memory in an order of its own."""

from __future__ import annotations

from tx8isa.machine.description import Machine

_INSTRUCTIONS = 0
"""The DTE block that stands for the copies that instructions start: programs cannot use the real one."""


class Agents:
    """The agents of each tile are its core, its workers and the register blocks of its DTE, in this order."""

    def __init__(self, machine: Machine) -> None:
        self.workers, self.blocks = machine.tile.workers, machine.tile.dte_blocks
        self.per_tile = 1 + self.workers + self.blocks
        self.count = self.per_tile * machine.tiles
        self.first_copy = 1 + self.workers
        """Distance of the first DTE block of a tile from its core."""

    def core(self, tile: int) -> int:
        """The kernel core of a tile."""
        return tile * self.per_tile

    def worker(self, tile: int, worker: int) -> int:
        """A worker of a tile."""
        return self.core(tile) + 1 + worker

    def dte(self, tile: int, block: int | None) -> int:
        """A register block of a tile's DTE; None: the copies that instructions start."""
        return self.core(tile) + self.first_copy + (_INSTRUCTIONS if block is None else block)

    def owner(self, agent: int) -> tuple[int, int | None]:
        """The tile and the worker of an agent; the worker is None for the core and the DTE."""
        tile, inside = divmod(agent, self.per_tile)
        return tile, inside - 1 if 1 <= inside <= self.workers else None
