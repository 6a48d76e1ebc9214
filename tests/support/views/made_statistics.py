"""Statistics of made slices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

import asm
from asm.image import Image
from emulator.chip.memories import Memories
from emulator.engines import tables
from emulator.engines.queues import MAX_FIELDS
from emulator.tile.tile import Status, Tile
from emulator.timing.slices import MOST_RANGES, SLICE, TICKS, Batch, Cause, Track
from emulator.watch.stats.result import make_report
from emulator.watch.stats.sink import Statistics
from emulator.watch.stats.types import Report
from time_slices import BASE
from tx8isa.machine.description import Machine, load_machine
from tx8isa.numbers.formats import Format

MACHINE = load_machine(None)


def tiles(status: Status = Status.EXITED) -> list[Tile]:
    memories = Memories(asm.assemble("nop", machine=MACHINE), MACHINE)
    made = [memories.make_tile(number, False) for number in range(MACHINE.tiles)]
    for tile in made:
        tile.status = status
    return made


def ends_of(ends: Sequence[int]) -> list[int]:
    """Ends for all tiles of the machine."""
    return [*ends, *[0] * (MACHINE.tiles - len(ends))]


def counted(
    image: Image, batches: Iterable[Batch], ends: Sequence[int], machine: Machine = MACHINE
) -> Statistics:
    found = Statistics(image, machine)
    for batch in batches:
        found.take(batch)
    found.close(ends_of(ends))
    return found


def report_of(found: Statistics, groups: dict[str, str] | None = None) -> Report:
    return make_report(found, tiles(), groups)


def image(nodes: dict[int, str]) -> Image:
    return Image(entry=BASE, segments=(), nodes=nodes, lines={BASE: ("k.s", 3)})


def one(mnemonic: str = "ct.add.vv", fields: dict[str, int] | None = None, **columns: int) -> tuple[Any, ...]:
    """A slice of an instruction and its operands; times in cycles."""
    number = tables.numbers()[mnemonic]
    record = tables.records()[number]
    row = {
        "track": int(record.engine),
        "record": number,
        "pc": BASE,
        "ended": 10,
        "blocker": -1,
        "target": -1,
        **columns,
    }
    operands = [(fields or {}).get(operand.name, 0) for operand in record.operands]
    return row, operands


def core(cause: Cause, started: int, ended: int, **columns: int) -> tuple[Any, ...]:
    row = {"track": Track.CORE, "record": -1, "cause": cause, "pc": BASE, "started": started, "ended": ended}
    return {**row, "blocked": ended - started, "blocker": -1, "target": -1, **columns}, []


def batch(*rows: tuple[Any, ...]) -> Batch:
    slices = np.zeros(len(rows), dtype=SLICE)
    fields = np.zeros((len(rows), MAX_FIELDS), dtype=np.int64)
    for at, (row, operands) in enumerate(rows):
        for name, value in row.items():
            slices[name][at] = value * (TICKS if name in ("issued", "started", "ended", "blocked") else 1)
        fields[at, : len(operands)] = operands
    return Batch(slices, np.zeros((len(rows), MOST_RANGES, 3), dtype=np.int64), fields)


def ct(**columns: int) -> tuple[Any, ...]:
    return one("ct.add.vv", {"format": int(Format.FP16)}, **columns)
