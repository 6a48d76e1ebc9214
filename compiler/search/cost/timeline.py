"""Simulates a tile's engines: instructions overlap as far as queues and dependences allow.

The core issues instructions in order, and each engine executes its queue in order. An instruction waits for
older ones that write its operands or access its results. All tiles that have work share DDR evenly. So a
transfer takes the time that its engine needs, or the time of its share of DDR if that is longer.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from compiler.codegen.slices.rates import CONTENTION, CONTENTION_OF_FEW
from tx8isa.cost.instructions import TICKS
from tx8isa.machine.description import Machine
from tx8isa.records.record import Engine

from .kinds import Shares
from .pricing import Price

_ISSUED = (Engine.CT, Engine.NE, Engine.RDMA, Engine.WDMA, Engine.TDMA, Engine.SCALAR)
"""The engines that the core submits instructions to."""

CODE_LINE_BYTES = 64
"""Bytes of a line of code, whose first execution takes longer."""

ByteRange = tuple[int, int]
"""A range of the scratchpad: its first byte, and the first byte after it."""


class _Access(NamedTuple):
    """A range that an instruction reads or writes, and the time at which the instruction ends."""

    first: int
    last: int
    end: int
    writes: bool

    def conflicts(self, reads: list[ByteRange], writes: list[ByteRange]) -> bool:
        """True if a younger instruction with these ranges has to wait for the end of this access.

        The emulator has the same rule in compiled code, ``share_bytes`` in ``emulator/engines/queues.py``.
        The compiler may not import it, so a test compares both.
        """
        ranges = [*reads, *writes] if self.writes else writes
        return any(first < self.last and self.first < last for first, last in ranges)


class _Mark(NamedTuple):
    """The state where the iteration of a loop begins: times, busy times of the engines, and bytes of DDR."""

    now: int
    worked: int
    busy: dict[Engine, int]
    ddr_bytes: int


def barrier_cycles(machine: Machine) -> int:
    """Cycles of a barrier at which all tiles arrive together, with the wait for the engines before it."""
    timing = machine.timing
    return round(timing.core.join.value + timing.core.join_worker.value + timing.barrier.fixed.value)


@dataclass
class Timeline:
    """The state of a tile while instructions are issued; times are ticks from the beginning of the phase."""

    machine: Machine
    sharing: float
    """Number of tiles that use DDR at the same time, on average."""
    core: int = 0
    """Time at which the core is free."""
    worked: int = 0
    """Time that the core has worked, not waited."""
    ddr: int = 0
    """Time at which DDR becomes free for this tile."""
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """Earlier times at which DDR is free: loads need not wait for stores issued before that begin later."""
    link: int = 0
    """Time at which the link to the mesh is free."""
    sent: int = 0
    """Time at which the last copy to another tile is complete."""
    free: dict[Engine, int] = field(default_factory=dict)
    """Time at which each engine is free."""
    busy: dict[Engine, int] = field(default_factory=dict)
    """Busy time of each engine."""
    complete: dict[int, int] = field(default_factory=dict)
    """Time at which the instructions of each worker are complete."""
    accesses: list[_Access] = field(default_factory=list)
    """Accesses that may not have ended yet."""
    starts: dict[Engine, deque[int]] = field(default_factory=dict)
    """Times at which the instructions in each queue start, as many as the queue holds."""
    ddr_bytes: int = 0
    """Bytes that this tile has moved to and from DDR."""
    ahead: int = 0
    """Time of the first barrier, if the tile only loads constants before."""
    kinds: Shares = field(default_factory=dict)
    """The phase's shares in the price of the first command of each kind."""
    first: int = 0
    """Extra time of the first copy to another tile, if no phase before has copied."""
    _marks: list[_Mark] = field(default_factory=list)
    """The beginnings of the iterations that are repeated."""

    def __post_init__(self) -> None:
        timing, clock = self.machine.timing, self.machine.engines.clock.value
        self._instruction = round(timing.core.instruction.value * TICKS)
        self._issue = {
            engine: round(timing.issue.of(engine.name.lower()).value * TICKS) for engine in _ISSUED
        }
        self._kind = timing.issue.kind.value * TICKS
        self._line = round(timing.core.line.value * TICKS)
        self._send = round(timing.dte.issue.value * TICKS)
        self._join = round((timing.core.join.value + timing.core.join_worker.value) * TICKS)
        self._barrier = round(timing.barrier.fixed.value * TICKS)
        link = min(self.machine.noc.link_out.value, self.machine.noc.link_in.value)
        self._link_byte = TICKS * clock / link

    @property
    def now(self) -> int:
        """Time at which all instructions so far are complete."""
        return max(self.core, self.sent, *self.free.values(), 0)

    def _work(self, ticks: int) -> None:
        """Let the core work; waits for a full queue or for engines are not counted as work."""
        self.core += ticks
        self.worked += ticks

    def execute(self, instructions: int) -> None:
        """Execute instructions of the kernel core."""
        self._work(instructions * self._instruction)

    def maintain(self, times: int) -> None:
        """Clean or invalidate the whole cache of the core."""
        self._work(round(times * self.machine.timing.core.cache.value * TICKS))

    def fetch(self, size: int) -> None:
        """Come to ``size`` bytes of code for the first time."""
        self._work(size * self._line // CODE_LINE_BYTES)

    def meet(self, kind: str) -> None:
        """Come to the first command of a kind in the phase."""
        self._work(round(self.kinds.get(kind, 0.0) * self._kind))

    def issue(
        self, engine: Engine, price: Price, reads: list[ByteRange], writes: list[ByteRange], worker: int = 0
    ) -> None:
        """Issue an instruction to an engine of the NCC."""
        self._work(self._issue[engine])
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
            end = max(end, self._moved(start, round(price.ddr_ticks * self.sharing)))
            self.ddr_bytes += price.ddr_bytes
        queue.append(start)
        self.free[engine] = end
        self.complete[worker] = max(self.complete.get(worker, 0), end)
        self.busy[engine] = self.busy.get(engine, 0) + end - start
        self.accesses += [_Access(*byte_range, end, False) for byte_range in reads]
        self.accesses += [_Access(*byte_range, end, True) for byte_range in writes]

    def send(self, price: Price, senders: int | None = None) -> None:
        """Copy to other tiles: complete when the bytes have left by the link, and have been read from DDR if
        they come from there.

        ``senders``: number of tiles that send to the same few targets; None if each team sends to itself.
        """
        self._work(self._send)
        start = max(self.core, self.link)
        contended = CONTENTION * price.link_bytes
        if senders is not None:
            contended = CONTENTION_OF_FEW * (price.link_bytes + senders * price.target_bytes) / 2
        self.link = start + round(contended * self._link_byte)
        end = self.link + price.ticks + self.first
        self.first = 0
        if price.ddr_bytes:
            end = max(end, self._moved(start, round(price.ddr_ticks * self.sharing)))
            self.ddr_bytes += price.ddr_bytes
        self.busy[Engine.DTE] = self.busy.get(Engine.DTE, 0) + end - start
        self.sent = max(self.sent, end)

    def _moved(self, start: int, ticks: int) -> int:
        """The end of a transfer that begins at ``start`` or later and takes ``ticks`` of DDR."""
        begin = max(self.ddr, start)
        idle = [*self.gaps, (self.ddr, begin + ticks)]
        self.gaps, end = [], start
        for first, last in idle:
            begin = max(first, start)
            used = min(last - begin, ticks)
            if used > 0:
                ticks, end = ticks - used, begin + used
                self.gaps += [(first, begin), (end, last)]
            else:
                self.gaps.append((first, last))
        self.ddr = max(self.ddr, end)
        self.gaps = [(a, b) for a, b in self.gaps if self.core < b <= self.ddr and a < b]
        return end

    def join(self, worker: int = 0) -> None:
        """Execute ncc.wait: wait for the instructions of a worker."""
        self.core = max(self.core, self.complete.get(worker, 0)) + self._join

    def await_sent(self) -> None:
        """Execute dte.wait: wait for the copies to other tiles."""
        self.core = max(self.core, self.sent) + self._instruction

    def barrier(self) -> None:
        """Execute ncc.barrier; all tiles are assumed to arrive at the same time."""
        self._work(self._barrier)

    def mark(self) -> None:
        """Record the begin of the iteration of a loop that ``repeat`` ends."""
        self._marks.append(_Mark(self.now, self.worked, dict(self.busy), self.ddr_bytes))

    def repeat(self, turns: int, like: int) -> None:
        """Advance as if ``turns`` more iterations like the ``like`` ones since the last mark had been
        executed.

        An iteration takes at least as long as the core and each engine work in it, even if another engine is
        still busy with instructions before the loop.
        """
        begin = self._marks.pop()
        more = {
            engine: turns * (ticks - begin.busy.get(engine, 0)) // like for engine, ticks in self.busy.items()
        }
        worked = turns * (self.worked - begin.worked) // like
        last = max(self.core + worked, *(self.free[engine] + more[engine] for engine in self.free), 0)
        shift = max(turns * (self.now - begin.now) // like, last - self.now)
        self.core, self.ddr, self.link = self.core + shift, self.ddr + shift, self.link + shift
        self.gaps = [(first + shift, last + shift) for first, last in self.gaps]
        self.sent = self.sent + shift if self.sent else 0
        self.free = {engine: end + shift for engine, end in self.free.items()}
        self.complete = {worker: end + shift for worker, end in self.complete.items()}
        self.accesses = [access._replace(end=access.end + shift) for access in self.accesses]
        for engine, queue in self.starts.items():
            self.starts[engine] = deque((start + shift for start in queue), maxlen=queue.maxlen)
        for engine, ticks in more.items():
            self.busy[engine] += ticks
        self.worked += worked
        self.ddr_bytes += turns * (self.ddr_bytes - begin.ddr_bytes) // like
