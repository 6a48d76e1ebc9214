"""The symbol table of an image, with the mapping symbols that keep GNU objdump in step.

A symbol is three 64-bit words (name, info and section; value; size). Whole tables are built and read as
columns of one array. A program may have a hundred thousand engine instructions, and a RISC-V disassembler
treats each of them as data (``$d``) followed by code (``$x``).
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise

from .types import ABSOLUTE, Image, ImageError, Segment, Symbol

SYMBOL_BYTES = 24
_SHN_ABS = 0xFFF1
_KINDS = {"notype": 0, "object": 1, "func": 2}
_BINDINGS = {"local": 0, "global": 1}
_INFO = {(b, k): _BINDINGS[b] << 4 | _KINDS[k] for b in _BINDINGS for k in _KINDS}
_NAMES_OF_INFO = {info: names for names, info in _INFO.items()}
_DATA_NAME, _CODE_NAME = 1, 4  # offsets of "$d" and "$x" in the string table
_STRINGS_HEAD = b"\0$d\0$x\0"


@dataclass(frozen=True)
class SymbolTable:
    """Bytes of .symtab and .strtab, and the number of local symbols, which come first."""

    symbols: bytes
    strings: bytes
    locals: int


def pack_symbols(image: Image) -> SymbolTable:
    """Build the symbol table of an image whose segments are sections 1, 2, ..."""
    sections = {segment.section: index for index, segment in enumerate(image.segments, 1)}
    table = array("Q", (0, 0, 0))
    for start, end, index in _ranges_by_segment(image):
        table.extend(_mapping_symbols(image.segments[index], image.data_ranges[start:end], index + 1))
    first_global = len(table) // 3
    ordered = sorted(image.symbols.items(), key=lambda item: item[1].binding != "local")
    first_global += sum(symbol.binding == "local" for _, symbol in ordered)
    strings = _STRINGS_HEAD
    if ordered:
        names = [name.encode() for name, _ in ordered]
        strings += b"\0".join(names) + b"\0"
        offsets = accumulate((len(name) + 1 for name in names[:-1]), initial=len(_STRINGS_HEAD))
        table.extend(_named_symbols(ordered, offsets, {**sections, ABSOLUTE: _SHN_ABS}))
    return SymbolTable(_little(table).tobytes(), strings, first_global)


def _little(table: array[int]) -> array[int]:
    if sys.byteorder == "big":
        table.byteswap()
    return table


def _ranges_by_segment(image: Image) -> list[tuple[int, int, int]]:
    """Return (first range, end range, segment index) of every code segment; ImageError for a range outside of
    them."""
    flat = list(chain.from_iterable(image.data_ranges))
    if any(later < earlier for earlier, later in pairwise(flat)):
        raise ImageError("the data ranges do not ascend")
    starts, ends = flat[::2], flat[1::2]
    code = [
        (segment, index)
        for index, segment in enumerate(image.segments)
        if segment.flags == "rx" and segment.data
    ]
    code.sort(key=lambda pair: pair[0].address)
    found, position = [], 0
    for segment, index in code:
        end = position
        limit = segment.address + len(segment.data)
        while end < len(starts) and segment.address <= starts[end] and ends[end] <= limit:
            end += 1
        found.append((position, end, index))
        position = end
    if position < len(starts):
        raise ImageError(f"the data range {starts[position]:#x}..{ends[position]:#x} lies in no code segment")
    return sorted(found, key=lambda entry: entry[2])


def _mapping_symbols(segment: Segment, ranges: Sequence[tuple[int, int]], section: int) -> array[int]:
    """Make ``$x`` and ``$d`` symbols at every change between code and data."""
    marks = [address for start, end in ranges if start < end for address in (start, end)]
    if any(map(int.__eq__, marks[1:], marks)):  # adjacent ranges: the end of one is the start of the next
        marks = _without_pairs(marks)
    starts_with_data = bool(marks) and marks[0] == segment.address
    if not starts_with_data:
        marks.insert(0, segment.address)
    if marks[-1] == segment.address + len(segment.data):
        marks.pop()
    names = (_DATA_NAME, _CODE_NAME) if starts_with_data else (_CODE_NAME, _DATA_NAME)
    table = array("Q", (0,)) * (3 * len(marks))
    for parity, name in enumerate(names):
        table[3 * parity :: 6] = array("Q", (name | section << 48,)) * len(marks[parity::2])
    table[1::3] = array("Q", marks)
    return table


def _without_pairs(marks: list[int]) -> list[int]:
    kept: list[int] = []
    for mark in marks:
        if kept and kept[-1] == mark:
            kept.pop()
        else:
            kept.append(mark)
    return kept


def _named_symbols(
    ordered: list[tuple[str, Symbol]], offsets: Iterable[int], sections: Mapping[str, int]
) -> array[int]:
    for name, symbol in ordered:
        _check(name, symbol, sections)
    addresses, sizes, kinds, names, bindings = zip(*(symbol for _, symbol in ordered), strict=True)
    infos = map(_INFO.__getitem__, zip(bindings, kinds, strict=True))
    table = array("Q", (0,)) * (3 * len(ordered))
    table[0::3] = array(
        "Q",
        (
            offset | info << 32 | sections[section] << 48
            for offset, info, section in zip(offsets, infos, names, strict=True)
        ),
    )
    table[1::3] = array("Q", addresses)
    table[2::3] = array("Q", sizes)
    return table


def _check(name: str, symbol: Symbol, sections: Mapping[str, int]) -> None:
    if not name or "\0" in name or name in ("$x", "$d"):
        raise ImageError(f"{name!r} cannot be the name of a symbol")
    if symbol.section not in sections:
        raise ImageError(f"symbol {name}: section '{symbol.section}', expected one of {' '.join(sections)}")
    if symbol.kind not in _KINDS:
        raise ImageError(f"symbol {name}: kind '{symbol.kind}', expected one of {' '.join(_KINDS)}")
    if symbol.binding not in _BINDINGS:
        raise ImageError(f"symbol {name}: binding '{symbol.binding}', expected one of {' '.join(_BINDINGS)}")
    for what, value in (("address", symbol.address), ("size", symbol.size)):
        if not 0 <= value < 1 << 64:
            raise ImageError(f"symbol {name}: {what} {value}, expected 64 bits")


@dataclass(frozen=True)
class SymbolReader:
    """Reads the symbol table of the image file ``name``; its segments are sections 1, 2, ..."""

    name: str
    symbols: bytes
    strings: bytes
    segments: tuple[Segment, ...]

    def section(self, index: int) -> tuple[str, int]:
        """Return the name of a section and the address after its last byte; sections count from 1."""
        if index == _SHN_ABS:
            return ABSOLUTE, 0
        if not 1 <= index <= len(self.segments):
            raise ImageError(
                f"{self.name}: corrupted image: a symbol of section {index}, which is not a segment"
            )
        segment = self.segments[index - 1]
        return segment.section, segment.address + len(segment.data)

    def columns(self) -> tuple[array[int], array[int], array[int]]:
        """(name, info and section; value; size) of every symbol."""
        table = array("Q")
        table.frombytes(self.symbols)
        table = _little(table)
        return table[0::3], table[1::3], table[2::3]

    def text(self, offset: int) -> str:
        """Return the string at an offset of the string table."""
        end = self.strings.find(b"\0", offset)
        if end < 0:
            raise ImageError(f"{self.name}: corrupted image: a symbol name lies outside the string table")
        try:
            return self.strings[offset:end].decode()
        except UnicodeDecodeError:
            raise ImageError(f"{self.name}: corrupted image: a symbol name is not UTF-8") from None

    def named(self) -> dict[str, Symbol]:
        """The symbols that a person named, without section, file and mapping symbols."""
        found: dict[str, Symbol] = {}
        heads, values, sizes = self.columns()
        names = {offset: self.text(offset) for offset in {head & 0xFFFFFFFF for head in heads}}
        for head, value, size in zip(heads, values, sizes, strict=True):
            name = names[head & 0xFFFFFFFF]
            kind = _NAMES_OF_INFO.get(head >> 32 & 0xFF)
            if kind is None or name in ("", "$x", "$d"):
                continue
            if name in found:
                raise ImageError(f"{self.name}: corrupted image: two symbols are called {name}")
            section, _ = self.section(head >> 48)
            found[name] = Symbol(value, size, kind[1], section, kind[0])
        return found

    def data_ranges(self) -> list[tuple[int, int]]:
        """[start, end) from each ``$d`` to the next mapping symbol, or to the end of its section.

        ImageError for a mapping symbol outside of its section's code.
        """
        heads, values, _ = self.columns()
        names = {offset: self.text(offset) for offset in {head & 0xFFFFFFFF for head in heads}}
        marks = sorted(
            (head >> 48, value, names[head & 0xFFFFFFFF] == "$d")
            for head, value in zip(heads, values, strict=True)
            if names[head & 0xFFFFFFFF] in ("$x", "$d")
        )
        ranges: list[tuple[int, int]] = []
        for section in {section for section, _, is_data in marks if is_data}:
            group = marks[bisect_left(marks, (section,)) : bisect_left(marks, (section + 1,))]
            ends = [address for _, address, _ in group[1:]]
            ends.append(self._code_end(section, group[0][1], group[-1][1]))
            ranges += [(start, end) for (_, start, is_data), end in zip(group, ends, strict=True) if is_data]
        return sorted(ranges)

    def _code_end(self, section: int, first: int, last: int) -> int:
        """Return the end of a section with the mapping symbols ``first`` .. ``last``; ImageError outside."""
        name, end = self.section(section)
        code = [s for s in self.segments[section - 1 : section] if s.flags == "rx"]
        if not code:
            raise ImageError(
                f"{self.name}: corrupted image: a mapping symbol $d in {name}, expected in code alone"
            )
        start = code[0].address
        if not start <= first <= last <= end:
            wrong = last if start <= first else first
            raise ImageError(
                f"{self.name}: corrupted image: a mapping symbol of {name} at {wrong:#x}, "
                f"expected {start:#x}..{end:#x}"
            )
        return end
