"""One of several chips, whose behaviour depends only on its program and the messages that reach it.

Simulated time orders everything between chips. A chip runs a round of its tiles. Then it advances time as
long as no tile holds it back and no other chip may still send something (``bound``). Messages from others
take effect at their time, before the next round. A tile whose polls fail repeatedly does not hold back time;
it continues only when something arrives. So the order of rounds and messages, and their times, do not depend
on how far the other chips are or where they are emulated.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from heapq import heappop, heappush
from typing import NamedTuple, Unpack

import numpy as np

from asm.image import Image
from emulator.chip.memories import Memories
from emulator.chip.options import RunOptions
from emulator.chip.system import System
from emulator.memory import state
from emulator.memory.areas import GRANULE_SHIFT, Bytes
from emulator.tile.events import Pieces, Side
from emulator.tile.fault import Fault, FaultKind
from emulator.tile.tile import Status
from emulator.timing.layout import HUGE
from emulator.timing.slices import Sink
from tx8isa.machine.chips import CARD_TABLE, Chips
from tx8isa.machine.description import Machine

from .card_table import card_table
from .departures import Departures
from .linked_time import LinkedSimulator
from .links import ChipLinks, Hop, Passage, rates
from .messages import Message, Receipt, RemoteCopy, RemoteUpdate, Sent

_NOTHING = Pieces(0)
_COPY, _UPDATE, _RECEIPT = range(3)
"""Order in which messages of the same arrival time take effect."""


class Failure(NamedTuple):
    """A fault of a chip. A run ends with the least of all."""

    time: int
    """The beginning of the round in which it happened; the chip does nothing more."""
    chip: int
    text: str
    kind: FaultKind

    @property
    def fault(self) -> Fault:
        """The fault that ends the run."""
        return Fault(self.text, self.kind)


class Outgoing(NamedTuple):
    """The messages that leave a chip in one step."""

    hops: list[tuple[Hop, Passage]]
    receipts: list[tuple[Receipt, int]]
    """Receipts, with their arrival times."""
    worked: bool
    """True if anything has happened."""


class LinkedChip(System):
    """A chip with links to others. ``memories`` are its own."""

    def __init__(
        self,
        image: Image,
        machine: Machine,
        chips: Chips,
        number: int,
        memories: Memories,
        **options: Unpack[RunOptions],
    ) -> None:
        timed: RunOptions = {**options, "timed": True}
        super().__init__(image, machine, memories=memories, number=number, **timed)
        assert isinstance(self.simulator, LinkedSimulator)
        self.time = self.simulator
        self.chips = chips
        self.links = ChipLinks(number, chips, rates(machine, chips))
        self.departures = Departures(
            number, chips, self.traffic.dte, self.time, self.observers, self.sanitizer, self.field_run
        )
        self.traffic.port = self.departures
        self.rounds = 0
        self.failure: Failure | None = None
        self._coming: list[tuple[int, int, int, int, int, Message]] = []
        """Time, kind and origin of messages that will take effect here, and the message."""
        self._load_table()
        self._disable_bad_tiles()

    def _make_simulator(self, sinks: Sequence[Sink]) -> LinkedSimulator:
        simulator = LinkedSimulator(self.tiles, self.machine, sinks, self.memories.simulation)
        self.observers.append(simulator)
        return simulator

    def _load_table(self) -> None:
        table = card_table(self.machine, self.chips)
        at = CARD_TABLE - self.machine.windows.ddr_cached
        self.memories.ddr[at : at + len(table)] = np.frombuffer(table, dtype=np.uint8)
        self.memories.ddr_area.mark(at, len(table))
        if self.sanitizer:
            self.sanitizer.loaded(at, len(table))

    def _disable_bad_tiles(self) -> None:
        good = self.chips.good_tiles(self.number, self.machine.tiles)
        self.traffic.everyone = good
        bad = [tile for tile in self.tiles if not good >> tile.number & 1]
        for tile in bad:
            tile.status = Status.EXITED
        self.time.let_pass(tile.number for tile in bad)

    # -- messages ----------------------------------------------------------------------------------------

    def receive(self, hop: Hop) -> None:
        """Take a message that has passed a link to this chip."""
        if hop.message.chip != self.number:
            self.links.pass_on(hop)
            return
        kind = _COPY if isinstance(hop.message, RemoteCopy) else _UPDATE
        time = hop.time + self.links.rates.ticks(hop.message.size)
        heappush(self._coming, (time, kind, *hop.message.origin, hop.message))

    def confirm(self, receipt: Receipt, time: int) -> None:
        """Take a receipt that arrives at a time."""
        heappush(self._coming, (time, _RECEIPT, *receipt.origin, receipt))

    @property
    def _next_coming(self) -> int:
        return self._coming[0][0] if self._coming else HUGE

    # -- advancing ---------------------------------------------------------------------------------------

    @property
    def promise(self) -> int:
        """Return the promise (lookahead): until then the chip sends nothing unless something reaches it."""
        if self.failure:
            return self.failure.time
        return min(self._settled, self.links.next_time)

    @property
    def next_leaving(self) -> int:
        """Return the time before which the chip sends nothing over a link unless it runs another round."""
        return min(self.time.next_departure, self.links.next_time)

    @property
    def _settled(self) -> int:
        """Return the time before which no further message from this chip reaches a link."""
        time = self.time
        return min(time.next_deed, time.next_turn, time.next_departure, self._next_coming)

    @property
    def over(self) -> bool:
        """Return True if all tiles have exited and no message or copy is under way here."""
        exited = all(tile.status is Status.EXITED for tile in self.tiles)
        return exited and min(self.promise, self.time.next_event) == HUGE

    @property
    def polls(self) -> bool:
        """Return True if a tile polls repeatedly."""
        return any(tile.status is Status.RUNNING for tile in self.tiles)

    def step(self, bound: int, limit: int) -> Outgoing:
        """Advance by at most one round, but only to a point where no message after ``bound`` could change
        anything."""
        if self.failure:
            return Outgoing([], [], False)
        before = self.rounds, self.time.now, self.time.next_event, self.promise
        self.time.reach(min(bound, self._next_coming))
        for departure in self.time.departures():
            self.links.leave(self.departures.depart(departure), departure.time)
        hops = list(self.links.forward(min(bound, self._settled)))
        receipts = self._take_what_is_due(bound)
        if receipts is not None:
            self.run_round(limit)
        elif self.time.next_deed <= bound and self.time.next_deed < HUGE:
            self.time.now = self.time.next_deed
            self.run_round(limit)
        after = self.rounds, self.time.now, self.time.next_event, self.promise
        return Outgoing(hops, receipts or [], bool(hops) or before != after)

    def _take_what_is_due(self, bound: int) -> list[tuple[Receipt, int]] | None:
        """Apply the next messages, all of one time; return their receipts with arrival times.

        None if no message is due before other chips may send one, or before a tile may act.
        """
        due = self._next_coming
        if due >= min(bound, self.time.next_deed):
            return None
        self.time.now = due
        receipts: list[tuple[Receipt, int]] = []
        with self._failing():
            while self._next_coming == due:
                receipts += self._take(heappop(self._coming)[-1])
        return receipts

    def _take(self, message: Message) -> list[tuple[Receipt, int]]:
        """Apply a message now; return the receipt of a copy, and its arrival time."""
        if isinstance(message, Receipt):
            self.departures.confirm(message)
            sender = self.tiles[message.origin.tile]
            if sender.status is Status.SENDING and not self.departures.awaits(sender):
                sender.status = Status.RUNNING
            return []
        if isinstance(message, RemoteUpdate):
            update = message.update
            update.arrive(self.traffic.dte.streams)
            self._note(message, update.target, update.packet.stream, _NOTHING, None)
            return []
        target, packet = message.target, message.target.packet
        arrived = self.traffic.dte.accept(target, message.pieces, message.data)
        if arrived:
            stream = -1 if packet is None else packet.stream
            self._note(message, target.tile, stream, message.pieces, target.side)
            if self.field_run:
                self.field_run.arrived(target, message.pieces, message.elements)
        way = self.chips.distance(self.number, message.origin.chip) * self.links.rates.latency
        return [(Receipt(message.origin, not arrived), self.time.now + way)]

    def _note(self, message: Sent, tile: int, stream: int, pieces: Pieces, side: Side | None) -> None:
        """Notify observers that a message has arrived, as ``Sanitizer.came_from_afar``."""
        if self.sanitizer and message.stamp is not None:
            self.sanitizer.came_from_afar(message.stamp, tile, stream, pieces, side)
        if stream >= 0:
            self.time.arrived_from_afar(tile, stream)

    # -- rounds ------------------------------------------------------------------------------------------

    def run_round(self, limit: int) -> None:
        """Run a round of the tiles that can run, unless the chip has failed; a fault makes it fail."""
        if not self.failure:
            with self._failing():
                self._run_round(limit)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Let a fault inside the block end this chip; the others advance to the same time."""
        try:
            yield
        except Fault as fault:
            text = f"chip {self.number}: {fault}"
            self.failure = Failure(self.time.now, self.number, text, fault.kind)

    def _run_round(self, limit: int) -> None:
        runnable = [t for t in self.tiles if t.status is Status.RUNNING and not self.time.is_full(t)]
        quanta = {tile.number: self.quantum_end(tile, limit) for tile in runnable}
        pool, scratch = self.memories.thread_pool, self.memories.scratch(self.threads)
        faults = self._run_quanta(pool, scratch, runnable, quanta, limit)
        moved = self._end_quanta(faults)
        self.rounds += 1
        fullest, repeats = self.time.fullest(), not moved and self._repeats()
        if fullest is not None:
            passing = [tile for tile in self.tiles if tile.number != fullest]
        else:
            passing = [tile for tile in runnable if not moved and (repeats or self.time.only_polls(tile))]
        self.time.let_pass(tile.number for tile in passing)

    def _make_room(self) -> bool:
        """Let tiles with full logs continue in another round: time passes between rounds only."""
        return False

    # -- standing still ----------------------------------------------------------------------------------

    def registers(self) -> bytes:
        """Return a digest of the tiles' state except memory and counts of instructions."""
        digest = hashlib.sha256()
        for tile in self.tiles:
            words = tile.words
            digest.update(words[state.X : state.X + 32].tobytes() + words[state.F : state.FCSR + 1].tobytes())
            digest.update(words[[state.PC, state.RANDOM]].tobytes() + tile.window.tobytes())
            digest.update(repr((tile.status, sorted(tile.csrs.items()), sorted(tile.pmu.items()))).encode())
        return digest.digest()

    def memory(self) -> bytes:
        """Return a digest of all memory that was ever written."""
        digest = hashlib.sha256()
        for area in self._written():
            digest.update(area.data)
        return digest.digest()

    def _written(self) -> Iterator[Bytes]:
        for tile in self.tiles:
            for first, end in tile.spm.written():
                yield tile.spm.data[first:end]
        for granule in np.flatnonzero(self.memories.ddr_area.marks).tolist():
            yield self.ddr[granule << GRANULE_SHIFT : granule + 1 << GRANULE_SHIFT]
