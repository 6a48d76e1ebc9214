"""Copies and fills of bytes on raw addresses, the basis of all data movement.

A source and its destination must not overlap; ``apart`` ensures this.
"""

from __future__ import annotations

from emulator.native.primitives.memory import copy_bytes, view_u8, view_u16, view_u32, view_u64
from tx8isa.numbers.primitives import u64

SECOND = 1 << 22
"""Offset in scratch of the copy of a second operand, of at most an SPM; short pieces and sums come after it.
The copy of the first operand is at 0."""


def overlap(a: int, a_bytes: int, b: int, b_bytes: int) -> bool:
    """Return True if two ranges share a byte."""
    return a < b + b_bytes and b < a + a_bytes


def apart(source: int, source_bytes: int, target: int, target_bytes: int, spare: int) -> int:
    """Return the address to read the source from: its copy at ``spare`` if the target overlaps it."""
    if overlap(source, source_bytes, target, target_bytes):
        copy_bytes(spare, source, source_bytes)
        return spare
    return source


def clear(target: int, size: int) -> None:
    """Zero ``size`` bytes."""
    to = view_u8(target, size)
    for i in range(u64(size)):
        to[i] = 0


def clear_rows(target: int, pitch: int, size: int, rows: int) -> None:
    """Zero ``rows`` rows of ``size`` bytes, ``pitch`` bytes from one to the next."""
    if size >= 8:
        for row in range(rows):
            at = target + row * pitch
            for word in range(size >> 3):
                view_u64(at + 8 * word, 1)[u64(0)] = 0
            view_u64(at + size - 8, 1)[u64(0)] = 0
    else:
        for row in range(rows):
            clear(target + row * pitch, size)


def copy_rows(target: int, target_pitch: int, source: int, source_pitch: int, size: int, rows: int) -> None:
    """Copy ``rows`` rows of ``size`` bytes, in order; pitches are the bytes from one row to the next.

    Short rows are copied as their first and their last 2, 4, 8, 16 or 32 bytes, which may overlap.
    """
    if target_pitch == size and source_pitch == size:
        copy_bytes(target, source, size * rows)
    elif size == 2:
        _copy_column_u16(target, target_pitch, source, source_pitch, rows)
    elif size == 4:
        _copy_column_u32(target, target_pitch, source, source_pitch, rows)
    elif size == 8:
        _copy_column_u64(target, target_pitch, source, source_pitch, rows)
    elif size < 8:
        _copy_short_rows(target, target_pitch, source, source_pitch, size, rows)
    elif size < 16:
        for row in range(rows):
            to, of = target + row * target_pitch, source + row * source_pitch
            _copy_ends_u64(to, of, size)
    elif size < 32:
        for row in range(rows):
            to, of = target + row * target_pitch, source + row * source_pitch
            _copy_16(to, of)
            _copy_16(to + size - 16, of + size - 16)
    elif size < 64:
        for row in range(rows):
            to, of = target + row * target_pitch, source + row * source_pitch
            _copy_32(to, of)
            _copy_32(to + size - 32, of + size - 32)
    else:
        for row in range(rows):
            _copy_long_row(target + row * target_pitch, source + row * source_pitch, size)


def _copy_column_u16(target: int, target_pitch: int, source: int, source_pitch: int, rows: int) -> None:
    """Copy rows of one 16-bit number."""
    to, of = target, source
    for _ in range(rows):
        view_u16(to, 1)[u64(0)] = view_u16(of, 1)[u64(0)]
        to, of = to + target_pitch, of + source_pitch


def _copy_column_u32(target: int, target_pitch: int, source: int, source_pitch: int, rows: int) -> None:
    """Copy rows of one 32-bit number."""
    to, of = target, source
    for _ in range(rows):
        view_u32(to, 1)[u64(0)] = view_u32(of, 1)[u64(0)]
        to, of = to + target_pitch, of + source_pitch


def _copy_column_u64(target: int, target_pitch: int, source: int, source_pitch: int, rows: int) -> None:
    """Copy rows of one 64-bit number."""
    to, of = target, source
    for _ in range(rows):
        view_u64(to, 1)[u64(0)] = view_u64(of, 1)[u64(0)]
        to, of = to + target_pitch, of + source_pitch


def _copy_short_rows(
    target: int, target_pitch: int, source: int, source_pitch: int, size: int, rows: int
) -> None:
    """Copy rows of 1 to 7 bytes."""
    for row in range(rows):
        to, of = target + row * target_pitch, source + row * source_pitch
        if size >= 4:
            _copy_ends_u32(to, of, size)
        elif size >= 2:
            _copy_ends_u16(to, of, size)
        else:
            view_u8(to, 1)[u64(0)] = view_u8(of, 1)[u64(0)]


def _copy_ends_u16(target: int, source: int, size: int) -> None:
    a, b = view_u16(source, 1)[u64(0)], view_u16(source + size - 2, 1)[u64(0)]
    view_u16(target, 1)[u64(0)] = a
    view_u16(target + size - 2, 1)[u64(0)] = b


def _copy_ends_u32(target: int, source: int, size: int) -> None:
    a, b = view_u32(source, 1)[u64(0)], view_u32(source + size - 4, 1)[u64(0)]
    view_u32(target, 1)[u64(0)] = a
    view_u32(target + size - 4, 1)[u64(0)] = b


def _copy_ends_u64(target: int, source: int, size: int) -> None:
    a, b = view_u64(source, 1)[u64(0)], view_u64(source + size - 8, 1)[u64(0)]
    view_u64(target, 1)[u64(0)] = a
    view_u64(target + size - 8, 1)[u64(0)] = b


def _copy_16(target: int, source: int) -> None:
    to, of = view_u64(target, 2), view_u64(source, 2)
    a, b = of[0], of[1]
    to[0], to[1] = a, b


def _copy_32(target: int, source: int) -> None:
    to, of = view_u64(target, 4), view_u64(source, 4)
    a, b, c, d = of[0], of[1], of[2], of[3]
    to[0], to[1], to[2], to[3] = a, b, c, d


def _copy_long_row(target: int, source: int, size: int) -> None:
    """Copy whole blocks of 64 bytes, then the last 64 bytes; some bytes may be copied twice."""
    at = 0
    while at + 64 < size:
        _copy_block(target + at, source + at)
        at += 64
    _copy_block(target + size - 64, source + size - 64)


def _copy_block(target: int, source: int) -> None:
    """Copy 64 bytes, all read before any is written, so that LLVM uses vector moves."""
    to, of = view_u64(target, 8), view_u64(source, 8)
    a, b, c, d = of[0], of[1], of[2], of[3]
    e, f, g, h = of[4], of[5], of[6], of[7]
    to[0], to[1], to[2], to[3] = a, b, c, d
    to[4], to[5], to[6], to[7] = e, f, g, h
