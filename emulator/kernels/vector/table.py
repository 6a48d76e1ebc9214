"""Kernels of the unary functions of 16-bit formats that cost more than a look-up.

The results for all 65,536 patterns are computed once, by the same definition. The word after the operands is
the address of this table.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from numpy import float64

from emulator.kernels.shared import Kernel
from emulator.kernels.shared.access import ACCESS, nearest_store
from emulator.memory.rows import overlap
from emulator.memory.state import SCRATCH, SIZE, SPM
from emulator.native import call, compile_kernel
from emulator.native.primitives.memory import copy_bytes, view_i64, view_u16
from tx8isa.numbers.formats import Format
from tx8isa.numbers.primitives import u64
from tx8isa.records.meaning import Elementwise, Form
from tx8isa.records.record import Instruction

from .elementwise import make_elementwise

Table = npt.NDArray[np.uint16]

PATTERNS = 1 << 16

_tables: dict[tuple[str, Format], Table] = {}


def uses_table(instruction: Instruction, fmt: Format | None) -> bool:
    """Return True if the kernel of this record and format looks its results up."""
    meaning = instruction.meaning
    return (
        isinstance(meaning, Elementwise)
        and meaning.form is Form.V
        and not meaning.single
        and fmt in (Format.FP16, Format.BF16)
    )


def make_table(instruction: Instruction, fmt: Format | None) -> Table | None:
    """Compute the result for every pattern, uint16[65536], or None if the kernel needs no table.

    The table lives as long as the process; its address is written to the word after the operand words.
    """
    if fmt is None or not uses_table(instruction, fmt):
        return None
    key = (instruction.mnemonic, fmt)
    if key not in _tables:
        table = np.empty(PATTERNS, np.uint16)
        fill = compile_kernel(_fill(instruction.meaning.body, fmt), f"{key[0]}.{fmt.token}.table", 2)
        call(fill, table.ctypes.data, 0)
        _tables[key] = table
    return _tables[key]


def _fill(body: Callable[[float], float], fmt: Format) -> Kernel:
    load, store = ACCESS[fmt].load, nearest_store(fmt)

    def kernel(table: int, unused: int) -> int:
        to = view_u16(table, PATTERNS)
        for i in range(u64(PATTERNS)):
            to[i] = store(body(float64(load(i))))
        return 0

    return kernel


def make_function(instruction: Instruction, fmt: Format, nearest: bool, checked: bool) -> Kernel:
    """Make the kernel of an element-wise record, by look-up if that is cheaper."""
    if uses_table(instruction, fmt) and not checked:
        return make_lookup(instruction)
    return make_elementwise(instruction, fmt, nearest, checked)


def make_lookup(instruction: Instruction) -> Kernel:
    """Make the kernel that reads the table once per element."""
    names = [o.name for o in instruction.operands]
    target_at, source_at, count_at = (names.index(name) for name in ("dst", "src0", "n"))
    operands = len(names)

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands + 1), view_i64(state, SIZE)
        n, target, source = words[count_at], memory[SPM] + words[target_at], memory[SPM] + words[source_at]
        if target != source and overlap(source, 2 * n, target, 2 * n):
            copy_bytes(memory[SCRATCH], source, 2 * n)
            source = memory[SCRATCH]
        to, of, table = view_u16(target, n), view_u16(source, n), view_u16(words[operands], PATTERNS)
        for i in range(u64(n)):
            to[i] = table[u64(of[i])]
        return 0

    return kernel
