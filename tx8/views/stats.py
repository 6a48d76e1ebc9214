"""Statistics of a run as an object: the table of ``tx8emu --stats``, with each figure also by name."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from emulator.tile.tile import Tile
from emulator.timing.replay import TimeRange
from emulator.timing.slices import TICKS, Sink, Waiting
from emulator.watch.stats.output import executed
from emulator.watch.stats.result import make_report
from emulator.watch.stats.sink import Statistics
from emulator.watch.stats.text import describe
from emulator.watch.stats.types import Report
from tx8isa.errors import Tx8Error

if TYPE_CHECKING:
    import emulator
    from emulator.chips.mesh import ChipMesh


class Watch:
    """Sinks that gather the statistics of a run and the range of its time."""

    def __init__(self, program: emulator.Program) -> None:
        self.statistics, self.range = Statistics(program.image, program.machine), TimeRange()
        self.statistics.range = self.range
        self._waiting = Waiting(self.statistics)

    @property
    def sinks(self) -> list[Sink]:
        """The sinks of the run; they simulate time only when figures are read."""
        return [self._waiting, self.range]

    def settle(self) -> None:
        """Simulate the rest of the time after the run."""
        self._waiting.settle()


class Stats:
    """The time lost in a run by causes (docs/stats.md), computed on first use."""

    def __init__(self, watch: Watch, tiles: Sequence[Tile]) -> None:
        self._watch, self._tiles = watch, [tile.totals() for tile in tiles]

    @cached_property
    def report(self) -> Report:
        """All figures as typed records."""
        self._watch.settle()
        return make_report(self._watch.statistics, self._tiles)

    @property
    def cycles(self) -> float:
        """Simulated cycles of the run."""
        self._watch.settle()
        return self._watch.statistics.total / TICKS

    @property
    def cycles_range(self) -> tuple[float, float]:
        """The least and the most cycles, with the model's figures at the ends of their ranges."""
        least, most = self._watch.range.least, self._watch.range.most
        assert least is not None and most is not None
        return least, most

    def to_dict(self) -> dict[str, Any]:
        """Return the values that ``tx8emu --stats=json`` prints."""
        values: dict[str, Any] = msgspec.to_builtins(self.report)
        return values

    @property
    def longest(self) -> Report:
        """The report of the chip that ends last."""
        return self.report

    def __str__(self) -> str:
        return "\n".join([*describe(self.report), "", *executed(self._tiles)])

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
        """Refuse: only runs on one chip have the ranges of the model's figures."""
        count = len(self.report.chips)
        raise Tx8Error(f"cycles_range is for a run on one chip; this one is on {count}: see cycles")

    @property
    def longest(self) -> Report:
        """The report of the chip that ends last."""
        return self.report.chips[self.report.last_chip]

    def to_dict(self) -> dict[str, Any]:
        """Return the values that ``tx8emu --stats=json`` prints."""
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
