"""Polls: what a program does while it looks for something that is not there yet.

How often a program looks depends on how the run was divided into rounds, so it must not count: from the first
look in vain on, instructions do not take time until the same instruction has found it.
"""

from __future__ import annotations


class Polls:
    """What one tile has looked for in vain since its last row in the log."""

    def __init__(self) -> None:
        self._written = -1
        self._places: dict[int, int] = {}
        """Instructions retired at the first look, by the address of the load that looked."""

    def in_vain(self, pc: int, retired: int, written: int) -> None:
        """A load at ``pc`` found nothing, when the tile had written so much of its log."""
        if written != self._written:
            self._written = written
            self._places.clear()
        self._places.setdefault(pc, retired)

    def found(self, pc: int, retired: int, written: int) -> int:
        """How many instructions do not count, now that the load at ``pc`` has found something."""
        first = self._places.get(pc, retired) if written == self._written else retired
        self._places.clear()
        return retired - first

    def since(self, written: int, retired: int) -> int:
        """Instructions up to which it is certain that they count."""
        if written != self._written:
            return retired
        return min(self._places.values(), default=retired)

    def save(self) -> tuple[int, dict[int, int]]:
        return self._written, dict(self._places)

    def restore(self, saved: tuple[int, dict[int, int]]) -> None:
        self._written, self._places = saved[0], dict(saved[1])
