"""The events of a phase on one tile, and the effect of each on the tile's time."""

from __future__ import annotations

from typing import NamedTuple

from tx8isa.records.meaning import Action
from tx8isa.records.record import Engine

from .demand import Demand
from .pricing import Pricing
from .timeline import ByteRange, Timeline

ALIKE = 2
"""Iterations of a loop that represent the skipped ones."""


class Command(NamedTuple):
    """An instruction for an engine, with the ranges of the scratchpad that it reads and writes."""

    engine: Engine
    demand: Demand
    reads: list[ByteRange]
    writes: list[ByteRange]
    worker: int

    def happen(self, timeline: Timeline, pricing: Pricing) -> None:
        timeline.issue(self.engine, pricing.price(self.demand), self.reads, self.writes, self.worker)


class Copy(NamedTuple):
    """A copy to other tiles. ``senders`` tiles send to the same few tiles; None if teams send to
    themselves."""

    demand: Demand
    senders: int | None

    def happen(self, timeline: Timeline, pricing: Pricing) -> None:
        timeline.send(pricing.price(self.demand), self.senders)


class CoreTime(NamedTuple):
    """Instructions of the kernel core."""

    instructions: int

    def happen(self, timeline: Timeline, pricing: Pricing) -> None:
        timeline.execute(self.instructions)


class CacheMaintenance(NamedTuple):
    """The core cleans or invalidates its whole cache, this many times."""

    times: int

    def happen(self, timeline: Timeline, pricing: Pricing) -> None:
        timeline.maintain(self.times)


class NewCode(NamedTuple):
    """Bytes of code that the tile executes for the first time."""

    size: int

    def happen(self, timeline: Timeline, pricing: Pricing) -> None:
        timeline.fetch(self.size)


class NewKind(NamedTuple):
    """The first command of its kind in the phase."""

    kind: str

    def happen(self, timeline: Timeline, pricing: Pricing) -> None:
        timeline.meet(self.kind)


class Wait(NamedTuple):
    """The core waits for ``action``; ``worker`` is that of a wait for engines."""

    action: Action
    worker: int

    def happen(self, timeline: Timeline, pricing: Pricing) -> None:
        if self.action is Action.WAIT:
            timeline.join(self.worker)
        elif self.action is Action.BARRIER:
            timeline.barrier()
        else:
            timeline.await_sent()


class Sharing(NamedTuple):
    """From here on, ``tiles`` tiles use DDR at the same time, on average."""

    tiles: float

    def happen(self, timeline: Timeline, pricing: Pricing) -> None:
        timeline.sharing = self.tiles


class EndOfConstants(NamedTuple):
    """All instructions so far only load constants, or process them."""

    def happen(self, timeline: Timeline, pricing: Pricing) -> None:
        timeline.ahead = timeline.now


class TurnBegin(NamedTuple):
    """The begin of the iteration that represents the skipped ones."""

    def happen(self, timeline: Timeline, pricing: Pricing) -> None:
        timeline.mark()


class MoreTurns(NamedTuple):
    """The loop continues for ``turns`` iterations that take as long as the one that ends here."""

    turns: int

    def happen(self, timeline: Timeline, pricing: Pricing) -> None:
        timeline.repeat(self.turns, ALIKE)


Event = (
    Command
    | Copy
    | CoreTime
    | CacheMaintenance
    | NewCode
    | NewKind
    | Wait
    | Sharing
    | EndOfConstants
    | TurnBegin
    | MoreTurns
)
