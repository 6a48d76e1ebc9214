"""Converts stored elements to and from binary32, and counts the lanes of the matrix engine's planes."""

from __future__ import annotations

from collections.abc import Callable

from emulator.kernels.shared.access import ACCESS
from emulator.native.primitives.memory import view_f32
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import BLOCK_CHANNELS, INT8_BLOCK_CHANNELS, full_blocks, tail_width
from tx8isa.numbers.primitives import u64

from .arithmetic import Rows

Run = Callable[[int, int, int], None]
"""(source address, target address, elements)."""

BLOCK = BLOCK_CHANNELS
"""Channels of a panel, and of a whole plane of every format but INT8."""

INT8_BLOCK = INT8_BLOCK_CHANNELS
"""Channels of a whole plane of INT8."""


def make_widen(fmt: Format) -> Run:
    """Make the widening of stored elements to binary32; source and target are apart."""
    view, convert = ACCESS[fmt].view, ACCESS[fmt].load

    def widen(source: int, target: int, n: int) -> None:
        stored, wide = view(source, n), view_f32(target, n)
        for i in range(u64(n)):
            wide[i] = convert(stored[i])

    return widen


def make_widen_rows(fmt: Format) -> Rows:
    """Make the widening of rows to binary32; the kept lanes of the rows follow one another without gaps."""
    widen, view, convert = make_widen(fmt), ACCESS[fmt].view, ACCESS[fmt].load

    def rows(source: int, pitch: int, target: int, kept: int, count: int, problem: int) -> None:
        if kept == pitch:
            widen(source, target, count * pitch)
        else:
            stored, wide = view(source, count * pitch), view_f32(target, count * kept)
            for r in range(u64(count)):
                for i in range(u64(kept)):
                    wide[r * u64(kept) + i] = convert(stored[r * u64(pitch) + i])

    return rows


def make_narrow(fmt: Format) -> Run:
    """Make the narrowing of binary32 to stored elements, nearest even, NaN canonical; both are apart."""
    view, convert = ACCESS[fmt].view, ACCESS[fmt].store

    def narrow(source: int, target: int, n: int) -> None:
        wide, stored = view_f32(source, n), view(target, n)
        for i in range(u64(n)):
            stored[i] = convert(wide[i])

    return narrow


def planes(channels: int) -> int:
    """Planes of an aligned tensor, the narrow tail plane included."""
    return (channels + BLOCK - 1) // BLOCK


def lanes(channels: int, plane: int) -> int:
    """Channels in a plane that are not padding."""
    return min(BLOCK, channels - plane * BLOCK)


def stored_lanes(channels: int, plane: int) -> int:
    """Channels stored by a plane, padding included: 64, or the width of the tail."""
    return BLOCK if plane < full_blocks(channels, BLOCK) else tail_width(channels, BLOCK)


def panel_width(channels: int, plane: int) -> int:
    """Columns of a plane in scratch: its lanes in whole vectors of 16."""
    return (lanes(channels, plane) + 15) // 16 * 16


def panel_columns(channels: int) -> int:
    """Columns of all planes in scratch."""
    return (channels + 15) // 16 * 16


def stored(channels: int, plane: int, block: int) -> int:
    """Channels stored by a plane when whole planes have ``block``."""
    return block if plane < full_blocks(channels, block) else tail_width(channels, block)


def element_bytes(fmt: int) -> int:
    """Stored bytes of one element by format code."""
    if fmt == Format.INT8:
        return 1
    return 2 if fmt == Format.FP16 or fmt == Format.BF16 else 4
