"""Tensors in planes of channels, as DDR and the scratchpad hold them.

Planes have 64 channels, those of bytes too. The engines' own layout has 128 in a plane of bytes; both are
the same up to 64 channels, and the elements of a tensor of bytes are in the order of those of floats.
"""

from __future__ import annotations

from tx8isa.numbers.division import round_up
from tx8isa.numbers.layouts import LINE_BYTES, aligned_channels, block_channels

BLOCK = block_channels(16)
"""Channels of a plane."""


def image_bytes(positions: int, channels: int, bits: int) -> int:
    """Bytes from the beginning of an image to that of the next, the gap at its end included."""
    return round_up(used_bytes(positions, channels, bits), LINE_BYTES)


def used_bytes(positions: int, channels: int, bits: int) -> int:
    """Bytes of an image with its padding lanes."""
    return positions * aligned_channels(channels, BLOCK) * bits // 8
