"""Predicts the kernels that a program needs, from its text."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from emulator.kernels import FAMILIES
from tx8isa.records.meaning import Convolution, Matrix

from . import tables


def expected_slots(records: npt.NDArray[np.int64], control: npt.NDArray[np.int64]) -> list[int]:
    """Return the distinct slots of engine instructions, given by record numbers and control words.

    Formats and rounding modes from registers are unknown here.
    """
    table = tables.table()
    found = set()
    for number, word in {*zip(records.tolist(), control.tolist(), strict=True)}:
        if has_kernels(number):
            header = number * tables.HEADER
            fmt = _field(table, header, int(table[header + tables.FORMAT]), word)
            rounding = _field(table, header, int(table[header + tables.ROUNDING]), word)
            found.add(int(table[header + tables.SLOT]) + fmt + (tables.ROUNDED if rounding else 0))
    return sorted(found)


def all_slots() -> list[int]:
    """Return a slot for every instruction and format, rounded to nearest even, without noting exceptions."""
    found = []
    for number, record in enumerate(tables.records()):
        if has_kernels(number):
            first = number * tables.SLOTS_PER_RECORD
            found += [first + code for code in record.formats or (0,)]
    return found


def has_kernels(number: int) -> bool:
    """Return True if kernels execute the instructions of a record."""
    meaning = tables.records()[number].meaning
    return isinstance(meaning, Matrix | Convolution) or type(meaning) in FAMILIES


def _field(table: npt.NDArray[np.int64], header: int, position: int, word: int) -> int:
    """Return the value of an operand in the control word; 0 if the record has no such operand there."""
    row = (int(table[header + tables.OPERAND_ROWS]) + position) * tables.ROW
    if position < 0 or table[row + tables.O_WORDS]:
        return 0
    return word >> int(table[row + tables.O_AT]) & int(table[row + tables.O_MASK])
