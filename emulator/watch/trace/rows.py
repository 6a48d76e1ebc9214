"""Writes slices as events: one line of JSON for each."""

from __future__ import annotations

from typing import Any

import numpy as np

from emulator.engines.queues import DDR
from emulator.engines.tables import records
from emulator.timing.slices import TICKS, Batch, Cause, Track
from emulator.watch.bins import Ints
from tx8isa.machine.description import Machine

from .texts import CAUSES, Same, Text, Texts

_KINDS = 1 << 12
"""A number larger than all records' and causes' numbers."""
_COPY = -1
"""Record of a copy that was started by stores to registers."""
_FEW = 16
"""The fewest slices of one program counter for which it is faster to format them together."""
Middle = Text | Same
_AMOUNTS = {
    "spm_read": "SPM read",
    "spm_written": "SPM written",
    "ddr_read": "DDR read",
    "ddr_written": "DDR written",
    "operations": "operations",
}
"""Columns and the names of their arguments; all are bytes except the last."""
_TARGET, _HELD, _BLOCKER, _CORE, _AWAY = (1 << 8 + i for i in range(5))


class Rows:
    """Writes slices as events; ``microseconds`` is the length of a tick."""

    def __init__(self, texts: Texts, machine: Machine, microseconds: float) -> None:
        self._texts, self._microseconds = texts, microseconds
        self._ddr, self._tiles = machine.windows.ddr_engine, machine.tiles
        self._known: dict[int, Middle] = {}

    def lines(self, batch: Batch, threads: Ints) -> list[str]:
        """Return the event of each slice, in the order of the slices."""
        slices = batch.slices
        middles = self._middles(slices, given_operands(batch, self._ddr))
        kinds = _kinds(slices, self._tiles)
        lines = np.empty(len(slices), dtype=object)
        for kind in np.unique(kinds).tolist():
            rows = np.flatnonzero(kinds == kind)
            template, columns = self._template(kind, slices[rows], threads[rows], middles[rows])
            lines[rows] = [template % row for row in zip(*columns, strict=True)]
        texts: list[str] = lines.tolist()
        return texts

    def _middles(self, slices: np.ndarray, operands: Ints) -> np.ndarray:
        """Return the text about the instruction of each slice; it is made once by program counter if these
        are few."""
        is_core = slices["track"] == Track.CORE
        kind = np.where(is_core, _COPY - 1 - slices["cause"], slices["record"]).astype(np.int64)
        keys = (slices["pc"] * _KINDS + (kind + _KINDS // 2)).tolist()
        places = dict.fromkeys(keys)
        for key in places.keys() - self._known.keys():
            pc, number = divmod(key, _KINDS)
            self._known[key] = self._middle(pc, number - _KINDS // 2)
        middles = np.empty(len(keys), dtype=object)
        if len(places) * _FEW > len(keys):
            rows = zip(keys, operands.tolist(), strict=True)
            middles[:] = [self._known[key].of(values) for key, values in rows]
            return middles
        numbers = {key: number for number, key in enumerate(places)}
        number = np.array([numbers[key] for key in keys], dtype=np.uint16)
        order = np.argsort(number, kind="stable")
        edges = np.searchsorted(number[order], np.arange(1, len(places)))
        for key, own in zip(places, np.split(order, edges), strict=True):
            middles[own] = self._known[key].of_all(operands[own])
        return middles

    def _middle(self, pc: int, kind: int) -> Middle:
        if kind >= 0:
            return self._texts.instruction(pc, kind)
        return self._texts.copy(pc) if kind == _COPY else self._texts.wait(pc, _COPY - 1 - kind)

    def _template(
        self, kind: int, slices: np.ndarray, threads: Ints, middles: np.ndarray
    ) -> tuple[str, list[list[Any]]]:
        """Return a template for slices of a kind, and the columns that it takes; amounts of 0 are omitted."""
        length = slices["ended"] - slices["started"]
        columns = [
            (slices["tile"] + 1).tolist(),
            threads.tolist(),
            (slices["started"] * self._microseconds).tolist(),
            (length * self._microseconds).tolist(),
            middles.tolist(),
        ]
        parts = []

        def part(text: str, column: np.ndarray) -> None:
            parts.append(text)
            columns.append(column.tolist())

        part('"next instruction":%d' if kind & _CORE else '"instruction number":%d', slices["number"])
        if not kind & _CORE:
            part('"issued":%.6f', slices["issued"] * self._microseconds)
        for bit, (column, name) in enumerate(_AMOUNTS.items()):
            if kind >> bit & 1:
                part(f'"{name}":%d', slices[column])
        if kind & _TARGET:
            part('"to tile":%d', slices["target"] % self._tiles)
        if kind & _AWAY:
            part('"of chip":%d', slices["target"] // self._tiles - 1)
        if kind & _HELD:
            cause = CAUSES[kind >> 16] or Cause(kind >> 16).name
            part(f'"held by":"{cause}","held for (cycles)":%.3f', slices["blocked"] / TICKS)
        if kind & _BLOCKER:
            part('"held by instruction":%d', slices["blocker"])
        return f'{{"ph":"X","pid":%d,"tid":%d,"ts":%.6f,"dur":%.6f,%s{",".join(parts)}}}}}', columns

    def arriving(self, slices: np.ndarray, threads: Ints) -> list[str]:
        """Return the events that show copies at their targets."""
        begin = (slices["started"] * self._microseconds).tolist()
        length = ((slices["ended"] - slices["started"]) * self._microseconds).tolist()
        columns = (
            (slices["target"] + 1).tolist(),
            threads.tolist(),
            begin,
            length,
            slices["tile"].tolist(),
            slices["number"].tolist(),
        )
        return [
            f'{{"ph":"X","pid":{pid},"tid":{tid},"ts":{ts:.6f},"dur":{dur:.6f},"cat":"arriving",'
            f'"name":"from tile {tile}","args":{{"from tile":{tile},"instruction number":{number}}}}}'
            for pid, tid, ts, dur, tile, number in zip(*columns, strict=True)
        ]


def _kinds(slices: np.ndarray, tiles: int) -> Ints:
    """Return a number for each slice's set of arguments; targets above ``tiles`` are on other chips."""
    kind: Ints = slices["cause"].astype(np.int64) << 16
    for bit, column in enumerate(_AMOUNTS):
        kind |= (slices[column] != 0) << bit
    is_core = slices["track"] == Track.CORE
    kind |= np.where(slices["target"] >= 0, _TARGET, 0) | np.where(is_core, _CORE, 0)
    kind |= np.where(slices["target"] >= tiles, _AWAY, 0)
    kind |= np.where((slices["blocked"] > 0) & ~is_core, _HELD, 0)
    return kind | np.where(slices["blocker"] >= 0, _BLOCKER, 0)


def is_sent(slices: np.ndarray, tiles: int) -> Ints:
    """Return rows of copies to the scratchpad of one of the chip's tiles."""
    here = (slices["target"] >= 0) & (slices["target"] < tiles)
    return np.flatnonzero(here & (slices["ddr_written"] == 0))


def given_operands(batch: Batch, ddr: int) -> Ints:
    """Return operand values as the program gave them: offsets in DDR become addresses again.

    ``ddr``: the address of DDR in the engines' view.
    """
    used = np.unique(batch.slices["record"])
    used = used[used >= 0].tolist()
    fields = batch.fields[:, : max((len(records()[r].operands) for r in used), default=0)].copy()
    for number in used:
        for column, operand in enumerate(records()[number].operands):
            if operand.memory not in ("ddr", "any"):
                continue
            # an operand in DDR is an offset, at which one of the ranges begins
            rows = np.flatnonzero(batch.slices["record"] == number)
            begin = fields[rows, column, None] + DDR
            rows = rows[(batch.ranges[rows, :, 0] == begin).any(axis=1)]
            fields[rows, column] += ddr
    return fields
