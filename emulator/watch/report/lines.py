"""The lines of a program, with the counts of ``--stats`` for each."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from emulator.engines.tables import records
from emulator.timing.slices import TICKS, Batch, Cause
from emulator.watch.bins import Ints
from emulator.watch.stats.sink import Statistics
from emulator.watch.trace.rows import given_operands
from emulator.watch.trace.texts import full_name, operand_texts
from tx8isa.machine.description import Machine

MOST_LINES = 4000
_LONGEST_TEXT = 160


class Line(NamedTuple):
    """A place of the program that issued an instruction or at which the core waited."""

    pc: int
    file: str
    line: int
    """0 when the image does not say."""
    text: str
    """The instruction, with the operands of its first execution."""
    kind: int
    node: int
    """Number of the node in ``kinds.NodeNumbers``."""
    times: int
    busy: int
    """Ticks that an engine worked for it, over all tiles."""
    lost: int
    """Ticks that it, or the core at it, was kept waiting, all tiles."""

    def in_cycles(self) -> dict[str, Any]:
        """Return the fields by name, with times in cycles."""
        return {**self._asdict(), "busy": self.busy / TICKS, "lost": self.lost / TICKS}


class Lines:
    """The instruction at each program counter of the program."""

    def __init__(self, machine: Machine) -> None:
        self._ddr = machine.windows.ddr_engine
        self._known: dict[int, tuple[str, int]] = {}
        self._instructions: set[int] = set()

    def add(self, batch: Batch, kinds: Ints) -> None:
        """Take slices and their kinds."""
        is_instruction = batch.slices["record"] >= 0
        for chosen in (is_instruction, ~is_instruction):
            rows = np.flatnonzero(chosen)
            pcs, first = np.unique(batch.slices["pc"][rows], return_index=True)
            for pc, row in zip(pcs.tolist(), rows[first].tolist(), strict=True):
                if pc not in self._instructions:
                    self._learn(pc, batch, row, int(kinds[row]))

    def _learn(self, pc: int, batch: Batch, row: int, kind: int) -> None:
        """Name a program counter by its instruction, even if the core has waited there before."""
        record = int(batch.slices["record"][row])
        if record >= 0:
            self._instructions.add(pc)
            one = Batch(batch.slices[[row]], batch.ranges[[row]], batch.fields[[row]])
            values = given_operands(one, self._ddr)[0].tolist()
            self._known[pc] = (_text(record, values)[:_LONGEST_TEXT], kind)
        else:
            self._known.setdefault(pc, ("", kind))

    def final(self, statistics: Statistics, nodes_of: Ints) -> tuple[list[Line], int]:
        """Return the lines that took longest, by address, and the number of the remaining ones.

        ``nodes_of``: the node of each of the statistics' places.
        """
        places = statistics.places.pcs.tolist()
        times = statistics.place_times[: len(places)]
        busy, lost = times[:, Cause.NOTHING], times.sum(axis=1) - times[:, Cause.NOTHING]
        counts = statistics.place_instructions
        chosen = np.argsort(-times.sum(axis=1), kind="stable")[:MOST_LINES].tolist()
        source = statistics.image.lines
        lines = [
            Line(
                places[at],
                *source.get(places[at], ("", 0)),
                *self._known[places[at]],
                int(nodes_of[at]),
                int(counts[at]),
                int(busy[at]),
                int(lost[at]),
            )
            for at in chosen
        ]
        return sorted(lines), len(places) - len(lines)


def _text(record: int, values: list[int]) -> str:
    operands = records()[record].operands
    texts = operand_texts(records()[record], values)
    shown = ", ".join(f"{operands[at].name}={text}" for at, text in texts.items())
    return f"{full_name(records()[record], values)} {shown}"


def positions(lines: list[Line], pcs: Ints) -> Ints:
    """Return the position of the line of each program counter, -1 when it is not among them."""
    known = np.array([line.pc for line in lines], dtype=np.int64)  # sorted
    at = np.minimum(np.searchsorted(known, pcs), len(known) - 1)
    return np.where(known[at] == pcs, at, -1) if len(known) else np.full(len(pcs), -1)
