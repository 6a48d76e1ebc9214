"""Reads an executable without the note, as GCC and GNU ld write it: a program without named buffers.

Every tile starts at its entry. Segments are loaded at their virtual addresses, which must lie in a DDR
window (docs/image.md, Executables of other tools).
"""

from __future__ import annotations

import struct

from . import elf
from .check import problem
from .symbols import SYMBOL_BYTES
from .types import Image, ImageError, LazyMapping, Segment, Symbol

_SYMBOL = struct.Struct("<IBBHQQ")
_KINDS = {0: "notype", 1: "object", 2: "func"}
_THREAD_LOCAL = 0x400
"""SHF_TLS; such a section without bytes has an address but occupies nothing in its segment."""
_UNDEFINED, _RESERVED_SECTIONS = 0, 0xFF00


def plain_image(file: elf.ElfFile) -> Image:
    """Return the image of an executable without our note; ImageError, with the reason, if the machine cannot
    run it."""
    image = Image(
        file.entry,
        _segments(file),
        symbols=LazyMapping(lambda: _symbols(file)),
        machine="",
        compressed=bool(file.flags & elf.COMPRESSED),
    )
    wrong = problem(image)
    if wrong:
        raise ImageError(f"{file.name}: {wrong}")
    return image


def _segments(file: elf.ElfFile) -> tuple[Segment, ...]:
    flags = {bits: flags for flags, bits in elf.FLAG_BITS.items()}
    found: dict[str, Segment] = {}
    for program in file.programs:
        if program.type != elf.PT_LOAD or not program.memory_size:
            continue
        name = _section_at(file, program.address)
        if name in found:
            name = f"{name}.{program.address:x}"
        if program.physical != program.address:
            raise ImageError(
                f"{file.name}: segment {name} is linked for {program.address:#x} but to be loaded at "
                f"{program.physical:#x}: the loader copies nothing afterwards, link it for one address"
            )
        data = file.bytes_at(program.offset, program.file_size, f"segment {name}")
        protection = flags.get(program.flags, f"{program.flags:#x}")
        found[name] = Segment(name, program.address, data, program.memory_size, protection)
    return tuple(found.values())


def _section_at(file: elf.ElfFile, address: int) -> str:
    """Return the name of the first section of a segment, or of the segment itself."""
    for name_at, type_, flags, start, _, size, *_ in file.headers:
        occupies = flags & elf.SHF_ALLOC and not (flags & _THREAD_LOCAL and type_ == elf.NOBITS)
        if start == address and size and occupies:
            names = file.section_data(file.names_section)
            end = names.find(b"\0", name_at)
            return names[name_at:end].decode("utf-8", "replace")
    return f"load_{address:x}"


def _symbols(file: elf.ElfFile) -> dict[str, Symbol]:
    """Return the named symbols. Of equal names the global symbol is used, otherwise the first local one."""
    tables = [header for header in file.headers if header[1] == elf.SYMTAB]
    if not tables:
        return {}
    _, _, _, _, offset, size, link, *_ = tables[0]
    data = file.bytes_at(offset, size - size % SYMBOL_BYTES, ".symtab")
    strings = file.section_data(link)
    found: dict[str, Symbol] = {}
    for name_at, info, _, section, value, extent in _SYMBOL.iter_unpack(data):
        name = strings[name_at : strings.find(b"\0", name_at)].decode("utf-8", "replace")
        usable = section != _UNDEFINED and section < min(_RESERVED_SECTIONS, len(file.headers))
        if not name or name[0] == "$" or not usable or info & 15 not in _KINDS:
            continue
        binding = "global" if info >> 4 else "local"
        if name not in found or binding == "global":
            place = _section_at(file, file.headers[section][3])
            found[name] = Symbol(value, extent, _KINDS[info & 15], place, binding)
    return found
