"""Kernels of the counts, argmax and argmin, and factorize (docs/isa.md, Returned values, Factors)."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import numpy as np
from numpy import float64

from emulator.kernels.shared import Kernel
from emulator.kernels.shared.access import ACCESS, magnitude_bits, nearest_store
from emulator.memory.rows import apart
from emulator.memory.state import SCRATCH, SIZE, SPM, WRITE_BACK
from emulator.native.primitives.float32 import bits_f32, single
from emulator.native.primitives.memory import view_f32, view_i64, view_u8, view_u32, view_u64
from tx8isa.numbers.formats import Format
from tx8isa.numbers.primitives import s64, u64
from tx8isa.records.meaning import Split
from tx8isa.records.record import Instruction
from tx8isa.table.packets import VALID_DATA_BIT

_ROW = 128
"""Lanes in which extremes are kept; the first pass finds a place to within four rows of them."""


def _put_result(registers: int, position: int, value: int) -> None:
    """Put a 32-bit value into wb_data0 or wb_data1 and mark it valid; ``registers``: ``state.WRITE_BACK``."""
    words = view_i64(registers, 2)
    words[position] = value | 1 << VALID_DATA_BIT


def _places(instruction: Instruction) -> tuple[int, int, int]:
    """Return the positions of src0 and n, and the number of operands."""
    return instruction.index("src0"), instruction.index("n"), len(instruction.operands)


def make_count(instruction: Instruction, fmt: Format) -> Kernel:
    """Make the kernel of count."""
    source_at, count_at, operands = _places(instruction)
    view, magnitude = ACCESS[fmt].view, magnitude_bits(fmt)

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        n, total = words[count_at], 0
        of = view(memory[SPM] + words[source_at], n)
        for i in range(u64(n)):
            total += 1 if s64(of[i]) & magnitude != 0 else 0
        _put_result(memory[WRITE_BACK], 0, total)
        return 0

    return kernel


def _population(word: int) -> int:
    """Count the set bits of a 64-bit word, in a form that LLVM turns into one instruction."""
    pairs = u64(u64(word) - (u64(u64(word) >> 1) & u64(0x5555555555555555)))
    fours = u64((pairs & u64(0x3333333333333333)) + (u64(pairs >> 2) & u64(0x3333333333333333)))
    bytes_ = u64(fours + u64(fours >> 4)) & u64(0x0F0F0F0F0F0F0F0F)
    return s64(u64(u64(bytes_) * u64(0x0101010101010101)) >> 56)


def make_count_bits(instruction: Instruction) -> Kernel:
    """Make the kernel of bitcount: whole words, then the remaining bytes, the last one cut to n bits."""
    source_at, count_at, operands = _places(instruction)

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        n, source, total = words[count_at], memory[SPM] + words[source_at], 0
        of, last = view_u64(source, n >> 6), view_u8(source, n + 7 >> 3)
        for i in range(u64(n >> 6)):
            total += _population(s64(of[i]))
        for i in range(u64(n >> 6 << 3), u64(n >> 3)):
            total += _population(s64(last[i]))
        if n & 7 != 0:
            total += _population(s64(last[u64(n >> 3)]) & (1 << (n & 7)) - 1)
        _put_result(memory[WRITE_BACK], 0, total)
        return 0

    return kernel


def make_extreme(instruction: Instruction, fmt: Format) -> Kernel:
    """Make the kernel of argmax and argmin: find the extreme and its rough place, then the exact place."""
    source_at, count_at, operands = _places(instruction)
    largest: bool = instruction.meaning.largest
    view, store, value = ACCESS[fmt].view, ACCESS[fmt].store, _value_bits(fmt)
    extreme, first_of, sign = _extreme(largest, fmt), _first_of(fmt), 1 << (fmt.bits - 1)
    preferred, other = (0, sign) if largest else (sign, 0)

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        n, source = words[count_at], memory[SPM] + words[source_at]
        best, start = extreme(source, n, memory[SCRATCH])
        if best == single(0.0):
            at = first_of(source, preferred, start, n)
            if at == n:
                at = first_of(source, other, start, n)
        else:
            at = first_of(source, store(best), start, n)
        if at == n:
            at = 0  # nothing but NaN
        _put_result(memory[WRITE_BACK], 0, s64(view(source, n)[u64(at)]) & value)
        _put_result(memory[WRITE_BACK], 1, at)
        return 0

    return kernel


def _value_bits(fmt: Format) -> int:
    return 1 << (fmt.bits - 1) | magnitude_bits(fmt)


Better = Callable[[np.float32, np.float32], bool]


def _extreme(largest: bool, fmt: Format) -> Callable[[int, int, int], tuple[np.float32, int]]:
    """Find the extreme number, infinite if all are NaN, and a place at or before the first that equals it.

    Each of ``_ROW`` lanes keeps its extreme and the group of four rows that contains it, so that no element
    waits for the previous one.
    """
    beyond, begin = (_above, -inf) if largest else (_below, inf)
    size = fmt.bits // 8
    row, four_rows, halve = _row(beyond, fmt), _four_rows(beyond, fmt), _halve(beyond)

    def extreme(source: int, n: int, spare: int) -> tuple[np.float32, int]:
        kept, places = spare, spare + 4 * _ROW
        best, found = view_f32(kept, _ROW), view_u32(places, _ROW)
        for i in range(u64(_ROW)):
            best[i], found[i] = single(begin), 0
        groups = n // (4 * _ROW)
        for group in range(groups):
            four_rows(kept, places, source + group * 4 * _ROW * size, group)
        for at in range(groups * 4 * _ROW, n, _ROW):
            row(kept, places, source + at * size, groups, min(_ROW, n - at))
        lanes = _ROW
        while lanes > 1:
            halve(kept, places, lanes)
            lanes >>= 1
        return best[u64(0)], s64(found[u64(0)]) * 4 * _ROW

    return extreme


def _row(beyond: Better, fmt: Format) -> Callable[[int, int, int, int, int], None]:
    load, view = ACCESS[fmt].load, ACCESS[fmt].view

    def row(kept: int, places: int, first: int, group: int, n: int) -> None:
        best, found, of = view_f32(kept, n), view_u32(places, n), view(first, n)
        for i in range(u64(n)):
            x = load(s64(of[i]))
            found[i] = group if beyond(x, best[i]) else s64(found[i])
            best[i] = x if beyond(x, best[i]) else best[i]

    return row


def _four_rows(beyond: Better, fmt: Format) -> Callable[[int, int, int, int], None]:
    load, view = ACCESS[fmt].load, ACCESS[fmt].view

    def four_rows(kept: int, places: int, first: int, group: int) -> None:
        best, found, of = view_f32(kept, _ROW), view_u32(places, _ROW), view(first, 4 * _ROW)
        for i in range(u64(_ROW)):
            a, b = load(s64(of[i])), load(s64(of[u64(_ROW) + i]))
            c, d = load(s64(of[u64(2 * _ROW) + i])), load(s64(of[u64(3 * _ROW) + i]))
            a = a if beyond(a, best[i]) else best[i]
            a = b if beyond(b, a) else a
            a = c if beyond(c, a) else a
            a = d if beyond(d, a) else a
            found[i] = group if beyond(a, best[i]) else s64(found[i])
            best[i] = a

    return four_rows


def _halve(beyond: Better) -> Callable[[int, int, int], None]:
    def halve(kept: int, places: int, lanes: int) -> None:
        """Merge the second half of the lanes into the first; of equal numbers the earlier group stays."""
        best, found, half = view_f32(kept, lanes), view_u32(places, lanes), u64(lanes >> 1)
        for i in range(half):
            group, other = s64(found[i]), s64(found[half + i])
            either = other if beyond(best[half + i], best[i]) else min(group, other)
            found[i] = group if beyond(best[i], best[half + i]) else either
            best[i] = best[half + i] if beyond(best[half + i], best[i]) else best[i]

    return halve


def _above(a: np.float32, b: np.float32) -> bool:
    return bool(a > b)


def _below(a: np.float32, b: np.float32) -> bool:
    return bool(a < b)


def _first_of(fmt: Format) -> Callable[[int, int, int, int], int]:
    """Find the first place from ``start`` with a stored pattern; n if there is none."""
    view, value = ACCESS[fmt].view, _value_bits(fmt)

    def first_of(source: int, wanted: int, start: int, n: int) -> int:
        of = view(source, n)
        for block in range(start, n, _ROW):
            end, found = min(block + _ROW, n), 0
            for i in range(u64(block), u64(end)):
                found |= 1 if s64(of[i]) & value == wanted else 0
            if found != 0:
                while s64(of[u64(block)]) & value != wanted:
                    block += 1
                return block
        return n

    return first_of


def make_split(instruction: Instruction) -> Kernel:
    """Make the kernel of factorize: all results of an element at once."""
    meaning: Split = instruction.meaning
    source_at, count_at, operands = _places(instruction)
    one, two, three = meaning.parts
    one_at, two_at, three_at = map(instruction.index, meaning.targets)
    store = nearest_store(Format.FP32)

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        n, source, spm = words[count_at], memory[SPM] + words[source_at], memory[SPM]
        first, second, third = spm + words[one_at], spm + words[two_at], spm + words[three_at]
        source = apart(source, 4 * n, first, 4 * n, memory[SCRATCH])
        source = apart(source, 4 * n, second, 4 * n, memory[SCRATCH])
        source = apart(source, 4 * n, third, 4 * n, memory[SCRATCH])
        of, a, b, c = view_u32(source, n), view_u32(first, n), view_u32(second, n), view_u32(third, n)
        for i in range(u64(n)):
            x = float64(bits_f32(s64(of[i])))
            a[i], b[i], c[i] = store(one(x)), store(two(x)), store(three(x))
        return 0

    return kernel
