"""The ELF64 container: headers, sections and notes. Source: System V ABI, ELF-64; RISC-V ELF psABI (spec)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from tx8isa.tools.files import Bytes

from .types import ImageError

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_PROGRAM = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_NOTE = struct.Struct("<III")

_MAGIC = b"\x7fELF"
_IDENT = _MAGIC + bytes((2, 1, 1)) + bytes(9)  # 64 bits, little endian, version 1, System V
_EXEC, _RISCV = 2, 243
COMPRESSED = 1
"""EF_RISCV_RVC of the header's flags: the code has 16-bit instructions."""

PT_LOAD, PT_NOTE = 1, 4
PROGBITS, SYMTAB, STRTAB, NOTE, NOBITS = 1, 2, 3, 7, 8
SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR = 1, 2, 4
FLAG_BITS = {"r": 4, "rw": 6, "rx": 5}
COPIED = 1 << 20
"""Segments of fewer bytes are copied out of their file."""
PAGE = 4096
"""File offset and address of a segment with bytes agree modulo this, so that a loader may map the file."""


@dataclass
class ElfSection:
    """A section header and its bytes. ``size`` counts for NOBITS, which has no bytes."""

    name: str
    type: int
    data: Bytes
    flags: int = 0
    address: int = 0
    size: int = 0
    link: int = 0
    info: int = 0
    alignment: int = 1
    entry_size: int = 0


@dataclass(frozen=True)
class ProgramHeader:
    """A program header."""

    type: int
    flags: int
    offset: int
    address: int
    physical: int
    file_size: int
    memory_size: int


@dataclass(frozen=True)
class Loadable:
    """The fields of a program header except its file offset, and the index of its section."""

    type: int
    flags: int
    physical: int
    memory_size: int
    section: int


def build(entry: int, sections: list[ElfSection], loadables: list[Loadable], flags: int = 0) -> list[Bytes]:
    """Build an executable of these sections, as pieces to join; adds the null section and .shstrtab.

    The bytes of each section are a separate piece, without a copy of the section's object.
    """
    names = ElfSection(".shstrtab", STRTAB, b"")
    sections = [*sections, names]
    names.data = b"\0" + b"".join(section.name.encode() + b"\0" for section in sections)
    parts: list[Bytes] = [b""]
    position = _HEADER.size + _PROGRAM.size * len(loadables)
    offsets = []
    for section in sections:
        padding = (section.address - position) % _file_alignment(section)
        parts += (bytes(padding), section.data)
        offsets.append(position + padding)
        position += padding + len(section.data)
    padding = -position % 8
    parts.append(bytes(padding))
    headers = _section_headers(sections, offsets)
    count = len(sections) + 1
    parts[0] = _HEADER.pack(
        *(_IDENT, _EXEC, _RISCV, 1, entry, _HEADER.size, position + padding, flags),
        *(_HEADER.size, _PROGRAM.size, len(loadables), _SECTION.size, count, count - 1),
    ) + b"".join(_program_header(loadable, sections, offsets) for loadable in loadables)
    return [*parts, headers]


def _file_alignment(section: ElfSection) -> int:
    if section.type == NOBITS:
        return 1
    return PAGE if section.flags & SHF_ALLOC else section.alignment


def _program_header(loadable: Loadable, sections: list[ElfSection], offsets: list[int]) -> bytes:
    section = sections[loadable.section]
    return _PROGRAM.pack(
        *(loadable.type, loadable.flags, offsets[loadable.section], section.address, loadable.physical),
        *(len(section.data), loadable.memory_size, _file_alignment(section)),
    )


def _section_headers(sections: list[ElfSection], offsets: list[int]) -> bytes:
    headers, name = [bytes(_SECTION.size)], 1
    for section, offset in zip(sections, offsets, strict=True):
        size = section.size if section.type == NOBITS else len(section.data)
        headers.append(
            _SECTION.pack(
                *(name, section.type, section.flags, section.address, offset, size),
                *(section.link, section.info, section.alignment, section.entry_size),
            )
        )
        name += len(section.name.encode()) + 1
    return b"".join(headers)


def note(owner: str, type_: int, descriptor: bytes) -> bytes:
    """One entry of a note section."""
    name = owner.encode() + b"\0"
    return _NOTE.pack(len(name), len(descriptor), type_) + _padded(name) + _padded(descriptor)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


class ElfFile:
    """The headers of an executable that was read; every range is checked before it is used."""

    def __init__(self, data: Bytes, name: str) -> None:
        self.data = data
        self.name = name
        header = self._identify()
        self.entry = header[4]
        self.flags, self.names_section = header[7], header[13]
        program_at, section_at = header[5], header[6]
        program_size, programs, section_size, sections = header[9:13]
        self.programs = [
            ProgramHeader(*fields[:7])
            for fields in self._table(_PROGRAM, program_at, program_size, programs, "program")
        ]
        self.headers = self._table(_SECTION, section_at, section_size, sections, "section")

    def _identify(self) -> tuple[int, ...]:
        data = self.data
        if data[:4] != _MAGIC:
            found = data[:4].hex(" ") or "nothing"
            raise ImageError(
                f"{self.name}: not a program image: it starts with {found}, expected {_MAGIC.hex(' ')}"
            )
        if len(data) < _HEADER.size:
            raise ImageError(
                f"{self.name}: truncated image: {len(data)} bytes, the header has {_HEADER.size}"
            )
        header = _HEADER.unpack_from(data)
        foreign: tuple[tuple[str, int, int, str], ...] = (
            ("ELF class", data[4], 2, "64 bits"),
            ("byte order", data[5], 1, "little endian"),
            ("machine", header[2], _RISCV, "RISC-V"),
            ("file type", header[1], _EXEC, "executable"),
        )
        for what, value, expected, meaning in foreign:
            if value != expected:
                raise ImageError(
                    f"{self.name}: foreign file: {what} {value}, expected {expected} ({meaning})"
                )
        return header

    def bytes_at(self, offset: int, size: int, what: str) -> bytes:
        """Return a range of the file; ImageError when the file ends before it does."""
        self._check(offset, size, what)
        return bytes(self.data[offset : offset + size])

    def _check(self, offset: int, size: int, what: str) -> None:
        if offset + size > len(self.data):
            raise ImageError(
                f"{self.name}: truncated image: {what} ends at byte {offset + size}, "
                f"the file has {len(self.data)}"
            )

    def segment(self, program: ProgramHeader, what: str) -> Bytes:
        """Return the bytes of a segment; large data are not copied. ImageError as above."""
        if program.file_size < COPIED or program.flags == FLAG_BITS["rx"]:
            return self.bytes_at(program.offset, program.file_size, what)
        self._check(program.offset, program.file_size, what)
        return memoryview(self.data)[program.offset : program.offset + program.file_size].toreadonly()

    def _table(
        self, entry: struct.Struct, offset: int, size: int, count: int, what: str
    ) -> list[tuple[int, ...]]:
        if count and size != entry.size:
            raise ImageError(
                f"{self.name}: corrupted image: {what} headers of {size} bytes, not {entry.size}"
            )
        table = self.bytes_at(offset, count * entry.size, f"the table of {what} headers")
        return list(entry.iter_unpack(table))

    def notes(self, owner: str) -> Iterator[tuple[int, bytes, int]]:
        """(type, descriptor, offset in the file) of every note of ``owner``."""
        wanted = owner.encode() + b"\0"
        for program in self.programs:
            if program.type != PT_NOTE:
                continue
            area = self.bytes_at(program.offset, program.file_size, "a note")
            position = 0
            while position + _NOTE.size <= len(area):
                name_size, size, type_ = _NOTE.unpack_from(area, position)
                start = position + _NOTE.size + (name_size + 3 & ~3)
                if start + size > len(area):
                    raise ImageError(f"{self.name}: corrupted image: a note is longer than its section")
                if area[position + _NOTE.size :][:name_size] == wanted:
                    yield type_, area[start : start + size], program.offset + start
                position = start + (size + 3 & ~3)

    def section_data(self, index: int) -> bytes:
        """Return the bytes of the section with this index; ImageError when there is none."""
        if index >= len(self.headers):
            raise ImageError(f"{self.name}: corrupted image: section {index} of {len(self.headers)}")
        _, _, _, _, offset, size, *_ = self.headers[index]
        return self.bytes_at(offset, size, f"section {index}")
