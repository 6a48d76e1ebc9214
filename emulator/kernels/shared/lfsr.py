"""The random numbers of stochastic rounding and drop-out (proposed; the chip has no seed operand).

Each tile has one 32-bit Galois LFSR, polynomial x^32 + x^22 + x^2 + x + 1 (maximal, period 2**32 - 1). An
instruction in mode 4 takes one step per element, in element order. ``ct.elemmask`` takes one step per element
for the selection. In mode 4 it takes a second one, right after it, for rounding. No other instruction takes a
step. A state and the next one are shifts of each other. So the 52 bits that are compared with the dropped
part are the upper bits of a multiplicative hash of the state. A state of 0, which would never change, counts
as 1.
"""

from __future__ import annotations

from emulator.native.primitives.memory import copy_bytes, view_u32
from tx8isa.numbers.primitives import s64, u64

TAPS = 0x80200003
_GOLDEN = 0x9E3779B97F4A7C15

_STRIDE = 32
"""A power of two. The states s satisfy s[t + 32] = s[t + 31] ^ s[t + 30] ^ s[t + 10] ^ s[t], because the step
is a matrix over GF(2) that satisfies its characteristic polynomial; squaring that polynomial five times gives
the same equation for every 32nd state."""
_KNOWN = 32 * _STRIDE
"""Number of earlier states in the equation."""
PIECE = 2048
"""States computed at a time; they stay in the first-level cache."""


def step(state: int) -> int:
    """The next state."""
    if state == 0:
        state = 1
    return (state >> 1) ^ (TAPS if state & 1 == 1 else 0)


def random_bits(state: int) -> int:
    """52 random bits of a state."""
    mixed = u64(u64(state) * u64(_GOLDEN))
    mixed = u64((mixed ^ (mixed >> 32)) * u64(_GOLDEN))
    return s64(mixed >> 12)


def first_states(address: int, state: int, total: int) -> None:
    """Prepare ``next_states`` for ``total`` states after ``state``: put the first ones where it reads."""
    ahead = view_u32(address + 4 * PIECE, _KNOWN)
    for i in range(u64(min(total, _KNOWN))):
        state = step(state)
        ahead[i] = state


def next_states(address: int, left: int) -> None:
    """The next ``min(left, PIECE)`` states at ``address``, 32-bit words; uses ``_KNOWN`` words after them."""
    copy_bytes(address, address + 4 * PIECE, 4 * _KNOWN)
    if left > _KNOWN:
        states = view_u32(address, PIECE + _KNOWN)
        for i in range(u64(PIECE)):
            recent = s64(states[i + u64(31 * _STRIDE)]) ^ s64(states[i + u64(30 * _STRIDE)])
            states[i + u64(_KNOWN)] = recent ^ s64(states[i + u64(10 * _STRIDE)]) ^ s64(states[i])
