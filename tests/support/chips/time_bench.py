"""Shared code of the tests of simulated time: machines without small terms, and a sink that keeps slices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

import asm
from chip_bench import TX81, chip
from emulator.chip.system import System
from emulator.timing.layout import MOST_FIELDS
from emulator.timing.slices import MOST_RANGES, SLICE, TICKS, Batch, Track
from machine_files import COLD
from tx8isa.machine.description import Machine

EXIT = "\n9: li a0, 0\n li a7, 93\n ecall\n"
SPM = 0x40000
CORE = TX81.timing.core


def changed(machine: Machine, table: str, name: str, value: float) -> Machine:
    """The machine with another coefficient ``timing.TABLE.NAME``, which then has no range."""
    old = getattr(machine.timing, table)
    figure = msgspec.structs.replace(getattr(old, name), value=value, least=msgspec.UNSET, most=msgspec.UNSET)
    new = msgspec.structs.replace(old, **{name: figure})
    return msgspec.structs.replace(machine, timing=msgspec.structs.replace(machine.timing, **{table: new}))


def warm(machine: Machine) -> Machine:
    """The machine without cold costs, so that only the time of the commands themselves is left."""
    for table, name in COLD:
        machine = changed(machine, table, name, 0.0)
    return machine


def sharp(machine: Machine) -> Machine:
    """The machine without bank collisions, cold costs and the fixed cost of programs."""
    return changed(changed(warm(machine), "spm", "collision", 0.0), "core", "program", 0.0)


def issue(engine: str) -> float:
    """Cycles of the core to submit a command to an engine."""
    return TX81.timing.issue.of(engine).value


ONE, FOUR, SIXTEEN = sharp(chip(1, SPM)), sharp(chip(4, SPM)), sharp(chip(16, SPM))


class Keep:
    """A sink that keeps everything, for short runs."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.ends: Sequence[int] = ()
        self.closed = 0

    def take(self, batch: Batch) -> None:
        self.batches.append(batch)

    def close(self, ends: Sequence[int]) -> None:
        self.ends, self.closed = ends, self.closed + 1

    @property
    def slices(self) -> np.ndarray:
        return np.concatenate([np.zeros(0, SLICE), *(batch.slices for batch in self.batches)])

    @property
    def ranges(self) -> np.ndarray:
        return np.concatenate([np.zeros((0, MOST_RANGES, 3), int), *(b.ranges for b in self.batches)])

    @property
    def fields(self) -> np.ndarray:
        return np.concatenate([np.zeros((0, MOST_FIELDS), int), *(b.fields for b in self.batches)])

    def numbers(self) -> np.ndarray:
        """Numbers of the engines' slices, followed by the waits of the core."""
        rows = self.slices
        return np.where(rows["track"] == Track.CORE, 1 << 40, rows["number"])

    def of(self, tile: int = 0, track: Track | None = None) -> list[dict[str, Any]]:
        """Slices of a tile by their numbers, in cycles; without ``track`` the slices of all engines."""
        rows = self.slices
        wanted = rows["track"] != Track.CORE if track is None else rows["track"] == track
        rows = rows[(rows["tile"] == tile) & wanted]
        found = []
        for row in rows[np.argsort(rows["number"], kind="stable")]:
            values = {name: int(row[name]) for name in rows.dtype.names or ()}
            for name in ("issued", "started", "ended", "blocked"):
                values[name] /= TICKS
            found.append(values)
        return found


def run(text: str, machine: Machine = ONE, **options: Any) -> tuple[System, Keep]:
    """The system after a program that exits, and its slices."""
    sink = Keep()
    system = System(asm.assemble(f"_start: {text}{EXIT}"), machine, sinks=[sink], **options)
    system.run()
    return system, sink
