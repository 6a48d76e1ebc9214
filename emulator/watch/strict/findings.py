"""Turns the findings of the compiled checks into hazards in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from asm.image import Image
from emulator.core.code import Code
from emulator.engines import tables
from emulator.memory import shadow_words as layout
from emulator.native.primitives.memory import get
from tx8isa.machine.description import Machine
from tx8isa.table import scalar as rv
from tx8isa.table.registry import by_mnemonic

from . import access
from .agents import Agents
from .exits import output_at
from .hazards import Hazard, HazardKind, Site, make_site

EXIT_NAME = "exit"
"""The name of the end of a tile's program."""
_COPY_NAME = "DTE copy"
Words = npt.NDArray[np.int64]
_CLEAN = "put 'th.dcache.cva' of the line and 'fence' after {other}, or store past the cache"
_INVALIDATE = "put 'th.dcache.iva' of the line before {at}, after {other} is complete, or go past the cache"
_OF_CACHES = {
    layout.HELD_READ: ("reads {where}, which {other} has stored, and the cache may hold it back", _CLEAN),
    layout.HELD_WRITE: (
        "writes {where}, in a line to which {other} has stored, and the cache may write all of it later",
        _CLEAN,
    ),
    layout.STALE_READ: (
        "loads {where}, which {other} has written, and the cache may have it as it was before",
        _INVALIDATE,
    ),
    layout.STALE_LINE: (
        "stores to the line of {where}, which {other} has written, and the cache may write all of it "
        "as it was",
        _INVALIDATE,
    ),
    layout.DROPPED: (
        "invalidates {where}, to which {other} has stored, and nothing has cleaned it",
        "clean the line before {at}: 'th.dcache.civa' does both",
    ),
}
"""Hazards with the data cache of a core, and their remedies."""


class Findings:
    """The pairs of accesses that compiled code has recorded in its tables.

    ``context`` holds the words of ``shadow_words``; ``codes`` is the program of each tile, which may change
    while it runs.
    """

    def __init__(
        self, context: Words, machine: Machine, image: Image, codes: Sequence[Code], agents: Agents
    ) -> None:
        self.context, self.machine, self.image, self.codes = context, machine, image, codes
        self.agents = agents
        self.several = machine.chip_count > 1
        self.pairs = np.zeros((layout.MOST_PAIRS, layout.PAIR_WORDS), np.int64)
        self._index = np.zeros(layout.INDEX_WORDS, np.int64)
        context[layout.PAIRS] = self.pairs.ctypes.data
        context[layout.PAIR_INDEX] = self._index.ctypes.data

    def hazards(self) -> Iterator[tuple[int, Hazard]]:
        """Yield (sequence number, hazard) of every pair."""
        for row in self.pairs[: int(self.context[layout.PAIR_COUNT])].tolist():
            yield row[layout.P_SEQUENCE], self._hazard(row)

    def _hazard(self, row: list[int]) -> Hazard:
        kind, space = row[layout.P_KIND], row[layout.P_SPACE]
        base = self.machine.windows.ddr_engine if space == layout.IN_DDR else 0
        of_chip = f" of chip {self.agents.chip}" if self.several else ""
        memory = f"DDR{of_chip}" if space == layout.IN_DDR else f"SPM of tile {space}{of_chip}"
        first, last = base + row[layout.P_FIRST], base + row[layout.P_LAST]
        at = self._site(row[layout.P_ACCESS])
        other = self._site(row[layout.P_OTHER]) if row[layout.P_OTHER] else None
        if kind == layout.OVERDUE:
            cycles, limit = row[layout.P_FIRST], row[layout.P_LAST]
            what = f"takes about {cycles} cycles, and the watchdog ends it after {limit}"
            fix = "split it into several commands"
            return Hazard(HazardKind.WATCHDOG, at, None, "", 0, -1, what, fix, row[layout.P_COUNT])
        if kind == layout.SHUNNED:
            why = by_mnemonic()[at.name].shunned
            fix = "use 'td.gatherscatter' or a product instead"
            return Hazard(HazardKind.SHUNNED, at, None, "", 0, -1, why, fix, row[layout.P_COUNT])
        where = f"0x{first:x}..0x{last:x} of {'' if base else 'the '}{memory}"
        if at.name == EXIT_NAME:
            where = f"output '{output_at(self.image, row[layout.P_FIRST])}', {where}"
        name, what, fix = words_of(kind, at, other, where)
        return Hazard(name, at, other, memory, first, last, what, fix, row[layout.P_COUNT])

    def _site(self, number: int) -> Site:
        """Return the instruction of an access."""
        at = access.access_at(int(self.context.ctypes.data), number)
        agent, pc, what = (get(at, word) for word in (layout.A_AGENT, layout.A_PC, layout.A_WHAT))
        chip, tile, worker = self.agents.owner(agent)
        name = name_of(what, pc, self.codes[tile])
        return make_site(self.image, tile, pc, name, worker, chip if self.several else None)


def name_of(what: int, pc: int, code: Code) -> str:
    """Return the name of what an access does: ``A_WHAT`` of ``shadow_words``, at an address of a program."""
    if what >= 0:
        return tables.records()[what].mnemonic
    if what == layout.COPY:
        return _COPY_NAME
    return EXIT_NAME if what == layout.EXIT else code.scalar(pc)[0].mnemonic


def words_of(kind: int, at: Site, other: Site | None, where: str) -> tuple[HazardKind, str, str]:
    """Return kind, description and remedy of a hazard about the bytes ``where``."""
    if other is None:
        what, fix = f"reads {where}, which nothing has written", "write them first, or read less"
        return HazardKind.UNINITIALISED, what, fix
    if kind == layout.SPOILED:
        what = f"reads {where}, which follow the result of {other.text} in its last 256-byte line"
        return HazardKind.SPAN, what, "keep nothing in that line, or write these bytes after it"
    if kind in _OF_CACHES:
        what, fix = _OF_CACHES[kind]
        what, fix = what.format(where=where, other=other.text), fix.format(at=at.place, other=other.place)
        return HazardKind.CACHE, what, fix
    if at.name == EXIT_NAME:
        what = f"ends while {other.text} may still be writing {where}"
        return HazardKind.UNFINISHED, what, _order(at, other)
    name = HazardKind.UNFINISHED if _of_one_tile(at, other) else HazardKind.RACE
    verbs = {layout.READ_WRITE: ("reads", "writing"), layout.WRITE_WRITE: ("writes", "writing")}
    verb, doing = verbs.get(kind, ("writes", "reading"))
    return name, f"{verb} {where}, which {other.text} may still be {doing}", _order(at, other)


def _of_one_tile(at: Site, other: Site) -> bool:
    """Return True if both belong to one tile, one of them to its core or DTE; it is then no race of workers
    or tiles."""
    here = (at.chip, at.tile) == (other.chip, other.tile)
    return here and (at.worker is None or other.worker is None)


def _order(at: Site, other: Site) -> str:
    """Return what would order two instructions."""
    if at.chip != other.chip and other.name == _COPY_NAME:
        return f"wait before {at.place} until its packet has come"
    if at.chip != other.chip:
        return f"let {at.place} wait for a packet that tile {other.tile} sends after {other.place}"
    wait = "dte.wait"
    if other.worker is not None:
        wait = f"ncc.wait worker={other.worker}" if other.worker else "ncc.wait"
    if at.tile == other.tile:
        return f"insert '{wait}' before {at.place}"
    meet = "and an ncc.barrier of both tiles between the two"
    if other.name in _core_names():
        return f"put an ncc.barrier of both tiles after {other.place} and before {at.place}"
    return f"insert '{wait}' after {other.place}, {meet}"


def _core_names() -> frozenset[str]:
    return frozenset(record.mnemonic for record in rv.scalar_instructions())
