"""The numbers of agents (``shadow_words``), which access memory in an order of their own.

Agents of several chips are numbered through, beginning with chip 0.
"""

from __future__ import annotations

from tx8isa.machine.description import Machine

_INSTRUCTIONS = 0
"""The DTE block for copies that instructions start, because programs cannot use the real one."""


class Agents:
    """The agents of each tile: its core, its workers and the register blocks of its DTE, in this order.

    Tiles are those of the chip with this number.
    """

    def __init__(self, machine: Machine, chip: int = 0) -> None:
        self.workers, self.blocks = machine.tile.workers, machine.tile.dte_blocks
        self.per_tile = 1 + self.workers + self.blocks
        self.tiles, self.chip = machine.tiles, chip
        self.count = self.per_tile * machine.tiles * machine.chip_count
        """Agents of all chips."""
        self.first_copy = 1 + self.workers
        """Distance of the first DTE block of a tile from its core."""

    def core(self, tile: int) -> int:
        """Return the kernel core of a tile."""
        return (self.chip * self.tiles + tile) * self.per_tile

    @property
    def own(self) -> range:
        """Return the agents of the chip."""
        return range(self.core(0), self.core(self.tiles))

    def worker(self, tile: int, worker: int) -> int:
        """Return a worker of a tile."""
        return self.core(tile) + 1 + worker

    def dte(self, tile: int, block: int | None) -> int:
        """Return a register block of a tile's DTE; None: the copies that instructions start."""
        return self.core(tile) + self.first_copy + (_INSTRUCTIONS if block is None else block)

    def owner(self, agent: int) -> tuple[int, int, int | None]:
        """Return chip, tile and worker of an agent; the worker is None for the core and the DTE."""
        hart, inside = divmod(agent, self.per_tile)
        return *divmod(hart, self.tiles), inside - 1 if 1 <= inside <= self.workers else None
