"""Kernels of bit vectors: logic, whole bytes at a time, and bits to numbers."""

from __future__ import annotations

from collections.abc import Callable

from emulator.kernels.shared import Kernel
from emulator.kernels.shared.access import ACCESS
from emulator.kernels.shared.bits import FLAGS, PIECE, get_bits, get_flags, put_bits
from emulator.kernels.shared.vectors import next_line, repeat, whole_units
from emulator.memory.rows import SECOND, apart
from emulator.memory.state import SCRATCH, SIZE, SPM
from emulator.native.primitives.memory import copy_bytes, view_i64, view_u8
from tx8isa.numbers.formats import Format
from tx8isa.numbers.primitives import s64, u64
from tx8isa.records.meaning import Bitwise, Form
from tx8isa.records.record import Instruction

from .relation import one_pattern

_PATTERN = 1024
"""Least number of bytes to which a unit vector is repeated."""

_IN_PLACE = 8192
"""Bytes of an in-place piece."""


def make_bitwise(instruction: Instruction) -> Kernel:
    """Make the kernel of a bV, bVbV, bVubV or bVubV_loop record."""
    meaning: Bitwise = instruction.meaning
    body = meaning.body

    def unary(a: int, b: int) -> int:
        return body(a)

    both = unary if meaning.form is Form.V else body
    if meaning.form in (Form.V, Form.VV):
        return _bytes_of_two(instruction, both)
    return _bytes_and_units(instruction, both)


def _bytes_of_two(instruction: Instruction, body: Callable[[int, int], int]) -> Kernel:
    """Operands dst, src0, n and perhaps src1, which is src0 otherwise."""
    names = [operand.name for operand in instruction.operands]
    target_at, first_at, count_at = (names.index(name) for name in ("dst", "src0", "n"))
    second_at, operands = names.index("src1") if "src1" in names else first_at, len(names)

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        n, target = words[count_at], memory[SPM] + words[target_at]
        first, second = memory[SPM] + words[first_at], memory[SPM] + words[second_at]
        size, rest = n >> 3, n & 7
        last = body(get_bits(first + size, rest), get_bits(second + size, rest))
        spare, other = memory[SCRATCH], memory[SCRATCH] + SECOND
        first_in_place, second_in_place = first == target, second == target
        if not first_in_place:
            first = apart(first, size, target, size, spare)
        if not second_in_place:
            second = apart(second, size, target, size, other)
        piece = _IN_PLACE if first_in_place or second_in_place else size
        at = 0
        while at < size:
            m = min(size - at, piece)
            a, b = first + at, second + at
            if first_in_place:
                copy_bytes(spare, a, m)
                a = spare
            if second_in_place:
                copy_bytes(other, b, m)
                b = other
            to, of, by = view_u8(target + at, m), view_u8(a, m), view_u8(b, m)
            for i in range(u64(m)):
                to[i] = body(s64(of[i]), s64(by[i]))
            at += m
        put_bits(target + size, last, rest)
        return 0

    return kernel


def _bytes_and_units(instruction: Instruction, body: Callable[[int, int], int]) -> Kernel:
    """Operands dst, src0, src1, n, unit and for the loop form full, full_unit.

    Units occupy whole bytes; after the last whole unit the second operand is 0 (board).
    """
    loop = instruction.meaning.form is Form.VUV_LOOP
    totals = ("full", "full_unit") if loop else ("n", "unit")
    names = ("dst", "src0", "src1", "n", "unit", *totals)
    target_at, first_at, second_at, count_at, unit_at, total_at, units_at = map(instruction.index, names)
    operands = len(instruction.operands)

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        target, first = memory[SPM] + words[target_at], memory[SPM] + words[first_at]
        unit, units_bytes = (words[unit_at] + 7) >> 3, (words[units_at] + 7) >> 3
        total = words[total_at]
        size = total // (8 * unit) * unit
        group, rest = words[count_at] >> 3 if loop else size, total - 8 * size
        last = body(get_bits(first + size, rest), 0)
        spare, units = memory[SCRATCH], memory[SCRATCH] + SECOND
        in_place = first == target
        if not in_place:
            first = apart(first, size, target, size, spare)
        copy_bytes(units, memory[SPM] + words[second_at], units_bytes)
        pattern, piece = next_line(units + units_bytes), min(group, whole_units(unit, _PATTERN))
        at = 0
        while at < size:
            copy_bytes(pattern, units + at // group * unit, unit)
            repeat(pattern, unit, piece)
            end = min(at + group, size)
            while at < end:
                m = min(end - at, piece)
                a = first + at
                if in_place:
                    copy_bytes(spare, a, m)
                    a = spare
                to, of, by = view_u8(target + at, m), view_u8(a, m), view_u8(pattern, m)
                for i in range(u64(m)):
                    to[i] = body(s64(of[i]), s64(by[i]))
                at += m
        put_bits(target + size, last, rest)
        return 0

    return kernel


def make_unpack(instruction: Instruction, fmt: Format) -> Kernel:
    """Make the kernel that writes bits as 1.0 and 0.0."""
    view, size, one = ACCESS[fmt].view, ACCESS[fmt].size, one_pattern(fmt)
    target_at, source_at, count_at = map(instruction.index, ("dst", "src0", "n"))
    operands = len(instruction.operands)

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        n, target = words[count_at], memory[SPM] + words[target_at]
        spare = memory[SCRATCH]
        source = apart(memory[SPM] + words[source_at], (n + 7) >> 3, target, n * size, spare)
        at = 0
        while at < n:
            m = min(n - at, PIECE)
            get_flags(spare + FLAGS, source + (at >> 3), m)
            to, of = view(target + at * size, m), view_u8(spare + FLAGS, m)
            for i in range(u64(m)):
                to[i] = one if s64(of[i]) > 0 else 0
            at += m
        return 0

    return kernel
