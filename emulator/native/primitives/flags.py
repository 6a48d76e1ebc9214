"""Flags as primitives: 64 bytes to the 64 bits of a word, and back.

A loop that tests each element writes one byte for each, which LLVM vectorises; it does not vectorise a loop
that shifts bits into a word. This is the definition; the machine version is in ``machine/flags.py``.
"""

from __future__ import annotations

import numpy as np

from .memory import view_u8


def pack_flags(address: int) -> int:
    """Set bit i of a signed word if byte i of the 64 at ``address`` is not 0."""
    return int(np.packbits(view_u8(address, 64) != 0, bitorder="little").view(np.int64)[0])


def spread_flags(word: int, address: int) -> int:
    """Write bit i of ``word``, 1 or 0, to byte i of the 64 at ``address``."""
    to = view_u8(address, 64)
    for i in range(64):
        to[i] = word >> i & 1
    return 0
