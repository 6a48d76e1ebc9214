"""Hazards in words: both instructions, the bytes, and what would mend it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from asm.image import Image
from emulator.engines import tables
from emulator.memory import shadow_words as layout
from emulator.memory.words import get

from . import access

if TYPE_CHECKING:
    from .sanitizer import Sanitizer

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


def show_hazards(sanitizer: Sanitizer, program: str) -> bool:
    """Print what was found to standard error; whether there was anything."""
    found = sanitizer.hazards()
    for hazard in found[:MOST_SHOWN]:
        print(f"{program}: {hazard.text}", file=sys.stderr)
    more = len(found) - MOST_SHOWN
    if more > 0 or sanitizer.more:
        text = f"{max(more, 0)} more hazards" if not sanitizer.more else "more hazards than are kept"
        print(f"{program}: {text}", file=sys.stderr)
    if sanitizer.gave_up:
        print(
            f"{program}: the sanitizer's tables are full: the rest of the run was not checked",
            file=sys.stderr,
        )
    return bool(found)


def pair_hazards(sanitizer: Sanitizer) -> Iterator[tuple[int, Hazard]]:
    """The hazards of the shadow: (sequence number, hazard)."""
    for row in sanitizer.pairs[: int(sanitizer.context[layout.PAIR_COUNT])].tolist():
        yield row[layout.P_SEQUENCE], _hazard(sanitizer, row)


def _hazard(sanitizer: Sanitizer, row: list[int]) -> Hazard:
    kind, space = row[layout.P_KIND], row[layout.P_SPACE]
    base = sanitizer.machine.windows.ddr_engine if space == layout.IN_DDR else 0
    memory = "DDR" if space == layout.IN_DDR else f"SPM of tile {space}"
    first, last = base + row[layout.P_FIRST], base + row[layout.P_LAST]
    at = find_site(sanitizer, row[layout.P_ACCESS])
    other = find_site(sanitizer, row[layout.P_OTHER]) if row[layout.P_OTHER] else None
    if kind == layout.OVERDUE:
        cycles, limit = row[layout.P_FIRST], row[layout.P_LAST]
        what = f"takes about {cycles} cycles, and the watchdog ends it after {limit}"
        return Hazard(WATCHDOG, at, None, "", 0, -1, what, "make several commands of it", row[layout.P_COUNT])
    where = f"0x{first:x}..0x{last:x} of {'DDR' if base else f'the SPM of tile {space}'}"
    if other is None:
        name, what = UNINITIALISED, f"reads {where}, which nothing has written"
        fix = "write them first, or read less"
    elif kind == layout.SPOILED:
        name = SPAN
        what = f"reads {where}, which lie behind the result of {other.text} in its last 256-byte line"
        fix = "keep nothing in that line, or write these bytes after it"
    else:
        name = UNFINISHED if _of_one_tile(at, other) else RACE
        verbs = {layout.READ_WRITE: ("reads", "writing"), layout.WRITE_WRITE: ("writes", "writing")}
        verb, doing = verbs.get(kind, ("writes", "reading"))
        what, fix = f"{verb} {where}, which {other.text} may still be {doing}", _order(at, other)
    return Hazard(name, at, other, memory, first, last, what, fix, row[layout.P_COUNT])


def _of_one_tile(at: Site, other: Site) -> bool:
    """Whether the core or the DTE of a tile meets its engines or its DTE: no race of workers or tiles."""
    return at.tile == other.tile and (at.worker is None or other.worker is None)


def _order(at: Site, other: Site) -> str:
    """What would order two instructions."""
    wait = "dte.wait"
    if other.worker is not None:
        wait = f"ncc.wait worker={other.worker}" if other.worker else "ncc.wait"
    if at.tile == other.tile:
        return f"insert '{wait}' before {at.place}"
    meet = "and an ncc.barrier of both tiles between the two"
    if other.name in _core_names():
        return f"put an ncc.barrier of both tiles behind {other.place} and before {at.place}"
    return f"insert '{wait}' behind {other.place}, {meet}"


def _core_names() -> frozenset[str]:
    from tx8isa.table import scalar as rv

    return frozenset(record.mnemonic for record in rv.scalar_instructions())


def find_site(sanitizer: Sanitizer, number: int) -> Site:
    """The instruction of an access."""
    at = access.access_at(int(sanitizer.context.ctypes.data), number)
    agent, pc, what = (get(at, word) for word in (layout.A_AGENT, layout.A_PC, layout.A_WHAT))
    tile, inside = divmod(agent, sanitizer.per_tile)
    worker = inside - 1 if 1 <= inside <= sanitizer.workers else None
    if what >= 0:
        name = tables.records()[what].mnemonic
    elif what == layout.COPY:
        name = "DTE copy"
    else:
        name = sanitizer.system.codes[tile].scalar(pc)[0].mnemonic
    return make_site(sanitizer.system.image, tile, pc, name, worker)


def make_site(image: Image, tile: int, pc: int, name: str, worker: int | None = None) -> Site:
    """An instruction with what the image says of it."""
    file, line = image.lines.get(pc, (None, None))
    return Site(tile, pc, name, worker, file, line, image.nodes.get(pc))
