"""Mould of the vector instructions: one body applied to packed elements.

The loops run over pieces. Operands apart from the result make one piece of everything; an operand that is
the result itself goes piece by piece through scratch, so that the loop sees different addresses and stays
vectorised; an operand that overlaps the result in another way is copied as a whole first.
"""

from __future__ import annotations

from collections.abc import Callable

from numpy import float64

from emulator.native.memory import view_i64
from emulator.state import RANDOM, SCRATCH, SIZE, SPM
from tx8isa.formats import Format, round_to_odd
from tx8isa.meaning import Elementwise, Form
from tx8isa.primitives import u64
from tx8isa.record import Instruction

from .access import ACCESS, any_store, nearest_store
from .lfsr import random_bits, step
from .rows import SECOND, copy, overlap

Kernel = Callable[[int, int], int]
Loop = Callable[[int, int, int, int, int, int], None]
"""(result, first operand, second operand or scalar bits, elements, rounding mode, state)."""

_PIECE = 2048
"""Elements of an in-place piece: it stays in the first-level cache."""

_PATTERN = 1024
"""Elements a repeated unit vector is written out to."""


def make_elementwise(instruction: Instruction, fmt: Format, nearest: bool) -> Kernel:
    """The kernel of a V, VV, VS, VuV or VuV_loop record."""
    meaning: Elementwise = instruction.meaning
    rounded = meaning.error is not None
    mode = instruction.index("rnd") if rounded else -1
    loop = _loop(meaning, fmt) if nearest or not rounded else _rounding_loop(meaning, fmt)
    if meaning.form in (Form.V, Form.VS):
        return _one_vector(instruction, loop, ACCESS[fmt].size, mode)
    if meaning.form is Form.VV:
        return _two_vectors(instruction, loop, ACCESS[fmt].size, mode)
    return _unit_vector(instruction, loop, ACCESS[fmt].size, mode)


def _loop(meaning: Elementwise, fmt: Format) -> Loop:
    """Nearest even, vectorised."""
    body, view, load = meaning.body, ACCESS[fmt].view, ACCESS[fmt].load
    store = nearest_store(fmt, meaning.single)

    def one(target: int, first: int, second: int, n: int, mode: int, state: int) -> None:
        to, of = view(target, n), view(first, n)
        for i in range(u64(n)):
            to[i] = store(body(float64(load(of[i]))))

    def scalar(target: int, first: int, second: int, n: int, mode: int, state: int) -> None:
        to, of = view(target, n), view(first, n)
        b = float64(load(second))
        for i in range(u64(n)):
            to[i] = store(body(float64(load(of[i])), b))

    def two(target: int, first: int, second: int, n: int, mode: int, state: int) -> None:
        to, of, by = view(target, n), view(first, n), view(second, n)
        for i in range(u64(n)):
            to[i] = store(body(float64(load(of[i])), float64(load(by[i]))))

    return {Form.V: one, Form.VS: scalar}.get(meaning.form, two)


def _rounding_loop(meaning: Elementwise, fmt: Format) -> Loop:
    """Any mode: the binary64 result and the sign of its error, rounded once by definition."""
    body, error, view, load = meaning.body, meaning.error, ACCESS[fmt].view, ACCESS[fmt].load
    store = any_store(fmt)
    assert error is not None

    def result(a: float, b: float, mode: int, words: list[int]) -> int:
        random = 0
        if mode == 4:
            words[RANDOM] = step(words[RANDOM])
            random = random_bits(words[RANDOM])
        x = body(a, b)
        return store(round_to_odd(x, error(a, b, x)), mode, random)

    def scalar(target: int, first: int, second: int, n: int, mode: int, state: int) -> None:
        to, of, words = view(target, n), view(first, n), view_i64(state, SIZE)
        b = float64(load(second))
        for i in range(u64(n)):
            to[i] = result(float64(load(of[i])), b, mode, words)

    def two(target: int, first: int, second: int, n: int, mode: int, state: int) -> None:
        to, of, by, words = view(target, n), view(first, n), view(second, n), view_i64(state, SIZE)
        for i in range(u64(n)):
            to[i] = result(float64(load(of[i])), float64(load(by[i])), mode, words)

    return scalar if meaning.form is Form.VS else two


def _one_vector(instruction: Instruction, loop: Loop, size: int, mode_at: int) -> Kernel:
    """Operands dst, src0, n and perhaps a scalar src1."""
    has_scalar = instruction.meaning.form is Form.VS
    target_at, first_at, count_at = (instruction.index(name) for name in ("dst", "src0", "n"))
    scalar_at = instruction.index("src1") if has_scalar else count_at
    operands = len(instruction.operands)

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        target, first, n = memory[SPM] + words[target_at], memory[SPM] + words[first_at], words[count_at]
        mode = words[mode_at] if mode_at >= 0 else 0
        in_place = target == first
        if not in_place and overlap(first, n * size, target, n * size):
            copy(memory[SCRATCH], first, n * size)
            first = memory[SCRATCH]
        at = 0
        while at < n:
            m = min(n - at, _PIECE) if in_place else n
            read = first + at * size
            if in_place:
                copy(memory[SCRATCH], read, m * size)
                read = memory[SCRATCH]
            loop(target + at * size, read, words[scalar_at], m, mode, state)
            at += m
        return 0

    return kernel


def _two_vectors(instruction: Instruction, loop: Loop, size: int, mode_at: int) -> Kernel:
    """Operands dst, src0, src1, n."""
    target_at, first_at, second_at = (instruction.index(name) for name in ("dst", "src0", "src1"))
    count_at, operands = instruction.index("n"), len(instruction.operands)

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        target, n = memory[SPM] + words[target_at], words[count_at]
        first, second = memory[SPM] + words[first_at], memory[SPM] + words[second_at]
        mode = words[mode_at] if mode_at >= 0 else 0
        spare, other = memory[SCRATCH], memory[SCRATCH] + SECOND
        if target != first and overlap(first, n * size, target, n * size):
            copy(spare, first, n * size)
            first = spare
        if target != second and overlap(second, n * size, target, n * size):
            copy(other, second, n * size)
            second = other
        in_place = target == first or target == second
        at = 0
        while at < n:
            m = min(n - at, _PIECE) if in_place else n
            a, b = first + at * size, second + at * size
            if target == first:
                copy(spare, a, m * size)
                a = spare
            if target == second:
                copy(other, b, m * size)
                b = other
            loop(target + at * size, a, b, m, mode, state)
            at += m
        return 0

    return kernel


def _unit_vector(instruction: Instruction, loop: Loop, size: int, mode_at: int) -> Kernel:
    """Operands dst, src0, src1, n, unit and for the loop form full, full_unit.

    The unit vector of a group is written out to a longer pattern, and the group done in pieces of it.
    """
    grouped = instruction.meaning.form is Form.VUV_LOOP
    target_at, first_at, second_at = (instruction.index(name) for name in ("dst", "src0", "src1"))
    count_at, unit_at, operands = instruction.index("n"), instruction.index("unit"), len(instruction.operands)
    total_at = instruction.index("full") if grouped else count_at
    units_at = instruction.index("full_unit") if grouped else unit_at

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        target, first = memory[SPM] + words[target_at], memory[SPM] + words[first_at]
        n, unit, total = words[count_at], words[unit_at], words[total_at]
        mode = words[mode_at] if mode_at >= 0 else 0
        spare, second = memory[SCRATCH], memory[SCRATCH] + SECOND
        in_place = target == first
        if not in_place and overlap(first, total * size, target, total * size):
            copy(spare, first, total * size)
            first = spare
        copy(second, memory[SPM] + words[second_at], words[units_at] * size)
        pattern = second + words[units_at] * size
        at = 0
        while at < total:
            piece = min(n, _PATTERN // unit * unit)
            write_pattern(pattern, second, unit * size, piece * size)
            end = min(at + n, total)
            while at < end:
                m = min(end - at, piece)
                a = first + at * size
                if in_place:
                    copy(spare, a, m * size)
                    a = spare
                loop(target + at * size, a, pattern, m, mode, state)
                at += m
            second += unit * size
        return 0

    return kernel


def write_pattern(target: int, source: int, period: int, wanted: int) -> None:
    """Repeat ``period`` bytes until at least ``wanted`` bytes are written."""
    at = 0
    while at < wanted:
        copy(target + at, source, period)
        at += period
