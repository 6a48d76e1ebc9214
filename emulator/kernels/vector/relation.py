"""Kernels of the relations and of logic on values: a truth value for each element, as a number or a bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from emulator.kernels.shared import Kernel
from emulator.kernels.shared.access import ACCESS, single_body
from emulator.kernels.shared.bits import FLAGS, PIECE, put_flags
from emulator.kernels.shared.vectors import Element, loop, next_line, over_vectors, repeat, whole_units
from emulator.memory.rows import SECOND, overlap
from emulator.memory.state import SCRATCH, SIZE, SPM
from emulator.native.primitives.memory import copy_bytes, view_f32, view_i64, view_u8
from tx8isa.numbers.formats import Format
from tx8isa.numbers.primitives import s64, u64
from tx8isa.records.meaning import Form, Relation
from tx8isa.records.record import Instruction

Holds = Callable[..., Any]

_PATTERN = 1024
"""Least number of elements to which a unit vector is repeated; with the longest unit at most ``PIECE``."""


def make_relation(instruction: Instruction, fmt: Format) -> Kernel:
    """Make the kernel of one form and format."""
    meaning: Relation = instruction.meaning
    holds = single_body(meaning.holds)
    if holds is None:
        raise ValueError(f"{instruction.mnemonic}: its condition calls a function")
    if meaning.packed:
        two = meaning.form is Form.VV
        return _bits_of_two(instruction, holds, fmt) if two else _bits_of_units(instruction, holds, fmt)
    run = loop(_truth_value(holds, meaning.form, fmt), fmt, meaning.form)
    return over_vectors(instruction, run, fmt, -1)


def _truth_value(holds: Holds, form: Form, fmt: Format) -> Element:
    """Make the truth value of an element as the pattern of 1.0 or 0.0."""
    load, one = ACCESS[fmt].load, one_pattern(fmt)

    def unary(a: int, b: int, mode: int, state: int) -> int:
        return one if holds(load(a)) else 0

    def binary(a: int, b: int, mode: int, state: int) -> int:
        return one if holds(load(a), load(b)) else 0

    return unary if form is Form.V else binary


def one_pattern(fmt: Format) -> int:
    """The stored pattern of 1.0."""
    return ACCESS[fmt].store(np.float32(1.0))


def _bits_of_two(instruction: Instruction, holds: Holds, fmt: Format) -> Kernel:
    """Operands dst, src0, src1, n.

    Writing never overtakes reading as long as the result does not begin after a source. A source that begins
    before the result and overlaps it is copied.
    """
    load, view, size = ACCESS[fmt].load, ACCESS[fmt].view, ACCESS[fmt].size
    target_at, first_at, second_at, count_at = map(instruction.index, ("dst", "src0", "src1", "n"))
    operands = len(instruction.operands)

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        target, n, spare = memory[SPM] + words[target_at], words[count_at], memory[SCRATCH]
        first = _readable(memory[SPM] + words[first_at], n * size, target, n, spare)
        second = _readable(memory[SPM] + words[second_at], n * size, target, n, spare + SECOND)
        at = 0
        while at < n:
            m = min(n - at, PIECE)
            flags = view_u8(spare + FLAGS, m)
            of, by = view(first + at * size, m), view(second + at * size, m)
            for i in range(u64(m)):
                flags[i] = holds(load(s64(of[i])), load(s64(by[i])))
            put_flags(target + (at >> 3), spare + FLAGS, m)
            at += m
        return 0

    return kernel


def _bits_of_units(instruction: Instruction, holds: Holds, fmt: Format) -> Kernel:
    """Operands dst, src0, src1, n, and for the unit forms unit and perhaps full, full_unit.

    A scalar is a unit vector of one element. The pattern of a group holds numbers ready to be compared.
    """
    load, view, size = ACCESS[fmt].load, ACCESS[fmt].view, ACCESS[fmt].size
    target_at, first_at, second_at, count_at, unit_at, total_at, units_at = _places(instruction)
    scalar, operands = instruction.meaning.form is Form.VS, len(instruction.operands)

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        target, n, total = memory[SPM] + words[target_at], words[count_at], words[total_at]
        spare, units = memory[SCRATCH], memory[SCRATCH] + SECOND
        first = _readable(memory[SPM] + words[first_at], total * size, target, total, spare)
        unit, all_units = (1, 1) if scalar else (words[unit_at], words[units_at])
        if scalar:
            view(units, 1)[u64(0)] = words[second_at]
        else:
            copy_bytes(units, memory[SPM] + words[second_at], all_units * size)
        pattern, piece = next_line(units + all_units * size), min(n, whole_units(unit, _PATTERN))
        by = view_f32(pattern, max(piece, unit))
        at = 0
        while at < total:
            of = view(units + at // n * unit * size, unit)
            for i in range(u64(unit)):
                by[i] = load(s64(of[i]))
            repeat(pattern, 4 * unit, 4 * piece)
            end = min(at + n, total)
            while at < end:
                m = min(end - at, piece)
                flags, of = view_u8(spare + FLAGS, m), view(first + at * size, m)
                for i in range(u64(m)):
                    flags[i] = holds(load(s64(of[i])), by[i])
                put_flags(target + (at >> 3), spare + FLAGS, m)
                at += m
        return 0

    return kernel


def _readable(source: int, size: int, target: int, bits: int, spare: int) -> int:
    """Return the address of a source to read: a copy if writing bits at ``target`` would overtake reading."""
    if target > source and overlap(source, size, target, (bits + 7) >> 3):
        copy_bytes(spare, source, size)
        return spare
    return source


def _places(instruction: Instruction) -> tuple[int, ...]:
    """Return positions of dst, src0, src1, n, unit, and the lengths of src0 and src1; n for missing ones."""
    names = {operand.name: at for at, operand in enumerate(instruction.operands)}
    n, unit = names["n"], names.get("unit", names["n"])
    total, units = names.get("full", n), names.get("full_unit", unit)
    return names["dst"], names["src0"], names["src1"], n, unit, total, units
