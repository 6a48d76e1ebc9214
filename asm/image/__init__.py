"""The program image: an ELF64 RISC-V executable with a JSON note; docs/image.md describes it.

``read_image`` and ``write_image`` are here. The emulator imports only this folder of the assembler.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from zlib import crc32

from tx8isa.tools.files import Bytes

from . import elf
from .check import ddr_offset, problem
from .chips import image_of_chip
from .chips import section_of as section_of_chips
from .dwarf import debug_sections
from .entry_points import image_of_entry
from .lines import named_place, names_nodes
from .note import SegmentNote, check_version, decode_note, encode_note, image_fields
from .plain import plain_image
from .symbols import SYMBOL_BYTES, SymbolReader, SymbolTable, pack_symbols
from .types import (
    ABSOLUTE,
    LIVE_ROLES,
    SUM,
    VERSION,
    Buffer,
    Dimension,
    EntryPoint,
    Image,
    ImageError,
    LazyMapping,
    LazySequence,
    LiveRange,
    Segment,
    Shapes,
    Symbol,
    Window,
    ddr_windows,
)

__all__ = [
    "ABSOLUTE",
    "LIVE_ROLES",
    "SUM",
    "VERSION",
    "Buffer",
    "Dimension",
    "EntryPoint",
    "Image",
    "ImageError",
    "LiveRange",
    "Segment",
    "Shapes",
    "Symbol",
    "Window",
    "ddr_offset",
    "ddr_windows",
    "image_of_chip",
    "image_of_entry",
    "image_parts",
    "named_place",
    "names_nodes",
    "read_again",
    "read_image",
    "section_of_chips",
    "write_image",
]

_OWNER = "tx8"
_NOTE_JSON, _NOTE_CRC32 = 1, 2
_CHECKSUM = struct.Struct("<I")


def write_image(image: Image) -> bytes:
    """Return the file of an image as bytes; ImageError for an image that cannot be written."""
    return b"".join(image_parts(image))


def image_parts(image: Image) -> list[Bytes]:
    """Return the file of an image in pieces, without copying the segments' bytes; ImageError as above."""
    wrong = problem(image)
    if wrong:
        raise ImageError(wrong)
    try:
        table = pack_symbols(image)
        descriptor = encode_note(image)
        debug = debug_sections(image)
    except UnicodeEncodeError as error:
        raise ImageError(f"a name is not valid Unicode: {error.object!r}") from None
    note = elf.note(_OWNER, _NOTE_JSON, descriptor) + elf.note(_OWNER, _NOTE_CRC32, bytes(_CHECKSUM.size))
    loadables = [
        elf.Loadable(
            elf.PT_LOAD,
            elf.FLAG_BITS[segment.flags],
            ddr_offset(segment.address, image.windows) or 0,
            segment.size,
            index,
        )
        for index, segment in enumerate(image.segments)
    ]
    loadables.append(elf.Loadable(elf.PT_NOTE, elf.FLAG_BITS["r"], 0, len(note), len(image.segments)))
    sections = _sections(image, note, debug, table)
    flags = elf.COMPRESSED if image.compressed else 0
    return _sealed(elf.build(image.entry, sections, loadables, flags), note)


def _sealed(parts: list[Bytes], note: bytes) -> list[Bytes]:
    """Insert the file's checksum in the last bytes of the note, which count as zero in the checksum."""
    checksum = 0
    for part in parts:
        checksum = crc32(part, checksum)
    sealed = note[: -_CHECKSUM.size] + _CHECKSUM.pack(checksum)
    return [sealed if part is note else part for part in parts]


def read_image(data: Bytes, name: str) -> Image:
    """Reads the image from the bytes of the file ``name``; ImageError names the mistake in the file.

    An executable without our note, such as GCC's, is a program without buffers (``plain.py``).
    """
    file = elf.ElfFile(data, name)
    notes = {type_: (descriptor, offset) for type_, descriptor, offset in file.notes(_OWNER)}
    if not notes:
        return plain_image(file)
    descriptor = _descriptor(file, notes)
    note = decode_note(descriptor, name)
    programs = _loadable(file)
    if len(programs) != len(note.segments):
        raise ImageError(
            f"{name}: corrupted image: {len(programs)} loadable segments, the note lists {len(note.segments)}"
        )
    if file.entry != note.entry:
        raise ImageError(
            f"{name}: corrupted image: entry {file.entry:#x} in the header, {note.entry:#x} in the note"
        )
    segments = tuple(_segment(file, *pair) for pair in zip(programs, note.segments, strict=True))
    reader = _symbols(file, segments)
    image = Image(
        symbols=LazyMapping(reader.named),
        data_ranges=LazySequence(reader.data_ranges),
        compressed=bool(file.flags & elf.COMPRESSED),
        **image_fields(note, segments, name),
    )
    wrong = problem(image) or _misplaced(image, programs)
    if wrong:
        raise ImageError(f"{name}: {wrong}")
    return image


def read_again(image: Image, name: str) -> Image:
    """Return what ``read_image`` would return for the image's file, without writing it or copying large data.

    ImageError as for ``write_image`` and ``read_image``.
    """
    kept = [segment.flags != "rx" and len(segment.data) >= elf.COPIED for segment in image.segments]
    outline = [replace(s, data=b"") if k else s for s, k in zip(image.segments, kept, strict=True)]
    found = read_image(write_image(replace(image, segments=tuple(outline))), name)
    segments = zip(image.segments, found.segments, kept, strict=True)
    return replace(found, segments=tuple(own if k else read for own, read, k in segments))


def _sections(
    image: Image, note: bytes, debug: list[elf.ElfSection], table: SymbolTable
) -> list[elf.ElfSection]:
    sections = [_section(segment) for segment in image.segments]
    sections += (elf.ElfSection(".note.tx8", elf.NOTE, note, alignment=4), *debug)
    strings = len(sections) + 2  # sections count from 1, and .symtab comes first
    sections.append(
        elf.ElfSection(
            *(".symtab", elf.SYMTAB, table.symbols),
            link=strings,
            info=table.locals,
            alignment=8,
            entry_size=SYMBOL_BYTES,
        )
    )
    sections.append(elf.ElfSection(".strtab", elf.STRTAB, table.strings))
    return sections


_SECTION_FLAGS = {
    "r": elf.SHF_ALLOC,
    "rw": elf.SHF_ALLOC | elf.SHF_WRITE,
    "rx": elf.SHF_ALLOC | elf.SHF_EXECINSTR,
}


def _section(segment: Segment) -> elf.ElfSection:
    return elf.ElfSection(
        segment.section,
        elf.PROGBITS if segment.data else elf.NOBITS,
        segment.data,
        flags=_SECTION_FLAGS[segment.flags],
        address=segment.address,
        size=segment.size,
        alignment=min(segment.address & -segment.address, 64) or 64,
    )


def _descriptor(file: elf.ElfFile, notes: dict[int, tuple[bytes, int]]) -> bytes:
    """Return the JSON note; ImageError when the checksum shows that the file was changed."""
    if _NOTE_JSON not in notes:
        raise ImageError(f"{file.name}: corrupted image: the JSON note of '{_OWNER}' is missing")
    descriptor, _ = notes[_NOTE_JSON]
    check_version(descriptor, file.name)
    stored, offset = notes.get(_NOTE_CRC32, (b"", 0))
    data = memoryview(file.data)
    before = crc32(bytes(_CHECKSUM.size), crc32(data[:offset]))
    checksum = crc32(data[offset + _CHECKSUM.size :], before)
    if stored != _CHECKSUM.pack(checksum):
        raise ImageError(f"{file.name}: corrupted image: {_culprit(file, descriptor)}")
    return descriptor


def _culprit(file: elf.ElfFile, descriptor: bytes) -> str:
    """Name the part of a file that fails its checksum, as a message."""
    for program, note in zip(_loadable(file), decode_note(descriptor, file.name).segments, strict=False):
        if crc32(file.bytes_at(program.offset, program.file_size, f"segment {note.section}")) != note.crc32:
            return f"{note.section} does not match its checksum"
    return "its headers or tables do not match the checksum; was it changed after it was written?"


def _loadable(file: elf.ElfFile) -> list[elf.ProgramHeader]:
    return [program for program in file.programs if program.type == elf.PT_LOAD]


def _segment(file: elf.ElfFile, program: elf.ProgramHeader, note: SegmentNote) -> Segment:
    flags = {bits: flags for flags, bits in elf.FLAG_BITS.items()}
    return Segment(
        note.section,
        program.address,
        file.segment(program, f"segment {note.section}"),
        program.memory_size,
        flags.get(program.flags, f"{program.flags:#x}"),
    )


def _misplaced(image: Image, programs: list[elf.ProgramHeader]) -> str | None:
    for segment, program in zip(image.segments, programs, strict=True):
        expected = ddr_offset(segment.address, image.windows)
        if program.physical != expected:
            return (
                f"corrupted image: {segment.section} has the physical address {program.physical:#x}, "
                f"but {segment.address:#x} shows DDR offset {expected:#x}"
            )
    return None


def _symbols(file: elf.ElfFile, segments: tuple[Segment, ...]) -> SymbolReader:
    tables = [header for header in file.headers if header[1] == elf.SYMTAB]
    if len(tables) != 1:
        raise ImageError(f"{file.name}: corrupted image: {len(tables)} symbol tables, expected 1")
    _, _, _, _, offset, size, link, *_ = tables[0]
    if size % SYMBOL_BYTES:
        raise ImageError(f"{file.name}: corrupted image: .symtab of {size} bytes, {SYMBOL_BYTES} per symbol")
    symbols = file.bytes_at(offset, size, ".symtab")
    return SymbolReader(file.name, symbols, file.section_data(link), segments)
