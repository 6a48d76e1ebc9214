"""Flags as primitives: 64 bytes to the 64 bits of a word, and back.

A loop that decides something about each element writes one byte for each, which LLVM vectorises; a loop that
shifts bits into a word it does not. Plain meaning here, machine version in ``machine/flags.py``.
"""

from __future__ import annotations

import numpy as np

from .memory import view_u8


def pack_flags(address: int) -> int:
    """Bit i says whether byte i of the 64 at ``address`` is not 0; as a signed word."""
    return int(np.packbits(view_u8(address, 64) != 0, bitorder="little").view(np.int64)[0])


def spread_flags(word: int, address: int) -> int:
    """Byte i of the 64 at ``address`` becomes bit i of ``word``: 1 or 0."""
    to = view_u8(address, 64)
    for i in range(64):
        to[i] = word >> i & 1
    return 0
