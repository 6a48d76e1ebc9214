"""Kernels of the random numbers: randgen and the drop-out mask (docs/isa.md, Random numbers)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy import float64

from emulator.kernels.shared import Kernel, lfsr
from emulator.kernels.shared.access import ACCESS, VIEWS, any_store, nearest_store
from emulator.kernels.shared.lfsr import first_states, next_states, random_bits
from emulator.memory.rows import SECOND, apart
from emulator.memory.state import RANDOM, SCRATCH, SIZE, SPM
from emulator.native.primitives.float32 import bits_f32, single
from emulator.native.primitives.memory import copy_bytes, view_i64, view_u32, view_u64
from tx8isa.numbers.formats import MANTISSA_BITS, Format, Rounding
from tx8isa.numbers.primitives import s64, u64
from tx8isa.records.meaning import Dropout, Uniform
from tx8isa.records.record import Instruction

GENERATORS = 16
_PIECE = 2048
"""Values made at a time, so that their words stay in the first-level cache; a multiple of GENERATORS."""


def make_uniform(instruction: Instruction, fmt: Format) -> Kernel:
    """Make the kernel of randgen. Its rules keep the results from overlapping; all seeds are read before any
    is written.

    The next first word of a generator is its present second one. So the words of all generators form one
    chain: each is computed from the words 32 and 16 places before it, and value i from places i and i + 16.
    """
    meaning: Uniform = instruction.meaning
    draw, following = meaning.draw, meaning.following
    values_at, seed_a_at, seed_b_at = map(instruction.index, ("dst2", "src0", "src1"))
    next_a_at, next_b_at, count_at = map(instruction.index, ("dst", "dst1", "n"))
    number, view, size = _number(fmt), VIEWS[fmt.bits // 8], fmt.bits // 8
    operands, seed_bytes = len(instruction.operands), 8 * GENERATORS

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        n, spare, spm = words[count_at], memory[SCRATCH], memory[SPM]
        copy_bytes(spare, spm + words[seed_a_at], seed_bytes)
        copy_bytes(spare + seed_bytes, spm + words[seed_b_at], seed_bytes)
        chain = view_u64(spare, _PIECE + 2 * GENERATORS)
        for at in range(0, n, _PIECE):
            m = min(n - at, _PIECE)
            to = view(spm + words[values_at] + at * size, m)
            for i in range(u64(m)):
                chain[i + u64(2 * GENERATORS)] = following(chain[i], chain[i + u64(GENERATORS)])
            for i in range(u64(m)):
                to[i] = number(draw(chain[i], chain[i + u64(GENERATORS)]))
            copy_bytes(spare, spare + 8 * m, 2 * seed_bytes)
        next_a = view_u64(spm + words[next_a_at], GENERATORS)
        next_b = view_u64(spm + words[next_b_at], GENERATORS)
        for i in range(u64(GENERATORS)):
            k = u64((n + i) % GENERATORS)
            next_a[k], next_b[k] = chain[i], chain[i + u64(GENERATORS)]
        return 0

    return kernel


def _number(fmt: Format) -> Callable[[int], int]:
    """Convert 64 random bits to an element: an integer of the high bits, or a multiple of 2**-p below 1."""
    if not fmt.is_float:
        unused = 64 - fmt.bits

        def integer(bits: int) -> int:
            return s64(u64(bits) >> unused)

        return integer
    precision = MANTISSA_BITS[fmt] + 1
    dropped, unit, store = 64 - precision, np.float32(2.0**-precision), ACCESS[fmt].store

    def fraction(bits: int) -> int:
        return store(single(s64(u64(bits) >> dropped)) * unit)

    return fraction


def make_dropout(instruction: Instruction, fmt: Format, nearest: bool) -> Kernel:
    """Make the kernel of elemmask. The states of the LFSR are computed piece by piece, many at a time."""
    target_at, source_at, scale_at = map(instruction.index, ("dst", "src0", "src1"))
    count_at, probability_at, mode_at = map(instruction.index, ("n", "p", "rnd"))
    size, load, operands = ACCESS[fmt].size, ACCESS[fmt].load, len(instruction.operands)
    fill = _nearest(instruction.meaning, fmt) if nearest else _rounded(instruction.meaning, fmt)

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        n, target, mode = words[count_at], memory[SPM] + words[target_at], words[mode_at]
        source = apart(memory[SPM] + words[source_at], n * size, target, n * size, memory[SCRATCH])
        scale, p = float64(load(words[scale_at])), float64(bits_f32(words[probability_at]))
        draws = 2 if mode == STOCHASTIC else 1
        states = memory[SCRATCH] + SECOND
        first_states(states, memory[RANDOM], n * draws)
        piece = lfsr.PIECE // draws
        for at in range(0, n, piece):
            m = min(n - at, piece)
            next_states(states, (n - at) * draws)
            fill(target + at * size, source + at * size, m, scale, p, states, mode)
            memory[RANDOM] = s64(view_u32(states, m * draws)[u64(m * draws - 1)])
        return 0

    return kernel


STOCHASTIC = int(Rounding.STOCHASTIC)

Fill = Callable[[int, int, int, float, float, int, int], None]
"""A piece: (result, source, elements, scale, probability, states of the LFSR, rounding mode)."""


def _uniform(state: int) -> float:
    """Convert a state of the LFSR to a number in [0, 1)."""
    return float64(random_bits(state)) * 2.0**-52


def _nearest(meaning: Dropout, fmt: Format) -> Fill:
    """Round to nearest even, 16-bit formats from binary32, which holds their products unless they vanish."""
    dropped, body, load, view = meaning.dropped, meaning.body, ACCESS[fmt].load, ACCESS[fmt].view
    store = nearest_store(fmt, exact=fmt in (Format.FP16, Format.BF16))

    def fill(target: int, source: int, m: int, scale: float, p: float, states: int, mode: int) -> None:
        to, of, random = view(target, m), view(source, m), view_u32(states, m)
        for i in range(u64(m)):
            kept = store(body(float64(load(s64(of[i]))), scale))
            to[i] = 0 if dropped(_uniform(s64(random[i])), p) else kept

    return fill


def _rounded(meaning: Dropout, fmt: Format) -> Fill:
    """Round every product, also dropped ones, because a branch on the random draw would be mispredicted."""
    dropped, body, load, view = meaning.dropped, meaning.body, ACCESS[fmt].load, ACCESS[fmt].view
    store = any_store(fmt)

    def fill(target: int, source: int, m: int, scale: float, p: float, states: int, mode: int) -> None:
        draws = 2 if mode == STOCHASTIC else 1
        to, of, random = view(target, m), view(source, m), view_u32(states, draws * m)
        for i in range(u64(m)):
            k = i * u64(draws)
            other = random_bits(s64(random[k + u64(draws - 1)]))
            kept = store(body(float64(load(s64(of[i]))), scale), mode, other)
            to[i] = 0 if dropped(_uniform(s64(random[k])), p) else kept

    return fill
