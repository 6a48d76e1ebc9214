"""The four forms of the vector instructions: pairs the elements of the operands for a loop over elements.

The loops run over pieces. If no operand overlaps the result, everything is one piece. An operand at the same
address as the result is copied through scratch in pieces small enough for the first-level cache. So the loop
has different addresses and stays vectorised. An operand that overlaps the result in any other way is copied
to scratch as a whole.
"""

from __future__ import annotations

from collections.abc import Callable

from emulator.kernels.shared import Kernel
from emulator.memory.rows import SECOND, apart, overlap
from emulator.memory.state import SCRATCH, SIZE, SPM
from emulator.native.primitives.memory import copy_bytes, view_i64
from tx8isa.numbers.formats import Format
from tx8isa.numbers.primitives import s64, u64
from tx8isa.records.meaning import Form
from tx8isa.records.record import Instruction

from .access import ACCESS

Element = Callable[[int, int, int, int], int]
"""(pattern of a, pattern of b, rounding mode, state address) -> pattern of the result."""
Pass = Callable[[int, int, int, int, int, int], None]
"""(address of the result, address of the vector, address of the second vector or the pattern of the scalar,
elements, rounding mode, state address). The result is apart from the vectors."""

_PIECE = 2048
"""Elements of an in-place piece."""

_PATTERN = 1024
"""Least number of elements to which a unit vector is repeated."""


def over_vectors(instruction: Instruction, run: Pass, fmt: Format, mode_at: int) -> Kernel:
    """Make the kernel of ``run`` in the record's form; ``mode_at``: the rounding mode's operand, or -1."""
    form: Form = instruction.meaning.form
    if form in (Form.V, Form.VS):
        return _one_vector(instruction, run, fmt, mode_at)
    if form is Form.VV:
        return _two_vectors(instruction, run, fmt, mode_at)
    return _unit_vector(instruction, run, fmt, mode_at)


def loop(element: Element, fmt: Format, form: Form) -> Pass:
    """Make the plain loop over ``element``."""
    view = ACCESS[fmt].view

    def over_one(target: int, first: int, scalar: int, n: int, mode: int, state: int) -> None:
        to, of = view(target, n), view(first, n)
        for i in range(u64(n)):
            to[i] = element(s64(of[i]), scalar, mode, state)

    def over_two(target: int, first: int, second: int, n: int, mode: int, state: int) -> None:
        to, of, by = view(target, n), view(first, n), view(second, n)
        for i in range(u64(n)):
            to[i] = element(s64(of[i]), s64(by[i]), mode, state)

    return over_one if form in (Form.V, Form.VS) else over_two


def _one_vector(instruction: Instruction, run: Pass, fmt: Format, mode_at: int) -> Kernel:
    """Operands dst, src0, n and perhaps a scalar src1."""
    size = ACCESS[fmt].size
    target_at, first_at, count_at = (instruction.index(name) for name in ("dst", "src0", "n"))
    scalar_at = instruction.index("src1") if instruction.meaning.form is Form.VS else count_at
    operands, pieces = len(instruction.operands), instruction.meaning.form is Form.V

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        target, first, n = memory[SPM] + words[target_at], memory[SPM] + words[first_at], words[count_at]
        scalar, mode = words[scalar_at], words[mode_at] if mode_at >= 0 else 0
        in_place = target == first
        if not in_place:
            first = apart(first, n * size, target, n * size, memory[SCRATCH])
        piece = _PIECE if in_place or pieces else n
        at = 0
        while at < n:
            m = min(n - at, piece)
            a = first + at * size
            if in_place:
                copy_bytes(memory[SCRATCH], a, m * size)
                a = memory[SCRATCH]
            run(target + at * size, a, scalar, m, mode, state)
            at += m
        return 0

    return kernel


def _two_vectors(instruction: Instruction, run: Pass, fmt: Format, mode_at: int) -> Kernel:
    """Operands dst, src0, src1, n."""
    size = ACCESS[fmt].size
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
            run(target + at * size, a, b, m, mode, state)
            at += m
        return 0

    return kernel


def _unit_vector(instruction: Instruction, run: Pass, fmt: Format, mode_at: int) -> Kernel:
    """Operands dst, src0, src1, n, unit and for the loop form full, full_unit.

    The unit vector of a group is repeated to a longer pattern, and the group is processed in pieces of that
    length. All unit vectors are read before anything is written.
    """
    size = ACCESS[fmt].size
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
        pattern = next_line(units + words[units_at] * size)
        piece = min(n, whole_units(unit, _PATTERN))
        at = 0
        while at < total:
            copy_bytes(pattern, units + at // n * unit * size, unit * size)
            repeat(pattern, unit * size, piece * size)
            end = min(at + n, total)
            while at < end:
                m = min(end - at, piece)
                a = first + at * size
                if in_place:
                    copy_bytes(spare, a, m * size)
                    a = spare
                run(target + at * size, a, pattern, m, mode, state)
                at += m
        return 0

    return kernel


def whole_units(unit: int, least: int) -> int:
    """Return a pattern's length, ``least`` to ``least`` + 4096 elements: whole units, a multiple of 64."""
    common = 64 * (unit // (unit & -unit))
    return common * (1 + least // common)


def next_line(address: int) -> int:
    """Round up to a multiple of 64, because from there each vector load touches one cache line."""
    return (address + 63) & -64


def repeat(pattern: int, unit: int, size: int) -> None:
    """Fill ``size`` bytes with repetitions of the first ``unit`` bytes."""
    done = unit
    while done < size:
        m = min(done, size - done)
        copy_bytes(pattern + done, pattern, m)
        done += m


def _unit_places(instruction: Instruction) -> tuple[int, ...]:
    """Positions of dst, src0, src1, n, unit, and of the total lengths of src0 and src1."""
    totals = ("full", "full_unit") if instruction.meaning.form is Form.VUV_LOOP else ("n", "unit")
    return tuple(map(instruction.index, ("dst", "src0", "src1", "n", "unit", *totals)))
