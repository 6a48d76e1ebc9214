"""Instructions in the queues of a saved state: their operands are those of instructions that were issued.

A kernel does not check where its operands point to; that is done when an instruction is issued. So the
instructions of a file are checked by the same rules, from their operands alone, and what the rules make of
them must be what the file says.
"""

from __future__ import annotations

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
    extents = tables.write_dispatcher(tables.extents(), queues.ARGUMENTS)
    rules = tables.write_dispatcher(tables.rules(), queues.ARGUMENTS)
    for worker in range(tile.workers):
        block = tile.block(worker)
        for number in range(int(block[queues.OLDEST]), int(block[queues.NEXT])):
            entry = block[queues.entry_at(number) :][: queues.ENTRY]
            if entry[queues.E_LIVE]:
                _Check(tile, entry, extents, rules).run()


class _Check:
    """The instruction is issued again, into queues of its own."""

    def __init__(self, tile: Tile, entry: Words, extents: issue.Dispatch, rules: issue.Dispatch) -> None:
        self.tile, self.entry, self.extents, self.rules = tile, entry, extents, rules
        self.number = int(entry[queues.E_RECORD])
        self.record: Instruction = tables.records()[self.number]
        self.table = int(tile.words[state.RECORDS])
        self.scratch = np.zeros(queues.WORDS, np.int64)
        self.results = np.zeros(2, np.int64)
        self.scratch[queues.RETURNED] = self.results.ctypes.data
        self.at = queues.entry_at(0)

    def run(self) -> None:
        """SnapshotError where it is refused, or something else comes out."""
        count = len(self.record.operands)
        operands = self._operands(self.entry[queues.E_FIELDS :][:count].tolist())
        self._check_values(operands)
        made = self.scratch[self.at :][: queues.ENTRY]
        made[queues.E_FIELDS : queues.E_FIELDS + count] = operands
        state_at, queue_at = self.tile.words.ctypes.data, self.scratch.ctypes.data
        reason = issue.check_entry(
            state_at, self.table, queue_at, self.number, self.at, self.extents, self.rules
        )
        if reason >= 0:
            raise self._refusal("operands that are refused")
        issue.note_kernel(self.table, queue_at, self.number, self.at)
        end = queues.E_FIRST_RANGE + int(made[queues.E_RANGES]) * queues.RANGE_WORDS
        places = [*_DERIVED, *range(queues.E_FIRST_RANGE, end)]
        places += range(queues.E_FIELDS, queues.E_FIELDS + count)
        if made[places].tolist() != self.entry[places].tolist():
            raise self._refusal("byte ranges or a kernel that are not those of its operands")

    def _operands(self, values: list[int]) -> list[int]:
        """The operands as the program gave them: addresses in DDR, which became offsets."""
        base = int(self.tile.words[state.ENGINE_DDR])
        ranges = range(int(self.entry[queues.E_RANGES]))
        starts = {
            int(self.entry[queues.E_FIRST_RANGE + at * queues.RANGE_WORDS + queues.R_FIRST]) for at in ranges
        }
        row = get(self.table, self.number * tables.HEADER + tables.RANGE_ROWS) * tables.ROW
        given = list(values)
        for _ in range(get(self.table, self.number * tables.HEADER + tables.RANGES)):
            operand, space = get(self.table, row + tables.R_OPERAND), get(self.table, row + tables.R_SPACE)
            if space != tables.SPM and queues.DDR + values[operand] in starts:
                given[operand] = values[operand] + base
            row += tables.ROW
        return given

    def _check_values(self, operands: list[int]) -> None:
        """Each value is one that its operand can have."""
        row = get(self.table, self.number * tables.HEADER + tables.OPERAND_ROWS) * tables.ROW
        for operand, value in zip(self.record.operands, operands, strict=True):
            if operand.words:
                fine = issue.legal(self.table, row, value)
            else:
                fine = 0 <= value <= get(self.table, row + tables.O_MASK)
            if not fine:
                raise self._refusal(f"{operand.name} = {value:#x}, which it cannot have")
            row += tables.ROW

    def _refusal(self, problem: str) -> SnapshotError:
        engine = Engine(self.record.engine).name
        return SnapshotError(
            f"the saved state: tile {self.tile.number}, an instruction {self.record.mnemonic} in the queue "
            f"of {engine} has {problem}"
        )
