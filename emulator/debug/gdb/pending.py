"""The waiting instructions in a tile's queues, for ``monitor`` and for watchpoints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from emulator.engines import queues, tables
from emulator.memory import state
from emulator.tile.tile import Tile
from emulator.watch.trace.texts import full_name, operand_texts
from tx8isa.records.record import Engine, Instruction


@dataclass(frozen=True)
class Range:
    """Bytes ``first`` .. ``last`` byte that an instruction touches; DDR offsets have ``queues.DDR`` added."""

    first: int
    last: int
    written: bool


@dataclass(frozen=True)
class PendingInstruction:
    """An instruction that was issued and not executed; ``number`` counts its worker's instructions."""

    worker: int
    number: int
    record: Instruction
    pc: int
    fields: Sequence[int]
    ranges: tuple[Range, ...]

    @property
    def engine(self) -> Engine:
        return self.record.engine


def pending(tile: Tile) -> Iterator[PendingInstruction]:
    """Yield the waiting instructions, by worker in program order."""
    for worker in range(tile.workers):
        block = tile.block(worker)
        if block[queues.PENDING]:
            for number in range(int(block[queues.OLDEST]), int(block[queues.NEXT])):
                if block[queues.entry_at(number) + queues.E_LIVE]:
                    yield _entry(tile, worker, number)


def is_pending(tile: Tile, entry: PendingInstruction) -> bool:
    """Return True if an instruction that was pending a moment ago still is."""
    block = tile.block(entry.worker)
    inside = block[queues.OLDEST] <= entry.number < block[queues.NEXT]
    return bool(inside and block[queues.entry_at(entry.number) + queues.E_LIVE])


def _entry(tile: Tile, worker: int, number: int) -> PendingInstruction:
    at = queues.entry_at(number)
    words = tile.block(worker)[at : at + queues.ENTRY]
    record = tables.records()[int(words[queues.E_RECORD])]
    fields: list[int] = words[queues.E_FIELDS : queues.E_FIELDS + len(record.operands)].tolist()
    return PendingInstruction(worker, number, record, int(words[queues.E_PC]), fields, _ranges(tile, words))


def _ranges(tile: Tile, words: np.ndarray) -> tuple[Range, ...]:
    hostile = int(tile.words[state.WRITE_SPAN]) == queues.HOSTILE and words[queues.E_ENGINE] <= queues.NE
    found = []
    for k in range(int(words[queues.E_RANGES])):
        at = queues.E_FIRST_RANGE + k * queues.RANGE_WORDS
        first, reach, write, size = words[at : at + queues.RANGE_WORDS].tolist()
        spoils = hostile and write and first < queues.DDR
        found.append(Range(first, reach if spoils else first + size - 1, bool(write)))
    return tuple(found)


def describe(tile: Tile, entry: PendingInstruction) -> str:
    """Return the instruction as assembly, with addresses in the engines' view."""
    record, values = entry.record, _addresses(tile, entry)
    texts = operand_texts(record, values)
    shown = ", ".join(f"{record.operands[at].name}={text}" for at, text in texts.items())
    return f"{full_name(record, values)} {shown}".rstrip()


def _addresses(tile: Tile, entry: PendingInstruction) -> list[int]:
    """Return operand values; the queues hold DDR as offsets, which the ranges distinguish from SPM."""
    values = list(entry.fields)
    ranges = list(entry.ranges)
    for index, operand in enumerate(entry.record.operands):
        known = operand.extent and ranges and ranges[0].first & ~queues.DDR == values[index]
        if known and ranges.pop(0).first >= queues.DDR:
            values[index] += int(tile.words[state.ENGINE_DDR])
    return values
