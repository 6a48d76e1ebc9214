"""Mould of the vector instructions: one body applied to packed elements.

The loops run over pieces. Operands apart from the result make one piece of everything. An operand that is
the result itself goes through scratch in pieces small enough for the first-level cache, so that the loop sees
different addresses and stays vectorised; an operand that overlaps the result in another way goes through
scratch as a whole.
"""

from __future__ import annotations

from collections.abc import Callable

from numpy import float64

from emulator.native.memory import copy_bytes, view_i64
from emulator.state import RANDOM, SCRATCH, SIZE, SPM
from tx8isa.formats import Format, round_to_odd
from tx8isa.meaning import Elementwise, Form
from tx8isa.primitives import s64, u64
from tx8isa.record import Instruction

from .access import ACCESS, any_store, nearest_store, single_body
from .lfsr import random_bits, step
from .rows import SECOND, overlap

Kernel = Callable[[int, int], int]
Element = Callable[[int, int, int, int], int]
"""(pattern of a, pattern of b, rounding mode, state address) -> pattern of the result."""

_PIECE = 2048
"""Elements of an in-place piece."""

_PATTERN = 2048
"""Elements a repeated unit vector is written out to."""


def make_elementwise(instruction: Instruction, fmt: Format, nearest: bool) -> Kernel:
    """The kernel of a V, VV, VS, VuV or VuV_loop record."""
    meaning: Elementwise = instruction.meaning
    names = [operand.name for operand in instruction.operands]
    mode_at = names.index("rnd") if "rnd" in names else -1
    element = _nearest(meaning, fmt) if nearest or mode_at < 0 else _rounded(meaning, fmt)
    if meaning.form in (Form.V, Form.VS):
        return _one_vector(instruction, element, fmt, mode_at)
    if meaning.form is Form.VV:
        return _two_vectors(instruction, element, fmt, mode_at)
    return _unit_vector(instruction, element, fmt, mode_at)


def _nearest(meaning: Elementwise, fmt: Format) -> Element:
    """Nearest even, without branches: in binary32 where that is allowed, otherwise in binary64."""
    load = ACCESS[fmt].load
    narrow = single_body(meaning.body) if meaning.single and fmt is not Format.TF32 else None
    if narrow is None:
        return _wide(meaning, fmt)
    body, store = narrow, ACCESS[fmt].store

    def unary(a: int, b: int, mode: int, state: int) -> int:
        return store(body(load(a)))

    def binary(a: int, b: int, mode: int, state: int) -> int:
        return store(body(load(a), load(b)))

    return unary if meaning.form is Form.V else binary


def _wide(meaning: Elementwise, fmt: Format) -> Element:
    body, load, store = meaning.body, ACCESS[fmt].load, nearest_store(fmt)

    def unary(a: int, b: int, mode: int, state: int) -> int:
        return store(body(float64(load(a))))

    def binary(a: int, b: int, mode: int, state: int) -> int:
        return store(body(float64(load(a)), float64(load(b))))

    return unary if meaning.form is Form.V else binary


def _rounded(meaning: Elementwise, fmt: Format) -> Element:
    """Any mode: the binary64 result and the sign of its error, rounded once by definition."""
    body, error, load, store = meaning.body, meaning.error, ACCESS[fmt].load, any_store(fmt)
    if error is None:
        raise ValueError("a vector instruction with rounding modes needs the error of its body")

    def element(a: int, b: int, mode: int, state: int) -> int:
        x, y = float64(load(a)), float64(load(b))
        result = body(x, y)
        random = 0
        if mode == 4:
            memory = view_i64(state, SIZE)
            memory[RANDOM] = step(memory[RANDOM])
            random = random_bits(memory[RANDOM])
        return store(round_to_odd(result, error(x, y, result)), mode, random)

    return element


def _one_vector(instruction: Instruction, element: Element, fmt: Format, mode_at: int) -> Kernel:
    """Operands dst, src0, n and perhaps a scalar src1."""
    view, size = ACCESS[fmt].view, ACCESS[fmt].size
    target_at, first_at, count_at = (instruction.index(name) for name in ("dst", "src0", "n"))
    scalar_at = instruction.index("src1") if instruction.meaning.form is Form.VS else count_at
    operands = len(instruction.operands)

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        target, first, n = memory[SPM] + words[target_at], memory[SPM] + words[first_at], words[count_at]
        scalar, mode = words[scalar_at], words[mode_at] if mode_at >= 0 else 0
        staged = overlap(first, n * size, target, n * size)
        piece = _PIECE if target == first else n
        at = 0
        while at < n:
            m = min(n - at, piece)
            a = first + at * size
            if staged:
                copy_bytes(memory[SCRATCH], a, m * size)
                a = memory[SCRATCH]
            to, of = view(target + at * size, m), view(a, m)
            for i in range(u64(m)):
                to[i] = element(s64(of[i]), scalar, mode, state)
            at += m
        return 0

    return kernel


def _two_vectors(instruction: Instruction, element: Element, fmt: Format, mode_at: int) -> Kernel:
    """Operands dst, src0, src1, n."""
    view, size = ACCESS[fmt].view, ACCESS[fmt].size
    target_at, first_at, second_at = (instruction.index(name) for name in ("dst", "src0", "src1"))
    count_at, operands = instruction.index("n"), len(instruction.operands)

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        target, n = memory[SPM] + words[target_at], words[count_at]
        first, second = memory[SPM] + words[first_at], memory[SPM] + words[second_at]
        mode = words[mode_at] if mode_at >= 0 else 0
        first_staged = overlap(first, n * size, target, n * size)
        second_staged = overlap(second, n * size, target, n * size)
        partly = (first_staged and first != target) or (second_staged and second != target)
        piece = _PIECE if (first_staged or second_staged) and not partly else n
        at = 0
        while at < n:
            m = min(n - at, piece)
            a, b = first + at * size, second + at * size
            if first_staged:
                copy_bytes(memory[SCRATCH], a, m * size)
                a = memory[SCRATCH]
            if second_staged:
                copy_bytes(memory[SCRATCH] + SECOND, b, m * size)
                b = memory[SCRATCH] + SECOND
            to, of, by = view(target + at * size, m), view(a, m), view(b, m)
            for i in range(u64(m)):
                to[i] = element(s64(of[i]), s64(by[i]), mode, state)
            at += m
        return 0

    return kernel


def _unit_vector(instruction: Instruction, element: Element, fmt: Format, mode_at: int) -> Kernel:
    """Operands dst, src0, src1, n, unit and for the loop form full, full_unit.

    The unit vector of a group is written out to a longer pattern, and the group done in pieces of it. All
    unit vectors are read before anything is written.
    """
    view, size = ACCESS[fmt].view, ACCESS[fmt].size
    target_at, first_at, second_at, count_at, unit_at, total_at, units_at = _unit_places(instruction)
    operands = len(instruction.operands)

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        target, first = memory[SPM] + words[target_at], memory[SPM] + words[first_at]
        n, unit, total = words[count_at], words[unit_at], words[total_at]
        mode = words[mode_at] if mode_at >= 0 else 0
        spare, units = memory[SCRATCH], memory[SCRATCH] + SECOND
        in_place = target == first
        if not in_place and overlap(first, total * size, target, total * size):
            copy_bytes(spare, first, total * size)
            first = spare
        copy_bytes(units, memory[SPM] + words[second_at], words[units_at] * size)
        pattern = units + words[units_at] * size
        piece = min(n, _PATTERN // unit * unit)
        by = view(pattern, piece)
        at = 0
        while at < total:
            of = view(units + at // n * unit * size, unit)
            for start in range(0, piece, unit):
                for i in range(u64(min(unit, piece - start))):
                    by[u64(start) + i] = of[i]
            end = min(at + n, total)
            while at < end:
                m = min(end - at, piece)
                a = first + at * size
                if in_place:
                    copy_bytes(spare, a, m * size)
                    a = spare
                to, of = view(target + at * size, m), view(a, m)
                for i in range(u64(m)):
                    to[i] = element(s64(of[i]), s64(by[i]), mode, state)
                at += m
        return 0

    return kernel


def _unit_places(instruction: Instruction) -> tuple[int, ...]:
    """Positions of dst, src0, src1, n, unit, and of the total lengths of src0 and src1."""
    totals = ("full", "full_unit") if instruction.meaning.form is Form.VUV_LOOP else ("n", "unit")
    return tuple(map(instruction.index, ("dst", "src0", "src1", "n", "unit", *totals)))
