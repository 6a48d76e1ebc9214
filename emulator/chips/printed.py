"""Text that the programs of several chips print, in the order of simulated time.

Chips run ahead of one another as far as they can, and how far differs between emulations. So the text of a
chip is kept until no chip can print anything earlier.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

from emulator.chip.options import Show


class PrintedText(NamedTuple):
    """A printed text; texts of one time come in the order of their chips."""

    time: int
    chip: int
    number: int
    """Number of texts that the chip has printed before it."""
    file: int
    data: bytes


class PrintedTexts:
    """Texts that are not shown yet; ``show`` as in ``RunOptions``."""

    def __init__(self, show: Show) -> None:
        self._show = show
        self._kept: list[PrintedText] = []

    def add(self, text: PrintedText) -> None:
        """Keep a text."""
        heappush(self._kept, text)

    def show(self, before: int) -> None:
        """Show the text printed before a time; nothing earlier may come after it."""
        while self._kept and self._kept[0].time < before:
            text = heappop(self._kept)
            self._show(text.file, text.data)

    def take(self) -> list[PrintedText]:
        """Take all texts, to be shown somewhere else."""
        kept, self._kept = self._kept, []
        return kept
