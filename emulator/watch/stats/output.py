"""The output of ``--stats``: the losses of a run's time, and the executed instructions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from emulator.engines import tables
from emulator.tile.tile import Tile, TileTotals
from tx8isa.records.record import Engine

from .result import make_report
from .sink import Statistics
from .text import describe


def lines(statistics: Statistics, tiles: Sequence[Tile], as_json: bool = False) -> Iterator[str]:
    """Yield the lines about a finished run; as JSON a ``types.Report``."""
    report = make_report(statistics, tiles)
    if as_json:
        yield json_text(report)
        return
    yield from describe(report)
    yield ""
    yield from executed(tiles)


def json_text(report: object) -> str:
    """Return a report as ``--stats=json`` prints it."""
    return msgspec.json.format(msgspec.json.encode(report)).decode()


def report_file(report: msgspec.Struct) -> bytes:
    """Return the content of ``--report FILE.json``: the key ``run``, to which tx8cc adds its decisions."""
    return f"{json_text({'run': report})}\n".encode()


def executed(tiles: Sequence[Tile | TileTotals]) -> Iterator[str]:
    """Yield tables of executed instructions over all tiles."""
    counts = np.sum([tile.counts for tile in tiles], axis=0)
    retired = sum(tile.retired for tile in tiles)
    engine_total = int(counts[:, 0].sum())
    yield f"{'tiles':<28}{len(tiles):>16,}"
    yield f"{'instructions':<28}{retired:>16,}"
    yield f"{'  kernel core':<28}{retired - engine_total:>16,}"
    yield f"{'  engines':<28}{engine_total:>16,}"
    yield ""
    yield f"{'engine':<28}{'instructions':>16}{'bytes read':>18}{'bytes written':>18}"
    found = [(tables.records()[number], counts[number]) for number in np.flatnonzero(counts[:, 0]).tolist()]
    for engine in Engine:
        own = [count for record, count in found if record.engine is engine]
        if own:
            yield _row(engine.name, np.sum(own, axis=0))
    yield ""
    yield f"{'instruction':<28}{'instructions':>16}{'bytes read':>18}{'bytes written':>18}"
    for record, count in sorted(found, key=lambda each: -each[1][0]):
        yield _row(record.mnemonic, count)


def _row(name: str, counts: np.ndarray) -> str:
    return f"{name:<28}{int(counts[0]):>16,}{int(counts[1]):>18,}{int(counts[2]):>18,}"
