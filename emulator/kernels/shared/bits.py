"""Packed bit vectors in kernels: element i is bit i mod 8 of byte i div 8.

Elements become *flags* first, one byte for each, in a piece of scratch that stays in the first-level cache;
flags then become bits. Bits become elements in the opposite order.
"""

from __future__ import annotations

from emulator.memory.rows import SECOND
from emulator.native.primitives.flags import pack_flags, spread_flags
from emulator.native.primitives.memory import view_u8, view_u64
from tx8isa.numbers.primitives import s64, u64

PIECE = 4096
"""Elements whose flags are in scratch at a time: a multiple of 64."""

FLAGS = SECOND - PIECE
"""Offset of the flags in scratch, after the longest copy of a first operand."""


def put_flags(target: int, flags: int, n: int) -> None:
    """Write ``n`` flags as bits from the byte ``target``; the last byte keeps its bits beyond them.

    Reads whole groups of 64 flags.
    """
    words = n >> 6
    to = view_u64(target, words)
    for i in range(u64(words)):
        to[i] = pack_flags(flags + 64 * s64(i))
    if n & 63 > 0:
        put_bits(target + 8 * words, pack_flags(flags + 64 * words), n & 63)


def get_flags(flags: int, source: int, n: int) -> None:
    """Write the flags of ``n`` bits from the byte ``source``, in whole groups of 64 flags."""
    words = n >> 6
    of = view_u64(source, words)
    for i in range(u64(words)):
        spread_flags(s64(of[i]), flags + 64 * s64(i))
    if n & 63 > 0:
        spread_flags(get_bits(source + 8 * words, n & 63), flags + 64 * words)


def put_bits(target: int, word: int, n: int) -> None:
    """Write the low ``n`` bits of a word, fewer than 64; the last byte keeps its bits beyond them."""
    whole = n >> 3
    rest = n & 7
    to = view_u8(target, whole + (1 if rest > 0 else 0))
    for i in range(u64(whole)):
        to[i] = word >> (8 * s64(i))
    if rest > 0:
        mask = (1 << rest) - 1
        to[u64(whole)] = (s64(to[u64(whole)]) & ~mask) | ((word >> (8 * whole)) & mask)


def get_bits(source: int, n: int) -> int:
    """Return ``n`` bits, fewer than 64, with the other bits of the last byte above. Reads no further byte."""
    size = (n + 7) >> 3
    of = view_u8(source, size)
    word = 0
    for i in range(u64(size)):
        word |= s64(of[i]) << (8 * s64(i))
    return s64(word)
