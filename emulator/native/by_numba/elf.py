"""Reads the undefined symbols of a relocatable ELF64 object."""

from __future__ import annotations

import struct
from collections.abc import Iterator

_SYMTAB = 2
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")


def undefined_symbols(data: bytes) -> list[str]:
    """Return names the object refers to and does not define, in the order of its symbol table."""
    return [data[start : data.index(b"\0", start)].decode() for start in _undefined(data)]


def _undefined(data: bytes) -> Iterator[int]:
    """Yield the offsets of the names of undefined symbols in the object."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a little-endian ELF64 object")
    offset = struct.unpack_from("<Q", data, 40)[0]
    size, count = struct.unpack_from("<HH", data, 58)
    sections = [_SECTION.unpack_from(data, offset + i * size) for i in range(count)]
    for section in sections:
        if section[1] != _SYMTAB:
            continue
        table, length, strings = section[4], section[5], sections[section[6]][4]
        for at in range(table, table + length, _SYMBOL.size):
            name, _, _, defined_in, _, _ = _SYMBOL.unpack_from(data, at)
            if name and not defined_in:
                yield strings + name
