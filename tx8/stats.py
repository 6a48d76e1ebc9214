"""Statistics of a run as an object: the table of ``tx8emu --stats``, and everything in it by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from emulator.tile.tile import Tile
from emulator.timing.replay import TimeRange
from emulator.timing.slices import Sink
from emulator.watch.stats.output import executed
from emulator.watch.stats.result import make_report
from emulator.watch.stats.sink import Statistics
from emulator.watch.stats.text import describe

if TYPE_CHECKING:
    import emulator


def watched(program: emulator.Program) -> Statistics:
    """A sink for a run of this program; its ``range`` is another one."""
    sink = Statistics(program.image, program.machine)
    sink.range = TimeRange()
    return sink


def all_sinks(sink: Statistics) -> list[Sink]:
    """What a run is started with that is to know its statistics and the range of its time."""
    return [sink] if sink.range is None else [sink, sink.range]


class Stats:
    """Where the time of a run went (docs/stats.md). ``report`` has every number as typed records."""

    def __init__(self, sink: Statistics, tiles: Sequence[Tile]) -> None:
        self.report = make_report(sink, tiles)
        self._executed = list(executed(tiles))  # now, because the tiles begin another run

    @property
    def cycles(self) -> float:
        """Simulated cycles of the run."""
        return self.report.cycles

    @property
    def cycles_range(self) -> tuple[float, float]:
        """The least and the most cycles, where figures of the model have the ends of their ranges."""
        found = self.report.cycles_range
        assert found is not None
        return found.least, found.most

    def to_dict(self) -> dict[str, Any]:
        """What ``tx8emu --stats=json`` prints, as Python values."""
        values: dict[str, Any] = msgspec.to_builtins(self.report)
        return values

    def __str__(self) -> str:
        return "\n".join([*describe(self.report), "", *self._executed])

    def __repr__(self) -> str:
        return f"<tx8.Stats: {self.cycles:,.0f} cycles; print() shows the table>"
