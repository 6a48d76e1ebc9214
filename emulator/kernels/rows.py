"""Copies and fills of bytes on raw addresses: what all data movement is made of.

A source and its destination must not overlap; ``apart`` sees to that.
"""

from __future__ import annotations

from emulator.native.memory import copy_bytes, view_u8, view_u16, view_u32, view_u64
from tx8isa.primitives import u64

SECOND = 1 << 22
"""Offset in scratch of the copy of a second operand; the first lies at 0, each is at most an SPM long."""

SCRATCH_BYTES = 8 << 20
"""Working memory kernels need, for an SPM of up to SECOND - 64 KiB: the rest holds short pieces and sums."""


def overlap(a: int, a_bytes: int, b: int, b_bytes: int) -> bool:
    """Whether two ranges share a byte."""
    return a < b + b_bytes and b < a + a_bytes


def apart(source: int, source_bytes: int, target: int, target_bytes: int, spare: int) -> int:
    """The address to read the source from: its copy at ``spare`` when the target overlaps it."""
    if overlap(source, source_bytes, target, target_bytes):
        copy_bytes(spare, source, source_bytes)
        return spare
    return source


def clear(target: int, size: int) -> None:
    """Zero ``size`` bytes."""
    to = view_u8(target, size)
    for i in range(u64(size)):
        to[i] = 0


def copy_rows(target: int, target_pitch: int, source: int, source_pitch: int, size: int, rows: int) -> None:
    """``rows`` rows of ``size`` bytes, in order; pitches are the bytes from one row to the next."""
    if target_pitch == size and source_pitch == size:
        copy_bytes(target, source, size * rows)
    elif size == 2 and target_pitch & 1 == 0 and source_pitch & 1 == 0:
        _copy_column_u16(target, target_pitch >> 1, source, source_pitch >> 1, rows)
    elif size == 4 and target_pitch & 3 == 0 and source_pitch & 3 == 0:
        _copy_column_u32(target, target_pitch >> 2, source, source_pitch >> 2, rows)
    elif size < 64:
        for row in range(rows):
            copy_bytes(target + row * target_pitch, source + row * source_pitch, size)
    else:
        for row in range(rows):
            _copy_long_row(target + row * target_pitch, source + row * source_pitch, size)


def _copy_column_u16(target: int, target_step: int, source: int, source_step: int, rows: int) -> None:
    """Single 16-bit elements, steps in elements."""
    to, of = view_u16(target, target_step * rows + 1), view_u16(source, source_step * rows + 1)
    for i in range(u64(rows)):
        to[i * u64(target_step)] = of[i * u64(source_step)]


def _copy_column_u32(target: int, target_step: int, source: int, source_step: int, rows: int) -> None:
    """Single 32-bit elements, steps in elements."""
    to, of = view_u32(target, target_step * rows + 1), view_u32(source, source_step * rows + 1)
    for i in range(u64(rows)):
        to[i * u64(target_step)] = of[i * u64(source_step)]


def _copy_long_row(target: int, source: int, size: int) -> None:
    """Whole blocks of 64 bytes, then the last 64 bytes, whatever part of them is done already."""
    at = 0
    while at + 64 < size:
        _copy_block(target + at, source + at)
        at += 64
    _copy_block(target + size - 64, source + size - 64)


def _copy_block(target: int, source: int) -> None:
    """64 bytes, all read before any is written, so that they become vector moves."""
    to, of = view_u64(target, 8), view_u64(source, 8)
    a, b, c, d = of[0], of[1], of[2], of[3]
    e, f, g, h = of[4], of[5], of[6], of[7]
    to[0], to[1], to[2], to[3] = a, b, c, d
    to[4], to[5], to[6], to[7] = e, f, g, h
