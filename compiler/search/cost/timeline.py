"""One tile's engines in time: what runs beside what, as the queues and the hardware's dependencies allow.

The core issues in order; each engine works off its queue in order; an instruction waits for older ones that
wrote what it reads, or touch what it writes. DDR is a resource that all tiles which work share evenly: so a
transfer takes as long as its engine needs, or as its share of DDR needs.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from compiler.codegen.teams.team import CONTENTION
from tx8isa.cost.instructions import TICKS
from tx8isa.machine.description import Machine
from tx8isa.records.record import Engine

from .pricing import Price

Touched = tuple[int, int]
"""A range of the scratchpad: its first byte and the first behind it."""


class _Access(NamedTuple):
    """What an instruction does to a range, and when it has ended."""

    first: int
    last: int
    end: int
    writes: bool

    def conflicts(self, reads: list[Touched], writes: list[Touched]) -> bool:
        """Whether an instruction with these ranges has to wait for its end."""
        ranges = [*reads, *writes] if self.writes else writes
        return any(first < self.last and self.first < last for first, last in ranges)


def barrier_cycles(machine: Machine) -> int:
    """What tiles take to wait for their engines and for each other when nobody is late."""
    timing = machine.timing
    return round(timing.core.join.value + timing.core.join_worker.value + timing.barrier.fixed.value)


@dataclass
class Timeline:
    """Times in ticks from the beginning of the phase; ``sharing``: tiles that use DDR at the same time."""

    machine: Machine
    sharing: float
    core: int = 0
    ddr: int = 0
    link: int = 0
    sent: int = 0
    """When the last copy to another tile is complete."""
    free: dict[Engine, int] = field(default_factory=dict)
    busy: dict[Engine, int] = field(default_factory=dict)
    accesses: list[_Access] = field(default_factory=list)
    """Those that may not have ended yet."""
    starts: dict[Engine, deque[int]] = field(default_factory=dict)
    ddr_bytes: int = 0

    def __post_init__(self) -> None:
        timing, clock = self.machine.timing, self.machine.engines.clock.value
        self._instruction = round(timing.core.instruction.value * TICKS)
        self._issue = round(timing.core.issue.value * TICKS)
        self._send = round(timing.dte.issue.value * TICKS)
        self._join = round((timing.core.join.value + timing.core.join_worker.value) * TICKS)
        self._barrier = round(timing.barrier.fixed.value * TICKS)
        self._ddr_byte = TICKS * clock / self.machine.ddr.nominal.value
        link = min(self.machine.noc.link_out.value, self.machine.noc.link_in.value)
        self._link_byte = TICKS * clock / link

    @property
    def now(self) -> int:
        """When everything so far is complete."""
        return max(self.core, self.sent, *self.free.values(), 0)

    def execute(self, instructions: int) -> None:
        """Instructions of the kernel core."""
        self.core += instructions * self._instruction

    def issue(self, engine: Engine, price: Price, reads: list[Touched], writes: list[Touched]) -> None:
        """An instruction for an engine of the NCC."""
        self.core += self._issue
        queue = self.starts.get(engine)
        if queue is None:
            depth: int = getattr(self.machine.queues, engine.name.lower())
            queue = self.starts[engine] = deque(maxlen=depth)
        if len(queue) == queue.maxlen:
            self.core = max(self.core, queue[0])
        start = max(self.core, self.free.get(engine, 0))
        self.accesses = [access for access in self.accesses if access.end > self.core]
        for access in self.accesses:
            if access.end > start and access.conflicts(reads, writes):
                start = access.end
        end = start + price.ticks
        if price.ddr_bytes:
            self.ddr = max(self.ddr, start) + round(price.ddr_bytes * self.sharing * self._ddr_byte)
            self.ddr_bytes += price.ddr_bytes
            end = max(end, self.ddr)
        queue.append(start)
        self.free[engine] = end
        self.busy[engine] = self.busy.get(engine, 0) + end - start
        self.accesses += [_Access(*touched, end, False) for touched in reads]
        self.accesses += [_Access(*touched, end, True) for touched in writes]

    def send(self, price: Price) -> None:
        """A copy to other tiles: complete when its bytes have left by the link and gone through DDR."""
        self.core += self._send
        start = max(self.core, self.link)
        self.link = start + round(CONTENTION * price.link_bytes * self._link_byte)
        end = self.link + price.ticks
        if price.ddr_bytes:
            self.ddr = max(self.ddr, start) + round(price.ddr_bytes * self.sharing * self._ddr_byte)
            self.ddr_bytes += price.ddr_bytes
            end = max(end, self.ddr)
        self.busy[Engine.DTE] = self.busy.get(Engine.DTE, 0) + end - start
        self.sent = max(self.sent, end)

    def join(self) -> None:
        """ncc.wait."""
        self.core = max(self.core, *self.free.values(), 0) + self._join

    def await_sent(self) -> None:
        """dte.wait."""
        self.core = max(self.core, self.sent) + self._instruction

    def barrier(self) -> None:
        """All tiles are taken to arrive at the same time."""
        self.core += self._barrier

    def snapshot(self) -> dict[Engine, int]:
        return dict(self.busy)

    def skip(self, turns: int, period: int, before: dict[Engine, int], ddr_bytes: int) -> None:
        """As if ``turns`` more turns of a loop had passed, each of ``period`` ticks.

        ``before`` and ``ddr_bytes`` are busy times and bytes one turn ago.
        """
        shift = turns * period
        self.core, self.ddr, self.link = self.core + shift, self.ddr + shift, self.link + shift
        self.sent = self.sent + shift if self.sent else 0
        self.free = {engine: end + shift for engine, end in self.free.items()}
        self.accesses = [access._replace(end=access.end + shift) for access in self.accesses]
        for engine, queue in self.starts.items():
            self.starts[engine] = deque((start + shift for start in queue), maxlen=queue.maxlen)
        for engine, ticks in self.busy.items():
            self.busy[engine] = ticks + turns * (ticks - before.get(engine, 0))
        self.ddr_bytes += turns * (self.ddr_bytes - ddr_bytes)
