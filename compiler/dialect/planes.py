"""Tensors in planes of channels, as DDR and the scratchpad hold them.

Planes have 64 channels, for bytes too. The engines' own layout has 128 in a plane of bytes; the two agree
up to 64 channels, and a tensor of bytes has its elements in the order of a tensor of floats.
"""

from __future__ import annotations

from tx8isa.numbers.division import round_up
from tx8isa.numbers.layouts import LINE_BYTES, aligned_channels, block_channels

BLOCK = block_channels(16)
"""Channels of a plane."""


def image_bytes(positions: int, channels: int, bits: int) -> int:
    """Bytes from the beginning of an image to the beginning of the next, the gap at its end included."""
    return round_up(used_bytes(positions, channels, bits), LINE_BYTES)


def used_bytes(positions: int, channels: int, bits: int) -> int:
    """Bytes of an image with its padding lanes."""
    return positions * aligned_channels(channels, BLOCK) * bits // 8
