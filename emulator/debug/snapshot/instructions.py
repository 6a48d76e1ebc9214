"""Checks the instructions of a saved state: their operands must be operands of issued instructions.

A kernel does not check the addresses of its operands; they are checked when an instruction is issued. So the
instructions of a file are checked by the same rules. From their operands alone they are issued again, and
must give the results in the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from emulator.engines import issue, queues, tables
from emulator.memory import state
from emulator.native.primitives.memory import get
from emulator.tile.tile import Tile
from tx8isa.records.record import Engine, Instruction

from .types import SnapshotError

Words = npt.NDArray[np.int64]

_DERIVED = (queues.E_ENGINE, queues.E_SLOT, queues.E_RECORD, queues.E_RANGES)
"""Words of an instruction that follow from its record and its operands, besides the ranges."""


def check_instructions(tile: Tile) -> None:
    """Raise SnapshotError for an instruction in the queues of a tile that could not have been issued."""
    issued = Issued(tile)
    for worker in range(tile.workers):
        block = tile.block(worker)
        for number in range(int(block[queues.OLDEST]), int(block[queues.NEXT])):
            entry = block[queues.entry_at(number) :][: queues.ENTRY]
            if entry[queues.E_LIVE]:
                issued.check(entry)


@cache
def _dispatchers() -> tuple[issue.Dispatch, issue.Dispatch]:
    """Return the functions that evaluate extents and rules."""
    return (
        tables.write_dispatcher(tables.extents(), queues.ARGUMENTS),
        tables.write_dispatcher(tables.rules(), queues.ARGUMENTS),
    )


class Issued:
    """Issues instructions of a tile again, into separate queues.

    ``place`` is their place in messages; without it they are in the queue of their engine.
    """

    def __init__(self, tile: Tile, place: str = "") -> None:
        self.tile, self.place = tile, place
        self.table = int(tile.words[state.RECORDS])
        self.scratch = np.zeros(queues.WORDS, np.int64)
        self.results = np.zeros(2, np.int64)
        self.scratch[queues.RETURNED] = self.results.ctypes.data

    def check(self, entry: Words) -> None:
        """Raise SnapshotError for an entry of a queue whose operands are refused, or produce another
        entry."""
        number, ranges = int(entry[queues.E_RECORD]), int(entry[queues.E_RANGES])
        record = tables.records()[number]
        count = len(record.operands)
        firsts = entry[queues.E_FIRST_RANGE :][: ranges * queues.RANGE_WORDS : queues.RANGE_WORDS].tolist()
        made = self.again(number, entry[queues.E_FIELDS :][:count].tolist(), firsts)
        end = queues.E_FIRST_RANGE + int(made[queues.E_RANGES]) * queues.RANGE_WORDS
        places = [*_DERIVED, *range(queues.E_FIRST_RANGE, end)]
        places += range(queues.E_FIELDS, queues.E_FIELDS + count)
        if made[places].tolist() != entry[places].tolist():
            raise self._refusal(record, "byte ranges or a kernel that are not those of its operands")

    def again(self, number: int, fields: Sequence[int], firsts: Sequence[int]) -> Words:
        """Return the entry of an instruction: its record, operands, and the first bytes of its ranges.

        The entry is valid until the next one is made. SnapshotError when the operands are refused.
        """
        record, at = tables.records()[number], queues.entry_at(0)
        operands = self._operands(number, fields, firsts)
        for position, value in enumerate(operands):
            if not self._fits(number, position, value):
                raise self._wrong_value(record, position, value)
        made = self.scratch[at:][: queues.ENTRY]
        made[queues.E_FIELDS : queues.E_FIELDS + len(operands)] = operands
        words, queue = self.tile.words.ctypes.data, self.scratch.ctypes.data
        if issue.check_entry(words, self.table, queue, number, at, *_dispatchers()) >= 0:
            raise self._refusal(record, "operands that are refused")
        issue.note_kernel(self.table, queue, number, at)
        return made

    def check_values(self, number: int, fields: Sequence[int]) -> None:
        """Raise SnapshotError for an operand that an instruction of the DTE cannot have.

        An address in DDR may have become an offset.
        """
        base = int(self.tile.words[state.ENGINE_DDR])
        for position, value in enumerate(fields):
            if not (self._fits(number, position, value) or self._fits(number, position, value + base)):
                raise self._wrong_value(tables.records()[number], position, value)

    def _operands(self, number: int, fields: Sequence[int], firsts: Sequence[int]) -> list[int]:
        """Return the operands as the program gave them: DDR addresses, which became offsets."""
        base = int(self.tile.words[state.ENGINE_DDR])
        row = get(self.table, number * tables.HEADER + tables.RANGE_ROWS) * tables.ROW
        given = list(fields)
        for _ in range(get(self.table, number * tables.HEADER + tables.RANGES)):
            operand, space = get(self.table, row + tables.R_OPERAND), get(self.table, row + tables.R_SPACE)
            if space != tables.SPM and queues.DDR + fields[operand] in firsts:
                given[operand] = fields[operand] + base
            row += tables.ROW
        return given

    def _fits(self, number: int, position: int, value: int) -> bool:
        """Return True if an operand can have a value."""
        row = get(self.table, number * tables.HEADER + tables.OPERAND_ROWS) * tables.ROW
        row += position * tables.ROW
        operand = tables.records()[number].operands[position]
        if operand.words:
            return issue.legal(self.table, row, value)
        if operand.choices:
            return value in dict(operand.choices).values()
        return 0 <= value <= get(self.table, row + tables.O_MASK)

    def _wrong_value(self, record: Instruction, position: int, value: int) -> SnapshotError:
        name = record.operands[position].name
        return self._refusal(record, f"{name} = {value:#x}, which it cannot have")

    def _refusal(self, record: Instruction, problem: str) -> SnapshotError:
        place = self.place or f"in the queue of {Engine(record.engine).name}"
        return SnapshotError(
            f"the saved state: tile {self.tile.number}, an instruction {record.mnemonic} {place} "
            f"has {problem}"
        )
