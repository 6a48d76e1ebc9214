"""Aligned tensors as the moulds see them: planes of positions times lanes (layouts.py)."""

from __future__ import annotations

from tx8isa.layouts import block_channels, full_blocks, tail_width

from .rows import clear

N, H, W, C = 48, 32, 16, 0
"""Position of each extent in a packed nhwc shape; pads and windows have their four lanes at the same places."""


def lane(word: int, low: int) -> int:
    """One 16-bit lane of a packed operand."""
    return (word >> low) & 0xFFFF


def planes(channels: int, bits: int) -> int:
    """Number of planes of one batch, the tail included."""
    block = block_channels(bits)
    full = full_blocks(channels, block)
    return full + 1 if full * block < channels else full


def stored_lanes(channels: int, bits: int, b: int) -> int:
    """Lanes that plane ``b`` stores per position."""
    block = block_channels(bits)
    return block if b < full_blocks(channels, block) else tail_width(channels, block)


def valid_lanes(channels: int, bits: int, b: int) -> int:
    """Lanes of plane ``b`` that are channels."""
    return min(channels - b * block_channels(bits), stored_lanes(channels, bits, b))


def clear_padding(plane: int, positions: int, stored: int, valid: int, size: int) -> None:
    """Zero the lanes of a plane that are no channels; ``size`` bytes per element."""
    if valid < stored:
        for p in range(positions):
            clear(plane + (p * stored + valid) * size, (stored - valid) * size)
