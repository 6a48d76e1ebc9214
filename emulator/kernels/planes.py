"""Aligned tensors as the moulds see them: planes of positions times lanes (layouts.py).

Packed shapes are taken apart with ``word >> shift & LANE``.
"""

from __future__ import annotations

from tx8isa.layouts import LINE_BYTES, full_blocks, tail_width

from .rows import clear

N, H, W, C = 48, 32, 16, 0
"""Position of each extent in a packed nhwc shape; pads and windows have their lanes at the same places."""

LANE = 0xFFFF


def planes(channels: int, block: int) -> int:
    """Number of planes of one batch, the tail included."""
    full = full_blocks(channels, block)
    return full + 1 if full * block < channels else full


def batch_size(hw: int, channels: int, block: int, size: int) -> int:
    """Bytes from one batch to the next, for elements of ``size`` bytes (``layouts.batch_bytes``)."""
    used = hw * (full_blocks(channels, block) * block + tail_width(channels, block)) * size
    return (used + LINE_BYTES - 1) // LINE_BYTES * LINE_BYTES


def stored_lanes(channels: int, block: int, b: int) -> int:
    """Lanes that plane ``b`` stores per position."""
    return block if b < full_blocks(channels, block) else tail_width(channels, block)


def clear_padding(plane: int, positions: int, stored: int, valid: int, size: int) -> None:
    """Zero the lanes from ``valid`` on at every position of a plane, for elements of ``size`` bytes."""
    if valid < stored:
        for p in range(positions):
            clear(plane + (p * stored + valid) * size, (stored - valid) * size)
