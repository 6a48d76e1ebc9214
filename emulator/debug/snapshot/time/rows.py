"""Logs of simulated time in a saved state: checks that instructions have written each row.

The reads, writes and costs of an engine instruction follow from its operands. So it is issued and priced
again, and the results must agree with the file. The same holds for instructions and copies that left the log.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from emulator.engines import queues, tables
from emulator.memory import state
from emulator.tile.tile import Tile
from emulator.timing import layout
from tx8isa.cost.instructions import Cost, cost, evaluate
from tx8isa.machine.description import Machine
from tx8isa.records.record import Engine, Instruction

from ..bounds import MOST
from ..instructions import Issued
from ..types import SavedInstruction, SavedTransfer, SnapshotError
from .bounds import expect_all
from .restoring import RANGES_OF_A_COPY

_COSTS = {
    layout.WAIT: (layout.H_JOIN,),
    layout.SEEN: (layout.H_POLL,),
    layout.RESULT: (layout.H_POLL,),
    layout.COPY: (layout.H_SEND, layout.H_NOTHING),
    layout.AWAIT: (layout.H_POLL, layout.H_CPI),
    layout.ARRIVAL: (layout.H_POLL,),
    layout.READ: (layout.H_POLL, layout.H_CSR),
}
"""For each kind of row: the words with the ticks that the core needs for it."""
_PRICES = (layout.L_FIXED, layout.L_OPERATIONS, layout.L_MOVED, layout.L_RUNS, layout.L_EXCLUSIVE)
"""Words of a row with the costs of an instruction, besides the time of its data."""


class Prices:
    """The costs of instructions on any of some machines, which differ only in the figures of time."""

    def __init__(self, machines: Sequence[Machine]) -> None:
        self.machines = machines
        self._costs: dict[tuple[int, int], Cost] = {}

    def fit(self, number: int, operands: list[int], found: list[int], data: int, begun: bool) -> bool:
        """Return True if a record with these operands has the words ``found`` and ``data`` ticks.

        The words are those of ``_PRICES``. Other engines may have lengthened the data phase of an instruction
        that has begun.
        """
        record = tables.records()[number]
        for at, machine in enumerate(self.machines):
            if (number, at) not in self._costs:
                self._costs[number, at] = cost(record, machine)
            known = self._costs[number, at]
            operations, moved, runs = (
                default if term is None or not term.arguments else evaluate(term, record, operands)
                for term, default in ((known.operations, 0), (known.moved, -1), (known.runs, 0))
            )
            least = evaluate(known.data, record, operands)
            share = least * round(machine.timing.spm.collision.value * layout.MILLION) // layout.MILLION
            most = least + (queues.ENGINES - 1) * share if begun else least
            if found == [known.fixed, operations, moved, runs, known.exclusive] and least <= data <= most:
                return True
        return False


class LoggedTile:
    """Checks the log of one tile."""

    def __init__(self, tile: Tile, tiles: int, prices: Prices) -> None:
        self.tile, self.tiles, self.prices = tile, tiles, prices
        self.issued = Issued(tile, "in simulated time")
        self._known: set[tuple[int, ...]] = set()
        """Instructions that were found right, as their words."""

    def check_rows(self, data: bytes) -> None:
        """Raise SnapshotError for a row that the program of the tile cannot have written."""
        if len(data) % 8:
            raise self._refusal(f"its log has {len(data)} bytes, expected whole words")
        words, at = np.frombuffer(data, np.int64), 0
        while at < words.size:
            kind, size = int(words[at]) & 255, int(words[at]) >> layout.LENGTH_SHIFT
            expect_all(
                self._where,
                [
                    ("kind of a row", kind, 0, layout.EXIT),
                    ("words of a row", size, layout.SHORT_ROW, words.size - at),
                ],
            )
            self._check_row(kind, words[at : at + size].tolist())
            at += size

    def _check_row(self, kind: int, row: list[int]) -> None:
        length = layout.SHORT_ROW
        if kind == layout.ENGINE:
            length = self._check_instruction(row)
        elif kind == layout.COPY:
            length = self._check_copy(row)
        elif kind == layout.EFFORT:
            length = layout.EFFORT_ROW
            counts = row[layout.L_EFFORT :][: layout.EFFORTS]
            expect_all(self._where, [("what a row counts", count, 0, MOST) for count in counts])
        expect_all(
            self._where,
            [
                ("words of a row", len(row), length, length),
                ("instructions before a row", row[layout.L_RETIRED], 0, self.tile.retired),
                ("program counter of a row", row[layout.L_PC], 0, MOST),
                ("worker of a row", row[layout.L_WORKER], 0, self.tile.workers - 1),
            ],
        )
        if kind in _COSTS and row[layout.L_COST] not in _COSTS[kind]:
            raise self._refusal(f"a row of kind {kind} takes the ticks at {row[layout.L_COST]}")
        self._check_wait(kind, row[layout.L_FIRST], row[layout.L_SECOND])

    def _check_wait(self, kind: int, first: int, second: int) -> None:
        """Check that the object that a row waits for, or sends, is possible there."""
        streams = layout.STREAMS - 1
        if kind == layout.AWAIT:
            expect_all(self._where, [("copies that it waits for", first, 0, MOST)])
        elif kind == layout.ARRIVAL:
            expect_all(
                self._where, [("stream that it waits for", first, 0, streams), ("arrivals", second, 0, MOST)]
            )
        elif kind == layout.UPDATE:
            expect_all(
                self._where,
                [
                    ("target of an update", first, 0, self.tiles - 1),
                    ("stream of an update", second, 0, streams),
                ],
            )
        elif kind == layout.BARRIER:
            own, everyone = 1 << self.tile.number, (1 << self.tiles) - 1
            if not first & own or first & ~everyone:
                raise self._refusal(
                    f"a barrier of the tiles {first:#x}, expected a set with its bit {own:#x}, inside "
                    f"{everyone:#x}"
                )

    # -- engine instructions -----------------------------------------------------------------------------

    def check_instruction(self, saved: SavedInstruction) -> None:
        """Raise SnapshotError for an instruction that was not in the log, or that no engine with a queue
        executes."""
        if len(saved.words) % 8 or len(saved.words) < 8 * (layout.S_FIELDS + 1):
            raise self._refusal(f"an instruction of {len(saved.words)} bytes")
        row = [0] * layout.L_PC + np.frombuffer(saved.words, np.int64).tolist()
        length = self._check_instruction(row, begun=saved.begun is not None)
        expect_all(
            self._where,
            [
                ("words of an instruction", len(row), length, length),
                ("engine of an instruction", row[layout.L_ENGINE], 0, queues.ENGINES - 1),
                ("program counter of an instruction", row[layout.L_PC], 0, MOST),
                ("worker of an instruction", row[layout.L_WORKER], 0, self.tile.workers - 1),
            ],
        )

    def _check_instruction(self, row: list[int], begun: bool = False) -> int:
        """Return the words of an engine instruction's row. A row that was right once is right again."""
        expect_all(self._where, [("words of a row", len(row), layout.L_PAYLOAD, len(row))])
        number = row[layout.L_RECORD]
        expect_all(self._where, [("record of an instruction", number, 0, len(tables.records()) - 1)])
        record = tables.records()[number]
        many, fields = row[layout.L_RANGES], row[layout.L_FIELDS]
        engine = min(record.engine, queues.ENGINES)
        expect_all(
            self._where,
            [
                ("engine of an instruction", row[layout.L_ENGINE], int(record.engine), engine),
                ("ranges of an instruction", many, 0, layout.MOST_RANGES),
                ("operands of an instruction", fields, len(record.operands), len(record.operands)),
                ("serial mode of an instruction", row[layout.L_SERIAL], 0, 1),
                ("priority of an instruction", row[layout.L_PRIORITY], 0, 0xFF),
            ],
        )
        length = layout.L_PAYLOAD + many * queues.RANGE_WORDS + fields
        key = tuple(row[layout.L_RECORD : length])
        if len(row) >= length and key not in self._known:
            self._check_operands(record, number, row[:length], begun)
            self._known.add(key)
        return length

    def _check_operands(self, record: Instruction, number: int, row: list[int], begun: bool) -> None:
        end = layout.L_PAYLOAD + row[layout.L_RANGES] * queues.RANGE_WORDS
        ranges, fields = row[layout.L_PAYLOAD : end], row[end:]
        made = self.issued.again(number, fields, ranges[queues.R_FIRST :: queues.RANGE_WORDS])
        count = int(made[queues.E_RANGES]) * queues.RANGE_WORDS
        again = made[queues.E_FIRST_RANGE :][:count].tolist(), made[queues.E_FIELDS :][: len(fields)].tolist()
        if again != (ranges, fields):
            raise self._refusal(f"{record.mnemonic} has byte ranges that are not those of its operands")
        found, data = [row[at] for at in _PRICES], row[layout.L_DATA]
        if not self.prices.fit(number, fields, found, data, begun):
            raise self._refusal(f"{record.mnemonic} has other costs than its operands")

    # -- copies ------------------------------------------------------------------------------------------

    def check_transfer(self, saved: SavedTransfer) -> None:
        """Raise SnapshotError for bytes in transit that no copy has sent."""
        if len(saved.payload) % 8:
            raise self._refusal(f"a copy with {len(saved.payload)} bytes of ranges and operands")
        payload = np.frombuffer(saved.payload, np.int64).tolist()
        self._check_transfer(saved.record, saved.size, saved.sides, saved.runs, payload)

    def _check_copy(self, row: list[int]) -> int:
        """Return the words of a copy's row."""
        expect_all(self._where, [("words of a row", len(row), layout.C_PAYLOAD, len(row))])
        many, fields = row[layout.C_RANGES], row[layout.C_FIELDS]
        expect_all(
            self._where,
            [
                ("target of a copy", row[layout.C_TARGET], 0, self.tiles - 1),
                ("stream of a copy", row[layout.C_STREAM], -1, layout.STREAMS - 1),
                ("whether a target is the last", row[layout.C_LAST], 0, 1),
                ("ranges of a copy", many, RANGES_OF_A_COPY, RANGES_OF_A_COPY),
                ("operands of a copy", fields, 0, layout.MOST_FIELDS),
            ],
        )
        length = layout.C_PAYLOAD + many * queues.RANGE_WORDS + fields
        if len(row) >= length:
            number, size, sides, runs = (
                row[at] for at in (layout.C_RECORD, layout.C_BYTES, layout.C_DDR, layout.C_RUNS)
            )
            self._check_transfer(number, size, sides, runs, row[layout.C_PAYLOAD : length])
        return length

    def _check_transfer(self, number: int, size: int, sides: int, runs: int, payload: list[int]) -> None:
        records = tables.records()
        expect_all(
            self._where,
            [
                ("record of a copy", number, -1, len(records) - 1),
                ("bytes of a copy", size, 1, tables.MOST_BYTES),
                ("sides of a copy in DDR", sides, 0, layout.SOURCE_IN_DDR | layout.TARGET_IN_DDR),
                ("runs of a copy in DDR", runs, 0, RANGES_OF_A_COPY * size),
            ],
        )
        operands = [] if number < 0 else list(records[number].operands)
        if number >= 0 and records[number].engine is not Engine.DTE:
            raise self._refusal(f"a copy by {records[number].mnemonic}")
        words = RANGES_OF_A_COPY * queues.RANGE_WORDS
        expected = words + len(operands)
        expect_all(self._where, [("ranges and operands of a copy", len(payload), expected, expected)])
        for written in range(RANGES_OF_A_COPY):
            self._check_range(payload[written * queues.RANGE_WORDS :], written, size, sides >> written & 1)
        if number >= 0:
            self.issued.check_values(number, payload[words:])

    def _check_range(self, words: list[int], written: int, size: int, in_ddr: int) -> None:
        """Check a copy's range: the first byte of a side, and as many bytes as if they were contiguous."""
        first, space = (queues.DDR, state.DDR_BYTES) if in_ddr else (0, state.SPM_BYTES)
        last, reach = first + int(self.tile.words[space]) - 1, words[queues.R_FIRST] + size - 1
        expect_all(
            self._where,
            [
                ("first byte of a copy", words[queues.R_FIRST], first, last),
                ("last byte of a copy", words[queues.R_REACH], reach, reach),
                ("whether a copy writes", words[queues.R_WRITE], written, written),
                ("bytes of a side of a copy", words[queues.R_BYTES], size, size),
            ],
        )

    @property
    def _where(self) -> str:
        return f" of tile {self.tile.number}"

    def _refusal(self, problem: str) -> SnapshotError:
        return SnapshotError(f"the saved state: simulated time of tile {self.tile.number}: {problem}")
