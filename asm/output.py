"""The finished program as an image, and as a listing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, pairwise, repeat

from asm.image.types import (
    ABSOLUTE,
    Buffer,
    EntryPoint,
    Image,
    LiveRange,
    Segment,
    Shapes,
    Symbol,
    ddr_windows,
)
from asm.syntax.expressions import Address, number_of
from tx8isa.machine.identity import identity
from tx8isa.tools.files import Bytes

from .assembly import Assembly, ListingRow, Place
from .diagnostics import AsmError, Diagnostic
from .place import LOCAL, Section, SymbolEntry

_BYTES_PER_ROW = 16
"""Bytes in one row of a listing."""

START = "_start"
"""The entry of a program without .entry; without this symbol it is the first instruction."""


def image_of(assembly: Assembly) -> Image:
    """The image of an assembled program; AsmError when it has no instruction."""
    sections = [section for section in assembly.program.sections.values() if section.size and section.flags]
    sections.sort(key=lambda section: section.base or 0)
    code = code_sections(sections, assembly.name)
    buffers = tuple(replace(buffer, address=_address(assembly, at)) for buffer, at in assembly.buffers)
    return Image(
        entry=_entry(assembly, code[0]),
        segments=tuple(
            Segment(section.name, section.base or 0, _kept(section), section.size, section.flags)
            for section in sections
        ),
        tile_entries={tile: _address(assembly, at) for tile, at in assembly.tile_entries.items()},
        symbols=dict(_symbols(assembly)),
        data_ranges=[pair for s in sections if s.flags == "rx" for pair in _data_ranges(s)],
        buffers=buffers[: assembly.entry_points[0][2] if assembly.entry_points else None],
        lines=dict(chain.from_iterable(_lines(section) for section in code)),
        nodes=dict(chain.from_iterable(_nodes(section) for section in code)),
        live=sorted(_live(assembly), key=lambda live: (live.begin, live.address)),
        machine=identity(assembly.machine),
        windows=ddr_windows(assembly.machine),
        compressed=assembly.compression.used,
        entry_points=tuple(_entry_points(assembly, buffers)),
        shapes=_shapes(assembly),
    )


def code_sections(sections: Iterable[Section], name: str) -> list[Section]:
    """Return the sections with instructions; AsmError when the program ``name`` has none."""
    code = [section for section in sections if section.flags == "rx" and section.rows]
    if not code:
        raise AsmError([Diagnostic(name, 1, 1, "the program has no instruction")])
    return code


def _shapes(assembly: Assembly) -> Shapes | None:
    """Return the declarations of dynamic sizes; None without any."""
    at = assembly.shape_block
    if at is None:
        return None
    return Shapes(
        _address(assembly, at), tuple(assembly.dimensions), dict(assembly.extents), dict(assembly.room)
    )


def _kept(section: Section) -> Bytes:
    """Return the bytes of a section that go into the file; bytes of an included file are not copied."""
    return bytes(section.data) if section.view is None else section.view


def _address(assembly: Assembly, at: Place) -> int:
    """The final address of a place."""
    if isinstance(at, int):
        return at
    program = assembly.program
    return number_of(program.lookup(at) if isinstance(at, str) else program.settle(at))


def _live(assembly: Assembly) -> Iterator[LiveRange]:
    for live, begin, end in assembly.occupancy.closed:
        yield live._replace(begin=_address(assembly, begin), end=_address(assembly, end))


def _entry(assembly: Assembly, code: Section) -> int:
    if assembly.entry is not None:
        return _address(assembly, assembly.entry)
    if assembly.entry_points:
        return _address(assembly, assembly.entry_points[0][1])
    start = assembly.program.symbols.get(START)
    if start is not None and isinstance(start.value, Address):
        return _address(assembly, start.value)
    return (code.base or 0) + code.rows[0]


def _entry_points(assembly: Assembly, buffers: tuple[Buffer, ...]) -> Iterator[EntryPoint]:
    """The networks, each with the buffers that were declared after it and before the next one."""
    ends = (*(begin for _, _, begin in assembly.entry_points[1:]), len(buffers))
    for (found, at, begin), end in zip(assembly.entry_points, ends, strict=False):
        yield replace(found, address=_address(assembly, at), buffers=buffers[begin:end])


def _data_ranges(section: Section) -> Iterator[tuple[int, int]]:
    base = section.base or 0
    marks = section.marks[2:]
    end = len(section.content)
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


def _symbols(assembly: Assembly) -> Iterator[tuple[str, Symbol]]:
    """Every symbol that the program names, except names that begin with .L."""
    program = assembly.program
    kept = {section.name for section in program.sections.values() if section.size and section.flags}
    for name, entry in program.symbols.items():
        if LOCAL in name or name.startswith(".L") or not entry.defined:
            continue
        section = _section_of(entry)
        if section != ABSOLUTE and section not in kept:
            continue
        value = program.lookup(name)
        assert isinstance(value, int)
        binding = (
            "local" if entry.binding == "local" else "global"
        )  # nothing is left to choose for a weak symbol
        yield name, Symbol(value & (1 << 64) - 1, entry.size, entry.kind, section, binding)


def _section_of(entry: SymbolEntry) -> str:
    return entry.value.section if isinstance(entry.value, Address) else ABSOLUTE


# --- the listing --------------------------------------------------------------------------


def listing_text(assembly: Assembly) -> str:
    """One row per line that made bytes; lines of macros and repetitions are marked with ``+``."""
    rows = assembly.listing or []
    return "".join(line + "\n" for row in rows for line in _row(row))


def row_bytes(row: ListingRow) -> bytes:
    """The final bytes of a row, including zeros that need no room in the file."""
    data = bytes(row.section.content[row.offset : row.offset + row.size])
    return data + bytes(row.size - len(data))


def _row(row: ListingRow) -> Iterator[str]:
    address = (row.section.base or 0) + row.offset
    source = row.source
    mark = "+" if source.notes else " "
    text = f"{source.number(row.index):6}{mark} {source.lines[row.index]}".rstrip()
    shown = bytes(row.section.content[row.offset : row.offset + min(row.size, 4 * _BYTES_PER_ROW)])
    if not shown:
        yield f"{address:010x}  {f'({row.size} zero bytes)':32}  {text}"
        return
    for at in range(0, len(shown), _BYTES_PER_ROW):
        data = shown[at : at + _BYTES_PER_ROW].hex()
        yield f"{address + at:010x}  {data:32}  {'' if at else text}".rstrip()
    if row.size > len(shown):
        yield f"{'':10}  ... {row.size} bytes"
