"""The program's output, shown once even if the program goes back and writes it again."""

from __future__ import annotations

from emulator.chip.system import System


class Output:
    """Counts by tile: the pieces that were written, and how many of them were shown."""

    def __init__(self, system: System) -> None:
        self.system = system
        self._written = [0 for _ in system.tiles]
        self._shown = [0 for _ in system.tiles]

    def show(self) -> None:
        """Show the new output."""
        for tile in self.system.tiles:
            known = self._shown[tile.number] - self._written[tile.number]
            self._written[tile.number] += len(tile.output)
            self._shown[tile.number] = max(self._shown[tile.number], self._written[tile.number])
            del tile.output[:known]
        self.system.show_output()

    def written(self) -> tuple[int, ...]:
        """Return the numbers of written pieces by tile, for ``go_back``."""
        return tuple(self._written)

    def go_back(self, written: tuple[int, ...]) -> None:
        """Set the numbers of written pieces after the program was put back."""
        self._written = list(written)

    def forget(self) -> None:
        """Treat later output as not shown yet, because the program was changed."""
        self._shown = list(self._written)

    @property
    def behind(self) -> bool:
        """Return True if the program has yet to repeat output that was shown."""
        return self._written != self._shown
