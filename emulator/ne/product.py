"""A group of result rows: start values, sums, rounding.

A group is at most ``GROUP`` rows of one panel, held as binary32 in scratch: row ``r`` starts ``r * width``
elements behind the first. Tiles work on whole steps of ``ROWS`` rows; the surplus rows of a group's last tile
repeat its last position, so the index and the group have room for ``GROUP + ROWS`` rows.
"""

from __future__ import annotations

from collections.abc import Callable

from emulator.native.memory import view_f32, view_i64
from emulator.native.target import has_feature
from emulator.native.tile import TILES
from tx8isa.formats import Format
from tx8isa.layouts import batch_bytes
from tx8isa.primitives import u64

from .elements import BLOCK, clear, make_narrow, make_widen, planes, stored_lanes

GROUP = 256
"""Rows whose sums stay in the second-level cache while a panel's rows stay in the first."""

WIDE = has_feature("avx512f")
ROWS = 4 if WIDE else 6

INDEX_BYTES = 8 * (GROUP + ROWS)
GROUP_BYTES = 4 * (GROUP + ROWS) * BLOCK

Multiply = Callable[[int, int, int, int, int, int, int, int, int], None]

_1X64, _4X64, _4X48 = TILES[1, 64], TILES[4, 64], TILES[4, 48]
_4X32, _4X16, _6X16 = TILES[4, 32], TILES[4, 16], TILES[6, 16]


def multiply_wide(
    index: int, rows: int, lda: int, a: int, ka: int, b: int, width: int, c: int, k: int
) -> None:
    """Add ``k`` steps to a group: tiles of 4 rows and all columns of the panel (AVX-512)."""
    for r in range(0, rows, 4):
        at, to = index + 8 * r, c + 4 * r * width
        if width == 64 and rows == 1:
            _1X64(at, lda, a, ka, b, width, to, width, k)
        elif width == 64:
            _4X64(at, lda, a, ka, b, width, to, width, k)
        elif width == 48:
            _4X48(at, lda, a, ka, b, width, to, width, k)
        elif width == 32:
            _4X32(at, lda, a, ka, b, width, to, width, k)
        else:
            _4X16(at, lda, a, ka, b, width, to, width, k)


def multiply_narrow(
    index: int, rows: int, lda: int, a: int, ka: int, b: int, width: int, c: int, k: int
) -> None:
    """Add ``k`` steps to a group: tiles of 6 rows and 16 columns (sixteen 256-bit registers)."""
    if width == 64 and rows == 1:
        _1X64(index, lda, a, ka, b, width, c, width, k)
        return
    for j in range(0, width, 16):
        for r in range(0, rows, 6):
            _6X16(index + 8 * r, lda, a, ka, b + 4 * j, width, c + 4 * (r * width + j), width, k)


multiply: Multiply = multiply_wide if WIDE else multiply_narrow


def repeat_last(index: int, rows: int) -> None:
    """Fill the index behind its last row, for the surplus rows of the last tile."""
    view = view_i64(index, rows + ROWS)
    for r in range(rows, rows + ROWS):
        view[r] = view[rows - 1]


def make_start() -> Callable[[int, int, int, int, int, int, int], None]:
    """Start values of a group: +0, or the partial sums at ``psum`` in ``psum_format`` (below 0: none)."""
    formats = (Format.FP16, Format.BF16, Format.TF32, Format.FP32)
    fp16, bf16, tf32, fp32 = (make_widen(fmt) for fmt in formats)

    def load(psum: int, psum_format: int, target: int, n: int) -> None:
        if psum_format == Format.FP16:
            fp16(psum, target, n)
        elif psum_format == Format.BF16:
            bf16(psum, target, n)
        elif psum_format == Format.TF32:
            tf32(psum, target, n)
        else:
            fp32(psum, target, n)

    def start(c: int, rows: int, width: int, psum: int, psum_format: int, stored: int, valid: int) -> None:
        if psum_format < 0:
            sums = view_f32(c, rows * width)
            for i in range(u64(rows * width)):
                sums[i] = 0.0
        elif stored == width:
            load(psum, psum_format, c, rows * width)
        else:
            pitch = stored * element_bytes(psum_format)
            for r in range(rows):
                load(psum + r * pitch, psum_format, c + 4 * r * width, valid)

    return start


def element_bytes(fmt: int) -> int:
    """Stored bytes of one element by format code."""
    return 2 if fmt == Format.FP16 or fmt == Format.BF16 else 4


def make_finish(fmt: Format) -> Callable[[int, int, int, int, int, int, int], None]:
    """Round a group into the result, in ``fmt`` or FP32; padding lanes become zero."""
    same, single = make_narrow(fmt), make_narrow(Format.FP32)

    def store(c: int, out: int, out_format: int, n: int) -> None:
        if out_format == Format.FP32:
            single(c, out, n)
        else:
            same(c, out, n)

    def finish(c: int, rows: int, width: int, out: int, out_format: int, stored: int, valid: int) -> None:
        if stored == valid and stored == width:
            store(c, out, out_format, rows * width)
        else:
            size = element_bytes(out_format)
            for r in range(rows):
                to = out + r * stored * size
                store(c + 4 * r * width, to, out_format, valid)
                clear(to + valid * size, (stored - valid) * size)

    return finish


def clear_gap(out: int, rows: int, channels: int, size: int) -> None:
    """Zero what lies between the last row of an aligned matrix and the next 256-byte line."""
    tail = planes(channels) - 1
    used = (tail * BLOCK * rows + rows * stored_lanes(channels, tail)) * size
    clear(out + used, batch_bytes(rows, channels, 8 * size) - used)
