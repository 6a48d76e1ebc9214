"""Puts what the judge of accesses has found into words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from asm.image import Image, ddr_offset
from emulator.core.code import Code
from emulator.memory.shadow_words import IN_DDR, READ_WRITE, WRITE_READ, WRITE_WRITE
from emulator.watch.strict.exits import output_at
from emulator.watch.strict.findings import EXIT_NAME, name_of, words_of
from emulator.watch.strict.hazards import Hazard, Site, make_site
from tx8isa.machine.description import Machine
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import Layout, place

from . import rows as layout
from .judge import A_AT, A_HIGH, A_LOW, A_TILE, Judged

Words = npt.NDArray[np.int64]


@dataclass(frozen=True)
class OrderFindings:
    """What is known of the order of a run's accesses."""

    hazards: tuple[Hazard, ...]
    """Unordered pairs of accesses that share bytes; at least one of each pair writes."""
    accesses: int
    compared: int
    """Pairs that were compared piece by piece, because the bytes that they span overlap."""
    not_followed: frozenset[str]
    """What else orders accesses of the program: then nothing is decided."""
    reads: frozenset[tuple[str, str]]
    """Inputs whose numbers a kernel core reads, each with the place of the load: other numbers may lead to
    other accesses."""


def found_order(
    machine: Machine, image: Image, codes: Sequence[Code], judged: Judged, not_followed: frozenset[str]
) -> OrderFindings:
    """Return the findings in words."""
    found: dict[tuple[object, ...], Hazard] = {}
    for first, second, byte in judged.pairs.tolist():
        hazard = _hazard(machine, image, codes, judged.accesses[[first, second]], byte)
        other = hazard.other
        key = hazard.at.pc, hazard.at.tile, other and (other.pc, other.tile), hazard.memory
        found.setdefault(key, hazard)
    reads, count = _reads(image, codes, judged.accesses), len(judged.accesses)
    return OrderFindings(tuple(found.values()), count, judged.compared, not_followed, reads)


def _hazard(machine: Machine, image: Image, codes: Sequence[Code], both: Words, byte: int) -> Hazard:
    """Return a pair as a hazard, in the words of the sanitizer."""
    tiles = [_tile(row, codes, image) for row in both]
    same_tile = tiles[0].tile == tiles[1].tile
    # The later one of a tile, or the one that reads, may meet the other.
    keys = [int(row[A_AT]) if same_tile else -int(row[layout.R_WRITTEN]) for row in both]
    later = int(keys[1] > keys[0])
    at, other = tiles[later], tiles[1 - later]
    writes = both[later][layout.R_WRITTEN], both[1 - later][layout.R_WRITTEN]
    kind = WRITE_WRITE if all(writes) else WRITE_READ if writes[0] else READ_WRITE
    in_ddr = both[0][layout.R_SPACE] == IN_DDR
    base = machine.windows.ddr_engine if in_ddr else 0
    memory = "DDR" if in_ddr else f"SPM of tile {both[0][layout.R_SPACE]}"
    where = f"0x{base + byte:x} of {memory if in_ddr else f'the {memory}'}"
    if at.name == EXIT_NAME:
        where = f"output '{output_at(image, byte)}', {where}"
    name, what, fix = words_of(kind, at, other, where)
    return Hazard(name, at, other, memory, base + byte, base + byte, what, fix)


def _tile(row: Words, codes: Sequence[Code], image: Image) -> Site:
    """Return the instruction of an access."""
    tile, pc, agent = int(row[A_TILE]), int(row[layout.R_PC]), int(row[layout.R_AGENT])
    worker = agent - 1 if layout.CORE_AGENT < agent < layout.FIRST_COPY else None
    return make_site(image, tile, pc, name_of(int(row[layout.R_WHAT]), pc, codes[tile]), worker)


def _reads(image: Image, codes: Sequence[Code], accesses: Words) -> frozenset[tuple[str, str]]:
    """Return the inputs that a core reads, with the places of its loads."""
    of_core = (accesses[:, layout.R_AGENT] == layout.CORE_AGENT) & (accesses[:, layout.R_WRITTEN] == 0)
    loads = accesses[of_core & (accesses[:, layout.R_SPACE] == IN_DDR)]
    found = set()
    for buffer in image.buffers:
        offset = ddr_offset(buffer.address, image.windows)
        if buffer.kind != "input" or offset is None:
            continue
        size = place(Format.parse(buffer.format), buffer.shape, Layout.parse(buffer.layout)).total_bytes
        within = loads[(loads[:, A_LOW] < offset + size) & (loads[:, A_HIGH] > offset)]
        found |= {(buffer.name, _tile(row, codes, image).place) for row in within}
    return frozenset(found)
