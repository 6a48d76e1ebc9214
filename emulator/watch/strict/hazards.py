"""Hazards as records: both instructions, the bytes, and a remedy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from asm.image import Image, named_place
from emulator.tile.fault import CategorisedKind, Category, Facts
from tx8isa.tools.command_line import note

MOST_SHOWN = 50

_CHANCE = Category.UNPREDICTABLE


class HazardKind(CategorisedKind):
    """The kinds of hazards."""

    UNINITIALISED = Facts("uninitialised", _CHANCE, "bytes are read that nothing has written")
    UNFINISHED = Facts("unfinished", _CHANCE, "the core or the DTE meets bytes that an engine may still use")
    RACE = Facts("race", _CHANCE, "two workers or tiles use the same bytes, and nothing orders them")
    CACHE = Facts("cache", _CHANCE, "the core's data cache may hold back a store, or hold old bytes")
    SPAN = Facts("span", Category.UNDEFINED, "bytes are read that a result's last line may have overwritten")
    SHUNNED = Facts("shunned", Category.UNDEFINED, "a card fails at an instruction that is specified")
    HIDDEN_END = Facts("hidden-end", Category.CONTRACT, "an end register hides bytes that are still in use")
    WATCHDOG = Facts("watchdog", Category.CONTRACT, "a command of TDMA takes longer than the time-out")
    ENDLESS = Facts("endless-wait", Category.CONTRACT, "no tile can ever go on")


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
    chip: int | None = None
    """Number of the chip; None when there is only one."""

    @property
    def place(self) -> str:
        """Return ``prog.s:12``, or the address."""
        return f"{self.file}:{self.line}" if self.file else f"0x{self.pc:x}"

    @property
    def text(self) -> str:
        worker = f" worker={self.worker}" if self.worker else ""
        chip = "" if self.chip is None else f" of chip {self.chip}"
        return f"{self.name}{worker} of tile {self.tile}{chip} ({named_place(self.place, self.node)})"


@dataclass(frozen=True)
class Hazard:
    """Something that may go wrong on the chip, even if it did not in this run."""

    kind: HazardKind
    at: Site
    """The instruction that comes later in the run."""
    other: Site | None
    memory: str
    """``DDR`` or ``SPM of tile 3``; empty when the hazard is not about bytes."""
    first: int
    """First and last byte, as the engines see them, of all bytes of the pair when it was first found."""
    last: int
    what: str
    fix: str
    count: int = 1
    """Number of times that this hazard occurred."""

    @property
    def category(self) -> Category:
        """The reason why this is a hazard."""
        return self.kind.category

    @property
    def text(self) -> str:
        """The hazard as one line."""
        again = f" [{self.count} times]" if self.count > 1 else ""
        return f"{self.kind}: {self.at.text}: {self.what}{again}; {self.fix}"


def make_site(
    image: Image, tile: int, pc: int, name: str, worker: int | None = None, chip: int | None = None
) -> Site:
    """Return an instruction with its source line and graph node, if the image has them."""
    file, line = image.lines.get(pc, (None, None))
    return Site(tile, pc, name, worker, file, line, image.nodes.get(pc), chip)


def grouped(found: Sequence[Hazard]) -> list[tuple[Hazard, list[int]]]:
    """Group hazards that differ only in tiles and addresses: the first of each, and the others' tiles."""
    groups: dict[tuple[object, ...], tuple[Hazard, list[int]]] = {}
    for hazard in found:
        other = hazard.other
        own = other and (other.chip, other.tile) == (hazard.at.chip, hazard.at.tile)
        both = other and (other.pc, other.name, other.worker, own)
        memory = hazard.memory.partition(" of ")[0]
        key = (hazard.kind, hazard.at.pc, hazard.at.name, hazard.at.worker, both, memory, hazard.fix)
        if key in groups:
            groups[key][1].append(hazard.at.tile)
        else:
            groups[key] = hazard, []
    return list(groups.values())


def _also(tiles: Sequence[int]) -> str:
    """Return the end of a line about a hazard that other tiles have too."""
    numbers = sorted(set(tiles))
    if not numbers:
        return ""
    whole = len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1
    text = f"{numbers[0]}..{numbers[-1]}" if whole else ", ".join(map(str, numbers))
    return f" (the same on tile{'s' if len(numbers) > 1 else ''} {text})"


def show_hazards(found: Sequence[Hazard], more: bool, gave_up: bool, program: str) -> None:
    """Print hazards to standard error.

    ``more``: some were not kept, because there were too many. ``gave_up``: the rest of the run was not
    checked.
    """
    groups = grouped(found)
    for hazard, tiles in groups[:MOST_SHOWN]:
        note(f"{program}: {hazard.text}{_also(tiles)}")
    left_out = sum(1 + len(tiles) for _, tiles in groups[MOST_SHOWN:])
    if left_out > 0 or more:
        text = "more hazards than are kept" if more else f"{left_out} more hazards"
        note(f"{program}: {text}")
    if gave_up:
        text = "the sanitizer's tables are full: the rest of the run was not checked"
        note(f"{program}: {text}")
