"""DWARF 5 of an image, so that debuggers and GNU objdump show the lines of its program.

Everything is derived from the image's tables: a compile unit for each code segment that has lines, with a
function for each function symbol. Names of files stay as the assembler received them, and the directory of
compilation is empty. So the bytes do not depend on where a program was assembled. A debugger finds the files
from the directory where the assembler was started, or with its own search path.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise

from .dwarf_lines import Rows, line_program, uleb
from .elf import PROGBITS, ElfSection
from .types import Image, Segment

SECTIONS = (".debug_line", ".debug_info", ".debug_abbrev")
_VERSION, _ADDRESS_BYTES = 5, 8
_UNIT_COMPILE = 1  # DW_UT_compile
_LANGUAGE = 0x8001  # DW_LANG_Mips_Assembler, what GNU as writes and debuggers take for "asm"
_PRODUCER = b"tx8as\0"
_DIRECTORY = b"\0"
_UNIT, _FUNCTION, _END = 1, 2, 0
"""Numbers of our abbreviations; 0 ends the children of a unit."""
_STRING, _ADDRESS, _DATA2, _DATA8, _OFFSET, _FLAG = 0x08, 0x01, 0x05, 0x07, 0x17, 0x0C
"""DW_FORM_string, addr, data2, data8, sec_offset, flag."""
_ABBREVIATIONS = bytes(
    (
        _UNIT,
        0x11,
        1,  # DW_TAG_compile_unit, with children
        0x25,
        _STRING,  # DW_AT_producer
        0x13,
        _DATA2,  # DW_AT_language
        0x03,
        _STRING,  # DW_AT_name
        0x1B,
        _STRING,  # DW_AT_comp_dir
        0x10,
        _OFFSET,  # DW_AT_stmt_list
        0x11,
        _ADDRESS,  # DW_AT_low_pc
        0x12,
        _DATA8,
        0,
        0,  # DW_AT_high_pc, as a length
        _FUNCTION,
        0x2E,
        0,  # DW_TAG_subprogram
        0x03,
        _STRING,  # DW_AT_name
        0x3F,
        _FLAG,  # DW_AT_external
        0x11,
        _ADDRESS,  # DW_AT_low_pc
        0x12,
        _DATA8,
        0,
        0,  # DW_AT_high_pc
        0,
    )
)
_UNIT_HEADER = struct.Struct("<IHBBI")
_PLACE = struct.Struct("<QQ")
_LINE_HEAD = struct.Struct("<IHBBI")
_LINE_LENGTH, _LINE_HEAD_TAIL = 4, 2 + 1 + 1 + 4
"""Bytes at the start of a line table that its length, and the length of its header, do not count."""


def debug_sections(image: Image) -> list[ElfSection]:
    """The sections of debug information; none for an image without lines.

    UnicodeEncodeError for a name that is not Unicode.
    """
    addresses = sorted(image.lines)
    lines = units = b""
    for segment in image.segments:
        if segment.flags != "rx":
            continue
        first = bisect_left(addresses, segment.address)
        last = bisect_left(addresses, segment.address + len(segment.data))
        if first < last:
            rows = _rows(image, addresses[first:last])
            units += _unit(image, segment, rows, len(lines))
            lines += _line_table(segment, rows)
    if not lines:
        return []
    return [
        ElfSection(name, PROGBITS, data)
        for name, data in zip(SECTIONS, (lines, units, _ABBREVIATIONS), strict=True)
    ]


def _rows(image: Image, addresses: list[int]) -> Rows:
    files, lines = zip(*map(image.lines.__getitem__, addresses), strict=True)
    return Rows(addresses, files, lines)


def _text(name: str) -> bytes:
    """Encode a string, which NUL ends; names of files and symbols hold no NUL."""
    return name.encode().replace(b"\0", b"?") + b"\0"


def _unit(image: Image, segment: Segment, rows: Rows, lines_at: int) -> bytes:
    body = b"".join(
        (
            uleb(_UNIT),
            _PRODUCER,
            struct.pack("<H", _LANGUAGE),
            _text(rows.files[0]),
            _DIRECTORY,
            struct.pack("<I", lines_at),
            _PLACE.pack(segment.address, len(segment.data)),
            *(_function(*function) for function in _functions(image, segment)),
            bytes((_END,)),
        )
    )
    length = _UNIT_HEADER.size - 4 + len(body)
    return _UNIT_HEADER.pack(length, _VERSION, _UNIT_COMPILE, _ADDRESS_BYTES, 0) + body


def _function(name: str, is_global: bool, start: int, size: int) -> bytes:
    return b"".join((uleb(_FUNCTION), _text(name), bytes((is_global,)), _PLACE.pack(start, size)))


def _functions(image: Image, segment: Segment) -> Iterator[tuple[str, bool, int, int]]:
    """(name, whether global, address, bytes) of the functions of a segment, in the order of their addresses.

    As in GNU as, these are the symbols of type function; a debugger takes other labels from the symbol table.
    A function without a size, or whose size is too large, ends where the next one begins.
    """
    end = segment.address + len(segment.data)
    found = {
        symbol.address: (name, symbol)
        for name, symbol in image.symbols.items()
        if symbol.kind == "func"
        and symbol.section == segment.section
        and segment.address <= symbol.address < end
    }
    for start, following in pairwise([*sorted(found), end]):
        name, symbol = found[start]
        size = min(symbol.size or following - start, following - start)
        yield name, symbol.binding == "global", start, size


def _line_table(segment: Segment, rows: Rows) -> bytes:
    files = list(dict.fromkeys(rows.files))
    end = segment.address + len(segment.data)
    parameters, program = line_program(rows, {file: number for number, file in enumerate(files)}, end)
    path_alone, path_and_directory = bytes((1, 1, _STRING)), bytes((2, 1, _STRING, 2, 0x0B))
    header = b"".join(
        (
            parameters,
            path_alone,
            uleb(1),
            _DIRECTORY,
            path_and_directory,
            uleb(len(files)),
            *(_text(file) + b"\0" for file in files),
        )
    )
    length = _LINE_HEAD.size - _LINE_LENGTH + len(header) + len(program)
    return _LINE_HEAD.pack(length, _VERSION, _ADDRESS_BYTES, 0, len(header)) + header + program
