"""The listing: address, bytes, and the line they came from."""

from __future__ import annotations

from collections.abc import Iterator

from .assembler import Assembler
from .fixups import ListingRow

_BYTES_PER_ROW = 16


def listing_text(assembler: Assembler) -> str:
    """One row per line that made bytes; lines of macros and repetitions are marked with ``+``."""
    rows = assembler.listing or []
    return "".join(line + "\n" for row in rows for line in _row(row))


def row_bytes(row: ListingRow) -> bytes:
    """The final bytes of a row; zeros that need no room in the file included."""
    data = bytes(row.section.data[row.offset : row.offset + row.size])
    return data + bytes(row.size - len(data))


def _row(row: ListingRow) -> Iterator[str]:
    address = (row.section.base or 0) + row.offset
    source = row.source
    mark = "+" if source.notes else " "
    text = f"{source.first + row.index:6}{mark} {source.lines[row.index]}".rstrip()
    shown = bytes(row.section.data[row.offset : row.offset + min(row.size, 4 * _BYTES_PER_ROW)])
    if not shown:
        yield f"{address:010x}  {f'({row.size} zero bytes)':32}  {text}"
        return
    for at in range(0, len(shown), _BYTES_PER_ROW):
        data = shown[at : at + _BYTES_PER_ROW].hex()
        yield f"{address + at:010x}  {data:32}  {'' if at else text}".rstrip()
    if row.size > len(shown):
        yield f"{'':10}  ... {row.size} bytes"
