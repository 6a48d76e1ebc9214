"""The finished program as an image."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, pairwise, repeat

from asm.image.types import ABSOLUTE, Image, Segment, Symbol, ddr_windows
from asm.syntax.expressions import Address

from .assembler import Assembler
from .diagnostics import AsmError, Diagnostic
from .place import LOCAL, Section
from .place import Symbol as Entry

START = "_start"
"""The symbol where the program begins when no .entry says so; otherwise it is the first instruction."""


def image_of(assembler: Assembler) -> Image:
    """The image of an assembled program; AsmError when it has no instruction."""
    program = assembler.program
    sections = [section for section in program.sections.values() if section.size]
    sections.sort(key=lambda section: section.base or 0)
    code = [section for section in sections if section.flags == "rx" and section.rows]
    if not code:
        raise AsmError([Diagnostic(assembler.name, 1, 1, "the program has no instruction")])
    bases = {section.name: section.base or 0 for section in program.sections.values()}
    return Image(
        entry=_entry(assembler, bases, code[0]),
        segments=tuple(
            Segment(section.name, section.base or 0, bytes(section.data), section.size, section.flags)
            for section in sections
        ),
        tile_entries={tile: _final(at, bases) for tile, at in assembler.tile_entries.items()},
        symbols=dict(_symbols(assembler)),
        data_ranges=[pair for s in sections if s.flags == "rx" for pair in _data_ranges(s)],
        buffers=tuple(
            replace(buffer, address=_final(at, bases)) if at is not None else buffer
            for buffer, at in assembler.buffers
        ),
        lines=dict(chain.from_iterable(_lines(section) for section in code)),
        nodes=dict(chain.from_iterable(_nodes(section) for section in code)),
        machine=assembler.machine.name,
        windows=ddr_windows(assembler.machine),
    )


def _final(at: Address, bases: dict[str, int]) -> int:
    return bases[at.section] + at.offset


def _entry(assembler: Assembler, bases: dict[str, int], code: Section) -> int:
    if assembler.entry is not None:
        return _final(assembler.entry, bases)
    start = assembler.program.symbols.get(START)
    if start is not None and isinstance(start.value, Address):
        return _final(start.value, bases)
    return (code.base or 0) + code.rows[0]


def _data_ranges(section: Section) -> Iterator[tuple[int, int]]:
    base = section.base or 0
    marks = section.marks[2:]
    end = len(section.data)
    return ((base + a, base + min(b, end)) for a, b in zip(marks[::2], marks[1::2], strict=True) if a < end)


def _lines(section: Section) -> Iterator[tuple[int, tuple[str, int]]]:
    addresses, lines = _addresses(section), section.row_lines
    ranges = pairwise([*section.row_files, (len(addresses), None)])
    return chain.from_iterable(
        zip(addresses[start:end], zip(repeat(file), lines[start:end]), strict=False)
        for (start, file), (end, _) in ranges
        if file is not None
    )


def _nodes(section: Section) -> Iterator[tuple[int, str]]:
    addresses = _addresses(section)
    ranges = pairwise([*section.row_nodes, (len(addresses), "")])
    return chain.from_iterable(
        zip(addresses[start:end], repeat(name)) for (start, name), (end, _) in ranges if name
    )


def _addresses(section: Section) -> list[int]:
    base = section.base or 0
    return [base + row for row in section.rows]


def _symbols(assembler: Assembler) -> Iterator[tuple[str, Symbol]]:
    """Every symbol that a person named, but those that begin with .L."""
    program = assembler.program
    kept = {section.name for section in program.sections.values() if section.size}
    for name, entry in program.symbols.items():
        if LOCAL in name or name.startswith(".L") or not entry.defined:
            continue
        section = _section_of(entry)
        if section != ABSOLUTE and section not in kept:
            continue
        value = program.lookup(name)
        assert isinstance(value, int)
        yield name, Symbol(value & (1 << 64) - 1, entry.size, entry.kind, section, entry.binding)


def _section_of(entry: Entry) -> str:
    return entry.value.section if isinstance(entry.value, Address) else ABSOLUTE
