"""Hazards in words: both instructions, the bytes, and what would mend it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from asm.image import Image

UNINITIALISED, UNFINISHED, RACE, SPAN = "uninitialised", "unfinished", "race", "span"
HIDDEN_END, WATCHDOG, ENDLESS = "hidden-end", "watchdog", "endless-wait"
MOST_SHOWN = 50


@dataclass(frozen=True)
class Site:
    """One instruction of a hazard; ``worker`` is None for the core and the DTE."""

    tile: int
    pc: int
    name: str
    worker: int | None = None
    file: str | None = None
    line: int | None = None
    node: str | None = None

    @property
    def place(self) -> str:
        """``prog.s:12``, or the address."""
        return f"{self.file}:{self.line}" if self.file else f"0x{self.pc:x}"

    @property
    def text(self) -> str:
        worker = f" worker={self.worker}" if self.worker else ""
        node = f", node '{self.node}'" if self.node else ""
        return f"{self.name}{worker} of tile {self.tile} ({self.place}{node})"


@dataclass(frozen=True)
class Hazard:
    """Something that may go wrong on the chip, in a run in which it perhaps did not."""

    kind: str
    at: Site
    """The instruction that comes later in the run."""
    other: Site | None
    memory: str
    """``DDR`` or ``SPM of tile 3``; empty when the hazard is not about bytes."""
    first: int
    """First byte as the engines see it, and last one; all bytes of the pair, the first time it was met."""
    last: int
    what: str
    fix: str
    count: int = 1
    """How often it was met."""

    @property
    def text(self) -> str:
        """One line."""
        again = f" [{self.count} times]" if self.count > 1 else ""
        return f"{self.kind}: {self.at.text}: {self.what}{again}; {self.fix}"


def make_site(image: Image, tile: int, pc: int, name: str, worker: int | None = None) -> Site:
    """An instruction with what the image says of it."""
    file, line = image.lines.get(pc, (None, None))
    return Site(tile, pc, name, worker, file, line, image.nodes.get(pc))


def show_hazards(found: Sequence[Hazard], more: bool, gave_up: bool, program: str) -> None:
    """Print hazards to standard error.

    ``more``: some were not kept, because there were too many. ``gave_up``: the rest of the run was not
    checked.
    """
    for hazard in found[:MOST_SHOWN]:
        print(f"{program}: {hazard.text}", file=sys.stderr)
    left_out = len(found) - MOST_SHOWN
    if left_out > 0 or more:
        text = "more hazards than are kept" if more else f"{left_out} more hazards"
        print(f"{program}: {text}", file=sys.stderr)
    if gave_up:
        text = "the sanitizer's tables are full: the rest of the run was not checked"
        print(f"{program}: {text}", file=sys.stderr)
