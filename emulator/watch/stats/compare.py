"""Compares two runs: the figures of ``--stats`` that differ, and their differences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from tx8isa.errors import Tx8Error
from tx8isa.tools.files import read_bytes

from .text import fit
from .types import Count, Report

_MOST = 20
"""The most rows of a table that has one for each node or instruction."""
_LARGEST_FILE = 64 << 20
_NAME, _CELL, _SHARE = 28, 18, 10


@dataclass(frozen=True)
class FigureChange:
    """One figure of both runs; None where a run does not have it."""

    name: str
    before: float | None
    after: float | None

    @property
    def difference(self) -> float:
        """The value after minus the value before; a missing figure counts as 0."""
        return (self.after or 0.0) - (self.before or 0.0)

    def cells(self) -> tuple[str, str, str, str]:
        """Before, after, the difference, and the difference in percent of before."""
        share = f"{self.difference / self.before:+.1%}" if self.before else ""
        return _number(self.before), _number(self.after), f"{self.difference:+,.0f}", share


@dataclass(frozen=True)
class ChangeTable:
    """Figures of one kind. ``left_out`` is the number of omitted figures, which differ less."""

    title: str
    changes: tuple[FigureChange, ...]
    left_out: int = 0


@dataclass(frozen=True)
class Comparison:
    """The changes from one run to another; ``print`` shows the tables."""

    tables: tuple[ChangeTable, ...]

    def __getitem__(self, name: str) -> FigureChange:
        """Return the first figure of a name ("cycles"); KeyError if it is equal in both runs, or unknown."""
        found = (change for table in self.tables for change in table.changes if change.name == name)
        change = next(found, None)
        if change is None:
            raise KeyError(f"no figure '{name}' in the comparison")
        return change

    def lines(self) -> Iterator[str]:
        """Yield the tables as text, at most 110 columns."""
        for table in self.tables:
            yield _row(table.title, ("before", "after", "difference", ""))
            yield from (_row(" ".join(change.name.split()), change.cells()) for change in table.changes)
            if table.left_out:
                yield f"and {table.left_out} with smaller differences"
            yield ""

    def __str__(self) -> str:
        return "\n".join(self.lines()).rstrip()


def compare(before: Report, after: Report) -> Comparison:
    """Compare two reports, of one program or of two.

    The first table always has all its figures. The other rows have the figures that differ, largest
    difference first.
    """
    tables = [ChangeTable("run", tuple(_changes(_whole(before), _whole(after))))]
    for title, figures, most in _TABLES:
        changed = [change for change in _changes(figures(before), figures(after)) if change.difference]
        changed.sort(key=lambda change: -abs(change.difference))
        if changed:
            tables.append(ChangeTable(title, tuple(changed[:most]), max(len(changed) - most, 0)))
    return Comparison(tuple(tables))


def read_report(path: str | Path) -> Report:
    """Read the statistics of a run from a file: of ``--stats=json``, or of ``--report FILE.json``.

    For a run on several chips, it compares the chip that ended last. Tx8Error if the file contains no
    statistics.
    """
    file = Path(path)
    if file.is_file() and (size := file.stat().st_size) > _LARGEST_FILE:
        raise Tx8Error(f"{path}: no statistics of a run: {size:,} bytes; allowed are {_LARGEST_FILE:,}")
    try:
        found = msgspec.json.decode(read_bytes(path))
        found = found.get("run", found) if isinstance(found, dict) else found
        if isinstance(found, dict) and "chips" in found:
            chips = msgspec.convert(found, _Chips)
            found = chips.chips[chips.last_chip]
        return msgspec.convert(found, Report)
    except (msgspec.MsgspecError, IndexError) as error:
        wanted = "expected what tx8emu --stats=json prints, or what --report FILE.json writes"
        raise Tx8Error(f"{path}: no statistics of a run: {error}; {wanted}") from None


class _Chips(msgspec.Struct):
    """The part of several chips' statistics that a comparison needs."""

    last_chip: Count
    chips: list[dict[str, Any]]
    version: Literal[1] = 1


def _changes(before: Mapping[str, float], after: Mapping[str, float]) -> Iterator[FigureChange]:
    for name in dict.fromkeys((*before, *after)):
        yield FigureChange(name, before.get(name), after.get(name))


def _whole(report: Report) -> dict[str, float]:
    figures: dict[str, float] = {"cycles": report.cycles}
    if report.cycles_range is not None:
        figures |= {"  least": report.cycles_range.least, "  most": report.cycles_range.most}
    return figures | {
        "instructions": report.instructions,
        "engine instructions": report.engine_instructions,
        "tiles used": report.tiles_used,
    }


def _resources(report: Report) -> dict[str, float]:
    return {str(resource.name): resource.cycles for resource in report.resources}


def _busy(report: Report) -> dict[str, float]:
    return _mean(report, ((str(engine.engine), engine.busy) for engine in report.engines))


def _core(report: Report) -> dict[str, float]:
    return _mean(
        report,
        (
            pair
            for core in report.cores
            for pair in (
                ("executes", core.executing),
                ("waits for a queue", sum(core.queue.values())),
                ("waits for engines", sum(core.engines.values())),
                ("waits for its copies", core.dte),
                ("waits for arrivals", core.arrival),
                ("waits at barriers", core.barrier),
                ("program", core.program),
                ("has ended", core.ended),
            )
        ),
    )


def _mean(report: Report, parts: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Return cycles by name, the mean of all tiles."""
    found: dict[str, float] = {}
    for name, cycles in parts:
        found[name] = found.get(name, 0.0) + cycles / report.tiles
    return found


def _bytes(report: Report) -> dict[str, float]:
    return {path.path: path.bytes for path in report.paths}


def _nodes(report: Report) -> dict[str, float]:
    return {node.name or "(no node)": node.cycles for node in report.nodes}


def _executed(report: Report) -> dict[str, float]:
    return {each.instruction: each.count for each in report.executed}


_TABLES: tuple[tuple[str, Callable[[Report], dict[str, float]], int], ...] = (
    ("least time at peak, cycles", _resources, _MOST),
    ("engines, busy cycles a tile", _busy, _MOST),
    ("kernel core, cycles a tile", _core, _MOST),
    ("bytes", _bytes, _MOST),
    ("nodes, cycles", _nodes, _MOST),
    ("instructions executed", _executed, _MOST),
)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _row(name: str, cells: tuple[str, str, str, str]) -> str:
    numbers = "".join(f"{cell:>{_CELL}}" for cell in cells[:3])
    return f"{fit(name, _NAME)}{numbers}{cells[3]:>{_SHARE}}".rstrip()
