"""Simulated time of a run: observes the run, processes the tiles' logs, and gives slices to the sinks.

The emulator executes instructions late and in another order, so time comes only from the logs. When a tile
waits for time, and when logs are long, ``advance`` simulates as far as they allow. The rest is simulated
after the run, on the first question about it. Results do not depend on it, except in programs that read time:
a tile that does waits until the simulation has reached its point.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from weakref import ref

import numpy as np

from emulator import native
from emulator.engines import tables
from emulator.tile.events import Copy, Packet
from emulator.tile.moment import Moment
from emulator.tile.observer import Observer
from emulator.tile.tile import Status, Tile
from tx8isa.cost.instructions import TICKS
from tx8isa.machine.description import Machine
from tx8isa.numbers.primitives import s64

from . import layout
from .chip import SimulationArrays, Solved, read_moment
from .log import Polls, copy_payload, drop, half_full, runs_of_side
from .output import make_batch
from .replay import Replay, TimeRange
from .saved import SimulationState, StandstillError, TimeState, Words
from .simulate import HELD, simulate_kernel
from .slices import Later, Sink, Waiting

_IN_DDR = (layout.SOURCE_IN_DDR, layout.TARGET_IN_DDR)


class Simulator(Observer):
    """Simulated time of one run. ``sinks`` receive every slice; without them only the clocks are kept.

    ``arrays`` are those of an earlier simulation of the same machine; without them new ones are made.
    """

    needs_rounds = False
    may_wait = True
    """True if the rest may be simulated when somebody asks for it."""

    def __init__(
        self,
        tiles: Sequence[Tile],
        machine: Machine,
        sinks: Sequence[Sink] = (),
        arrays: SimulationArrays | None = None,
    ) -> None:
        self.tiles = tiles
        self.sinks = [sink for sink in sinks if not isinstance(sink, TimeRange)]
        self._ranges = [sink for sink in sinks if isinstance(sink, TimeRange)]
        self._ranged = bool(self._ranges)
        self._arrays = arrays = arrays or SimulationArrays(machine)
        arrays.reset()
        self._out, self._heads, self._places = arrays.out, arrays.heads, arrays.places
        self._simulate = simulate_kernel()
        self.logs = arrays.logs_of(tiles)
        self.polls = [Polls() for _ in tiles]
        self.sent, self.carried = self._heads[:, layout.T_SENT], self._heads[:, layout.T_CARRIED]
        """For each tile: messages of copies that it has started, and messages that were carried out."""
        self.arrived = np.zeros((len(tiles), layout.STREAMS), dtype=np.int64)
        """For each tile and stream: copies and packet counter updates that have arrived."""
        self.seen = np.zeros((len(tiles), layout.STREAMS), dtype=np.int64)
        """For each tile and stream: number of these arrivals that the tile's program has waited for."""
        self.tickets = [0] * len(tiles)
        """For each tile: number of its messages to other chips."""
        self._coming: list[list[tuple[int, int]]] = [[] for _ in tiles]
        self._moments: list[Moment | None] = [None] * len(tiles)
        self._known = self._heads[:, layout.T_AT].copy()  # words of the logs between two rounds
        self._over = False
        self._later: ref[Waiting] | None = None
        """The waiting sink. It refers to this simulation, so a run that nobody asks about is released."""
        self._whole = False
        """True if the run is over, no part of it was simulated, and its sinks may wait."""
        self._solved = Solved([])

    @cached_property
    def chip(self) -> Words:
        """The state of the simulation, created when something is simulated.

        ``_places`` are the positions of the tiles in it.
        """
        self._arrays.begin()
        self._attach(self._arrays.chip)
        return self._arrays.chip

    @cached_property
    def _replays(self) -> list[Replay]:
        """The simulations on other machines, created when there is a log; the run does not wait for them."""
        return [Replay(other) for other in self._arrays.others] if self._ranged else []

    # -- actions of the tiles; called by the threads that run them ---------------------------------------

    def waited(self, tile: Tile, worker: int) -> None:
        self._found(tile)
        self.logs[tile.number].append(layout.SEEN, layout.H_POLL, worker=worker)

    def result_read(self, tile: Tile, worker: int) -> None:
        self._found(tile)
        self.logs[tile.number].append(layout.RESULT, layout.H_POLL, worker=worker)

    def polled(self, tile: Tile) -> None:
        log, polls = self.logs[tile.number], self.polls[tile.number]
        if not polls.polling(log.written):
            log.settle()
        polls.in_vain(tile.pc, tile.retired, log.written)

    def _found(self, tile: Tile) -> None:
        """Record that a program's poll has succeeded; its failed polls take no time."""
        log = self.logs[tile.number]
        log.skip(self.polls[tile.number].found(tile.pc, tile.retired, log.written))

    def copy_started(self, tile: Tile, copy: Copy, block: int | None) -> None:
        number = tile.number
        record, fields = -1, []
        if block is None:
            record = tile.detail[0]
            fields = tile.fields(len(tables.records()[record].operands))
        for index, target in enumerate(copy.targets):
            packet = target.packet
            to, stream = target.tile, packet.stream if packet else -1
            source = copy.sources[copy.source_of(index)]
            here = [(source, 0), (target.side, 1)]
            if target.chip is not None:
                to, stream = self._away(tile, target.chip, target.tile)
                del here[1]
            elif packet:
                self._coming[number].append((target.tile, stream))
            last = int(index == len(copy.targets) - 1)
            self.logs[number].append(
                layout.COPY,
                layout.H_NOTHING if index else layout.H_SEND,
                to,
                stream,
                copy.pieces.total,
                sum(_IN_DDR[written] for side, written in here if side.in_ddr),
                last,
                record,
                sum(runs_of_side(copy, side) for side, _ in here),
                len(here),
                len(fields),
                *copy_payload(copy, here, fields),
            )
        self.sent[number] += len(copy.targets)

    def copies_awaited(self, tile: Tile) -> None:
        """``dte.wait`` waits for all copies, a status register that reports done for those carried out."""
        polling = tile.status is not Status.SENDING
        count = self.carried[tile.number] if polling else self.sent[tile.number]
        if polling:
            self._found(tile)
        self.logs[tile.number].append(layout.AWAIT, layout.H_POLL if polling else layout.H_CPI, int(count))

    def update_sent(self, tile: Tile, target: int, packet: Packet, chip: int | None) -> None:
        to, stream = target, packet.stream
        if chip is not None:
            to, stream = self._away(tile, chip, target)
        else:
            self._coming[tile.number].append((target, packet.stream))
        self.logs[tile.number].append(layout.UPDATE, 0, to, stream)

    def _away(self, tile: Tile, chip: int, target: int) -> tuple[int, int]:
        """Return target and stream in the row of a message to a tile of another chip."""
        self.tickets[tile.number] += 1
        away = len(self.tiles) * (1 + chip) + target  # above the numbers of this chip's tiles
        return away, layout.AWAY - (self.tickets[tile.number] - 1)

    def arrival_seen(self, tile: Tile, stream: int) -> None:
        arrived = int(self.arrived[tile.number, stream])
        if arrived > self.seen[tile.number, stream]:  # else the tile still waits for the rest
            self.seen[tile.number, stream] = arrived
            self._found(tile)
            self.logs[tile.number].append(layout.ARRIVAL, layout.H_POLL, stream, arrived)

    def barrier_entered(self, tile: Tile, group: int) -> None:
        self.logs[tile.number].append(layout.BARRIER, 0, s64(group))

    def exited(self, tile: Tile) -> None:
        self.logs[tile.number].append(layout.EXIT)

    def moment(self, tile: Tile, register: bool) -> Moment | None:
        """Return the simulated time at a tile's program counter; None while it is not known.

        Then the tile waits (``Status.TIMING``) and asks again when it continues. ``register``: a register is
        read, not a CSR.
        """
        found = self._moments[tile.number]
        if found is None:
            self.logs[tile.number].append(layout.READ, layout.H_POLL if register else layout.H_CSR)
            tile.status = Status.TIMING
        self._moments[tile.number] = None
        return found

    def interrupted(self, tile: Tile) -> bool:
        """Return True if a full log interrupted a tile's quantum, which has to continue after ``advance``."""
        return self.logs[tile.number].interrupted()

    # -- between rounds ----------------------------------------------------------------------------------

    def round_ended(self, tiles: Sequence[Tile]) -> None:
        for coming in filter(None, self._coming):
            for target, stream in coming:
                self.arrived[target, stream] += 1
            coming.clear()
        self.carried[:] = self.sent
        self.advance()

    def advance(self) -> None:
        """Simulate as far as the logs allow, when a tile waits for time or they are long."""
        self._note_progress()
        waits = any(tile.status is Status.TIMING for tile in self.tiles)
        longest = int(self._heads[:, layout.T_AT].max())
        if not waits and longest <= layout.LOG_PART and not half_full(self._heads):
            self._known = self._heads[:, layout.T_AT].copy()
            return
        self._process()
        while full := half_full(self._heads):
            self._make_room(full[0])
        self._hand_out_moments()

    def _note_progress(self) -> None:
        """Log the progress of the tiles."""
        self._heads[:, layout.T_FULL] = 0
        for tile, log, polls in zip(self.tiles, self.logs, self.polls, strict=True):
            if tile.status is Status.RUNNING and tile.retired > log.noted + 1:
                log.append(layout.PROGRESS, retired=polls.since(log.written, tile.retired))

    def serve_first(self) -> bool:
        """Advance time to the first tile that waits for it, without regard to the work of other tiles.

        False when none waits.
        """
        waiting = [t.number for t in self.tiles if t.status is Status.TIMING]
        if not waiting:
            return False
        first = min(waiting, key=lambda number: int(self.chip[self._places[number] + layout.P_DUE]))
        self._let_pass(first)
        self._process()
        self._hand_out_moments()
        if all(self.tiles[number].status is Status.TIMING for number in waiting):
            raise StandstillError(first, self.cycles)
        return True

    def _make_room(self, number: int) -> None:
        """Process a log that is nearly full, whatever the tiles without log rows may still do."""
        before = int(self._heads[number, layout.T_DROPPED])
        self._let_pass(number)
        self._process()
        if self._heads[number, layout.T_DROPPED] == before:
            raise StandstillError(number, self.cycles)

    def _let_pass(self, number: int) -> None:
        """Let no other tile block this one."""
        self.chip[np.delete(self._places, number) + layout.P_HOLD] = layout.HUGE

    def _work_off(self, words: Words) -> None:
        """Process the logs, which have these numbers of words by tile, as far as possible."""
        self.chip[layout.H_EMIT] = bool(self.sinks)
        self.chip[self._places + layout.P_LOG_END] = words
        while native.call(self._simulate, int(self.chip.ctypes.data)) != HELD:
            self._deliver()

    def _process(self, words: Words | None = None) -> None:
        self._work_off(self._heads[:, layout.T_AT] if words is None else words)
        worked_off = self.chip[self._places + layout.P_LOG_AT]
        for replay in self._replays:
            replay.take([log.rows[:words] for log, words in zip(self.logs, worked_off, strict=True)])
        drop(self.logs, self._heads, worked_off)
        self.chip[self._places + layout.P_LOG_AT] = 0
        self._known = self._heads[:, layout.T_AT].copy()

    def _deliver(self) -> None:
        """Give the sinks the new slices."""
        count = int(self.chip[layout.H_OUT_ROWS])
        self.chip[layout.H_OUT_ROWS] = 0
        if count == 0:
            return
        batch = make_batch(self._out[:count], kept=any(not isinstance(s, Waiting) for s in self.sinks))
        for sink in self.sinks:
            sink.take(batch)

    def _hand_out_moments(self) -> None:
        for tile, place in zip(self.tiles, self._places.tolist(), strict=True):
            if tile.status is Status.TIMING and self.chip[place + layout.P_READS] != 0:
                self.chip[place + layout.P_READS] = 0
                self._moments[tile.number] = read_moment(self.chip[place + layout.P_SNAPSHOT :], tile.workers)
                tile.status = Status.RUNNING

    def run_ended(self, tiles: Sequence[Tile]) -> None:
        """Finish: issued instructions end, and no tile issues any more."""
        self._note_progress()
        last = self.sinks[-1] if self.sinks else None
        waits = len(self.sinks) < 2 and isinstance(last, Waiting | None)
        self._over, self._whole = True, waits and "chip" not in vars(self)
        for wanted in self._ranges:
            self._arrays.expect(wanted, self._find_range)
        self._ranges = []
        if not (waits and self.may_wait):
            self._finish()
        elif isinstance(last, Waiting):
            self.sinks, self._later = [], ref(last)
            self._arrays.expect(last, self._finish)

    def _finish(self, asked: Later | None = None) -> None:
        """Simulate the rest, once, or copy it from an equal run; the logs keep it for other machines."""
        if self._solved.ends:
            return
        if self._later is not None and (waiting := self._later()) is not None:
            self.sinks = [waiting]
        if self._whole and (solved := self._arrays.solved(self.sinks)) is not None:
            self._solved, self.sinks = solved, []
            return
        self.chip[layout.H_OVER] = 1
        self._work_off(self._heads[:, layout.T_AT])
        self._deliver()
        self._solved = Solved(self._ends())
        for sink in self.sinks:
            sink.close(self._solved.ends)
        if self._whole:
            self._arrays.remember(self._solved, self.sinks)
        self.sinks = []

    def _find_range(self, wanted: TimeRange) -> None:
        """Simulate the rest on other machines, once, including waits of stopped tiles."""
        ends, solved = self.ends, self._solved
        if not solved.cycles_of_others:
            for replay in self._replays:
                replay.take([log.rows[: log.used] for log in self.logs], over=True)
            solved.cycles_of_others = [replay.cycles for replay in self._replays]
        wanted.found(max(ends) / TICKS, solved.cycles_of_others, self._arrays.library)

    @property
    def ends(self) -> list[int]:
        """Return the time in ticks at which each tile exited or was stopped; empty before the run is over."""
        if self._over:
            with self._arrays.lock:
                self._finish()
        return self._solved.ends

    @property
    def cycles(self) -> int:
        """Simulated cycles until the last tile was done, so far."""
        return max(self.ends or self._ends()) // TICKS

    def _ends(self) -> list[int]:
        """Return, for each tile, the time until which its core and its engines are known to be busy."""
        chip, places = self.chip, self._places
        ends: list[int] = np.maximum(chip[places + layout.P_CLOCK], chip[places + layout.P_LAST_END]).tolist()
        return ends

    # -- snapshots ---------------------------------------------------------------------------------------

    def save(self) -> TimeState:
        """Return the state of the simulation; no tile may be running.

        Slices that are final go to the sinks first.
        """
        self._process(self._known)
        self._deliver()
        return TimeState(
            run=SimulationState(self.chip.copy(), [log.rows[: log.used].copy() for log in self.logs]),
            logs=[log.save(polls) for log, polls in zip(self.logs, self.polls, strict=True)],
            sent=self.sent.copy(),
            carried=self.carried.copy(),
            arrived=self.arrived.copy(),
            seen=self.seen.copy(),
            moments=list(self._moments),
            coming=[list(coming) for coming in self._coming],
            replays=[replay.save() for replay in self._replays],
        )

    def restore(self, saved: TimeState) -> None:
        """Continue from the state of ``save``, on the same machine."""
        self.chip[:] = saved.run.chip
        self.sent[:], self.carried[:] = saved.sent, saved.carried
        self.arrived[:], self.seen[:] = saved.arrived, saved.seen
        for number, log in enumerate(self.logs):
            log.restore(saved.logs[number], saved.run.rows[number])
            self.polls[number].restore(saved.logs[number])
        self._moments, self._coming = list(saved.moments), [list(coming) for coming in saved.coming]
        for number, replay in enumerate(self._replays):
            if saved.replays:
                replay.restore(saved.replays[number])
            else:
                replay.begin_at(saved.run.chip)
        self._attach(self.chip)

    def _attach(self, chip: Words) -> None:
        """Give the simulation the host addresses that it needs."""
        chip[[layout.H_OUT, layout.H_OUT_SIZE]] = self._out.ctypes.data, layout.OUT_ROWS
        chip[self._places + layout.P_LOG] = [log.rows.ctypes.data for log in self.logs]
