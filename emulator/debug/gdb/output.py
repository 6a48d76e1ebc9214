"""What the program writes, shown once, however often the program goes back and writes it again."""

from __future__ import annotations

from emulator.chip.system import System


class Output:
    """Counts by tile: the pieces that were written, and of these how many somebody has seen."""

    def __init__(self, system: System) -> None:
        self.system = system
        self._written = [0 for _ in system.tiles]
        self._shown = [0 for _ in system.tiles]

    def show(self) -> None:
        """Show what is new."""
        for tile in self.system.tiles:
            known = self._shown[tile.number] - self._written[tile.number]
            self._written[tile.number] += len(tile.output)
            self._shown[tile.number] = max(self._shown[tile.number], self._written[tile.number])
            del tile.output[:known]
        self.system.show_output()

    def written(self) -> tuple[int, ...]:
        """By tile: what ``go_back`` wants."""
        return tuple(self._written)

    def go_back(self, written: tuple[int, ...]) -> None:
        """The program is back where it had written so much."""
        self._written = list(written)

    def forget(self) -> None:
        """From here on the program is not the same: what it writes has not been seen."""
        self._shown = list(self._written)

    @property
    def behind(self) -> bool:
        """Whether the program will write what somebody has seen."""
        return self._written != self._shown
