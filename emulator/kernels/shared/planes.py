"""The geometry of aligned tensors in kernels: planes of positions times lanes (layouts.py)."""

from __future__ import annotations

from emulator.memory.rows import clear, clear_rows
from tx8isa.numbers.layouts import LINE_BYTES, full_blocks, tail_width
from tx8isa.numbers.limits import LANE_BITS, LANE_MASK

LANE = LANE_MASK
"""``word >> shift & LANE`` takes one extent out of a packed shape."""

N, H, W, C = 3 * LANE_BITS, 2 * LANE_BITS, LANE_BITS, 0
"""Position of each extent in a packed nhwc shape; pads and windows have their lanes at the same places."""


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
    """Zero the lanes from ``valid`` at every position of a plane, for elements of ``size`` bytes."""
    if valid < stored:
        clear_rows(plane + valid * size, stored * size, (stored - valid) * size, positions)


def clear_gap(batch: int, positions: int, channels: int, block: int, size: int) -> None:
    """Zero the bytes between the last plane of a batch and the next batch."""
    lanes = full_blocks(channels, block) * block + tail_width(channels, block)
    used = positions * lanes * size
    clear(batch + used, batch_size(positions, channels, block, size) - used)


def first_inside(left: int, step: int, count: int) -> int:
    """Return the index of the first position >= 0 among ``count``: left, left + step ...; else ``count``."""
    return min((max(-left, 0) + step - 1) // step, count)


def end_inside(left: int, step: int, extent: int, count: int) -> int:
    """Return the index after the last of these positions below ``extent``; at least ``first_inside``."""
    return max(min((max(extent - left, 0) + step - 1) // step, count), first_inside(left, step, count))
