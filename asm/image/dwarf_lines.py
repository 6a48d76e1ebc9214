"""The line number program of DWARF: rows of (address, file, line) as opcodes (DWARF 5, 6.2.5)."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from itertools import chain, groupby, islice
from operator import sub
from typing import NamedTuple


class Rows(NamedTuple):
    """One or more instructions as columns; the addresses ascend."""

    addresses: Sequence[int]
    files: Sequence[str]
    lines: Sequence[int]


_COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE = 1, 2, 3, 4
_EXTENDED, _END_SEQUENCE, _SET_ADDRESS = 0, 1, 2
_OPERANDS = bytes((0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1))
"""Number of operands of each standard opcode, which the header lists."""
_OPCODE_BASE = len(_OPERANDS) + 1
_LINE_BASE, _LINE_RANGE = 0, 4
"""One special opcode advances 0 to 3 lines and 0 to 60 bytes, which covers most instructions."""
_PARAMETERS = struct.pack("<BBBbBB", 1, 1, 1, _LINE_BASE, _LINE_RANGE, _OPCODE_BASE) + _OPERANDS
"""Parameters of the header: lengths in bytes, one operation an instruction, each row a statement."""
_FIRST_LINE = 1
"""The line at the beginning of a sequence."""


def uleb(value: int) -> bytes:
    """A number of at least 0 in LEB128."""
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*groups, value))


def sleb(value: int) -> bytes:
    """Any number in signed LEB128."""
    groups = bytearray()
    while not -0x40 <= value < 0x40:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*groups, value & 0x7F))


class _Steps(dict[tuple[int, int], bytes]):
    """Cache of the opcodes that advance one row, by distance (bytes, lines) from the row before."""

    def __missing__(self, step: tuple[int, int]) -> bytes:
        advance, lines = step
        code = b""
        if not _LINE_BASE <= lines < _LINE_BASE + _LINE_RANGE:
            code, lines = bytes((_ADVANCE_LINE,)) + sleb(lines), 0
        special = _OPCODE_BASE + lines - _LINE_BASE + _LINE_RANGE * advance
        if special > 255:
            code += bytes((_ADVANCE_PC,)) + uleb(advance)
            special = _OPCODE_BASE + lines - _LINE_BASE
        self[step] = code + bytes((special,))
        return self[step]


def line_program(rows: Rows, numbers: Mapping[str, int], end: int) -> tuple[bytes, bytes]:
    """Encode the parameters of the header and one sequence of the rows.

    ``numbers`` gives the number of each file, ``end`` is the address after the last instruction.
    """
    addresses, files, lines = rows
    advances = chain((0,), map(sub, addresses[1:], addresses))
    moves = chain((lines[0] - _FIRST_LINE,), map(sub, lines[1:], lines))
    opcodes = map(_Steps().__getitem__, zip(advances, moves, strict=True))
    parts = [_extended(_SET_ADDRESS, struct.pack("<Q", addresses[0]))]
    for file, group in groupby(files):
        parts.append(bytes((_SET_FILE,)) + uleb(numbers[file]))
        parts += islice(opcodes, len(list(group)))
    parts.append(bytes((_ADVANCE_PC,)) + uleb(end - addresses[-1]) + _extended(_END_SEQUENCE, b""))
    return _PARAMETERS, b"".join(parts)


def _extended(opcode: int, operand: bytes) -> bytes:
    return bytes((_EXTENDED,)) + uleb(1 + len(operand)) + bytes((opcode,)) + operand
