"""xorshift128+ (S. Vigna, Further scramblings of Marsaglia's xorshift generators, 2017): two 64-bit words.

The chip's generator is not published; that randgen uses this one is proposed (docs/isa.md, Random numbers).
"""

from __future__ import annotations

from tx8isa.numbers.primitives import u64


def draw(a: int, b: int) -> int:
    """64 random bits of the generator in state (a, b): the sum of its words."""
    return u64(u64(a) + u64(b))


def following(a: int, b: int) -> int:
    """The second word of the next state; its first word is ``b``. The shifts 23, 18, 5 are the paper's."""
    mixed = u64(u64(a) ^ u64(u64(a) << 23))
    return u64(u64(mixed ^ u64(b)) ^ u64(u64(mixed >> 18) ^ u64(u64(b) >> 5)))
