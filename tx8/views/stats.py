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
from emulator.watch.stats.types import Report
from tx8isa.errors import Tx8Error

if TYPE_CHECKING:
    import emulator
    from emulator.chips.mesh import ChipMesh


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

    @property
    def longest(self) -> Report:
        """The report of the chip that ends last."""
        return self.report

    def __str__(self) -> str:
        return "\n".join([*describe(self.report), "", *self._executed])

    def __repr__(self) -> str:
        return f"<tx8.Stats: {self.cycles:,.0f} cycles; print() shows the table>"


class ChipsStats:
    """``Stats`` of a run on several chips; ``report`` also has the use of links (docs/chips.md)."""

    def __init__(self, sinks: Sequence[Statistics], mesh: ChipMesh) -> None:
        from emulator.chips.link_use import chips_report, link_uses  # here: most runs do not need it

        reports = [make_report(sink, chip.tiles) for sink, chip in zip(sinks, mesh.chips, strict=True)]
        self.report = chips_report(reports, link_uses(mesh))
        self._executed = list(executed(mesh.chips[self.report.last_chip].tiles))

    @property
    def cycles(self) -> float:
        """Simulated cycles until the last chip is done."""
        return self.report.cycles

    @property
    def cycles_range(self) -> tuple[float, float]:
        """Refused: only runs on one chip have the ranges of the model's figures."""
        count = len(self.report.chips)
        raise Tx8Error(f"cycles_range is for a run on one chip; this one is on {count}: see cycles")

    @property
    def longest(self) -> Report:
        """The report of the chip that ends last."""
        return self.report.chips[self.report.last_chip]

    def to_dict(self) -> dict[str, Any]:
        """What ``tx8emu --stats=json`` prints, as Python values."""
        values: dict[str, Any] = msgspec.to_builtins(self.report)
        return values

    def __str__(self) -> str:
        from emulator.chips.link_use import describe_chips

        last = f"chip {self.report.last_chip}:"
        return "\n".join(
            [*describe_chips(self.report), "", last, *describe(self.longest), "", *self._executed]
        )

    def __repr__(self) -> str:
        chips = len(self.report.chips)
        return f"<tx8.Stats of {chips} chips: {self.cycles:,.0f} cycles; print() shows the table>"
