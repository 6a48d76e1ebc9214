"""The state of the simulation for a machine, an array described by ``layout``, and its logs and slices."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import ref

import numpy as np
import numpy.typing as npt

from emulator.engines import tables
from emulator.memory.areas import HostMemoryError, anonymous
from emulator.tile.moment import Moment
from emulator.tile.tile import Tile
from tx8isa.cost import instructions as cost
from tx8isa.cost import rates
from tx8isa.machine.description import Machine
from tx8isa.machine.ends import End, at_end
from tx8isa.records.record import Engine

from . import layout
from .efforts import effort_kernel
from .log import TileLog, has_hints, log_kernel
from .slices import Later, Repeatable, Sink, Waiting

Words = npt.NDArray[np.int64]
MOST_FLOWS_OF_A_TILE = 2 + layout.MOST_MESSAGES
"""RDMA, WDMA and messages."""
MOST_KEPT = 1 << 22
"""The most words of all logs of a run that are kept for comparison with later runs."""


def reuses_time() -> bool:
    """Return True if runs with equal logs are simulated once: not with ``TX8_REUSE_TIME=0``."""
    return os.environ.get("TX8_REUSE_TIME") != "0"


@dataclass
class Solved:
    """Findings of simulations of a run, which hold for every run with the same logs."""

    ends: list[int]
    """By tile, the time in ticks at which it exited or was stopped; empty before that is known."""
    found: Repeatable | None = None
    """The findings of the sink that received the slices; None if no sink has asked for them."""
    cycles_of_others: Sequence[float] = ()
    """Cycles on each of ``others``; empty until somebody asks."""


class SimulationArrays:
    """The arrays that the simulation of one chip works on, for one ``Simulator`` at a time.

    They are allocated once and reset for every run. Allocating them takes as long as half of a small
    program's run, mostly because the host supplies their pages one by one.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine, self.costs = machine, tables.costs(machine)
        self._at_rest = make_chip(machine)
        self.chip: Words = self._at_rest.copy()
        """The state of the simulation."""
        self.places = tile_places(self.chip)
        """Positions of the tiles in it."""
        self.out: Words = np.zeros((layout.OUT_ROWS, layout.OUT_WORDS), dtype=np.int64)
        """Slices that no sink has received yet."""
        self.heads: Words = np.zeros((machine.tiles, layout.T_WORDS), dtype=np.int64)
        """The heads of the tiles' logs."""
        self.rows = [_log_rows() for _ in range(machine.tiles)]
        """The rows of the tiles' logs."""
        self._logs: list[TileLog] = []
        self._empty = self.heads
        """The heads of empty logs."""
        self.library = False
        """True if the code of the logs' tiles contains the library for C."""
        self.lock = threading.RLock()
        """Held by the thread that simulates the rest of a run."""
        self._expected: list[ref[Later]] = []
        self._solved: Solved | None = None
        self._kept: Words = np.empty(0, dtype=np.int64)
        """The logs of ``_solved``, tile by tile; never shrinks."""
        self._used: list[int] = []
        """The words of each of these logs."""

    def expect(self, later: Later, find: Callable[[Any], None]) -> None:
        """Register a finding about the arrays, which is computed before their reset if it is still
        referenced."""
        later.expect(find, self.lock)
        self._expected.append(ref(later))

    def reset(self) -> None:
        """Compute the pending findings about the last run, before the arrays are used again."""
        with self.lock:
            for expected in self._expected:
                if (later := expected()) is not None:
                    later.settle()
            self._expected.clear()

    def solved(self, sinks: Sequence[Sink]) -> Solved | None:
        """Return the remembered facts about the run, if its logs are those of the run that was remembered.

        The sinks take over the findings of that run's sinks; None if one of them cannot.
        """
        known = self._solved
        if known is None or self._used != self.heads[:, layout.T_AT].tolist() or not reuses_time():
            return None
        same = all(np.array_equal(kept, rows) for kept, rows in self._pairs())
        repeated = same and all(isinstance(sink, Waiting) and sink.repeat(known.found) for sink in sinks)
        return known if repeated else None

    def remember(self, solved: Solved, sinks: Sequence[Sink]) -> None:
        """Keep the logs of a run, unless they are long, and the findings about the complete run.

        ``sinks`` have received the slices.
        """
        self._solved, self._used = None, self.heads[:, layout.T_AT].tolist()
        size = sum(self._used)
        if size > MOST_KEPT or not reuses_time():
            return
        if size > self._kept.size:
            self._kept = np.empty(size, dtype=np.int64)
        for kept, rows in self._pairs():
            kept[:] = rows
        solved.found = next((sink.findings() for sink in sinks if isinstance(sink, Waiting)), None)
        self._solved = solved

    def _pairs(self) -> Iterator[tuple[Words, Words]]:
        """Yield for each tile the kept words of its log, and its log."""
        first = 0
        for rows, size in zip(self.rows, self._used, strict=True):
            yield self._kept[first : first + size], rows[:size]
            first += size

    def begin(self) -> None:
        """Put the state at rest at time 0."""
        self.chip[:] = self._at_rest

    def logs_of(self, tiles: Sequence[Tile]) -> list[TileLog]:
        """Return the tiles' empty logs, which call the hook; for the same tiles as before their old logs."""
        if not self._logs or self._logs[0].tile is not tiles[0]:
            hook, effort = log_kernel(), effort_kernel()
            library = self.machine.timing.issue.flow == "c-runtime"
            parts = zip(tiles, self.heads, self.rows, strict=True)
            self.heads[:] = 0
            self._logs = [TileLog(tile, head, rows, self.costs, effort) for tile, head, rows in parts]
            self._empty, self.library = self.heads.copy(), has_hints(tiles)
            for log in self._logs:
                log.watch(hook, library)
        self.heads[:] = self._empty
        for log in self._logs:
            log.begin()
        return self._logs

    @cached_property
    def others(self) -> tuple[OtherPrices, ...]:
        """Return the arrays of simulations on ``others`` of the machine."""
        return tuple(OtherPrices(other) for other in others(self.machine))


def others(machine: Machine) -> tuple[Machine, ...]:
    """Return the machines on which a run's logs are simulated too, if its range is asked for.

    At the least and the most time; and with the submissions of the C runtime, unless the machine has them.
    """
    ends = at_end(machine, End.LEAST), at_end(machine, End.MOST)
    by_runtime = machine.issued_by("c-runtime")
    return ends if by_runtime == machine else (*ends, by_runtime)


class OtherPrices:
    """The arrays of a simulation with other figures of time than the run's."""

    def __init__(self, machine: Machine) -> None:
        self.costs = tables.costs(machine)
        self._at_rest = make_chip(machine)
        self.chip: Words = self._at_rest.copy()
        """The state of the simulation."""

    def reset(self) -> None:
        """Put everything at rest at time 0."""
        self.chip[:] = self._at_rest


def _log_rows() -> Words:
    """Return room for the rows of a log."""
    size = 8 * layout.LOG_WORDS
    area = anonymous(size)
    if area is None:
        raise HostMemoryError(f"the host refuses {size} bytes for the log of simulated time")
    return area.view(np.int64)


def make_chip(machine: Machine) -> Words:
    """Return a state with everything at rest at time 0; host addresses are still missing."""
    tiles, workers = machine.tiles, machine.tile.workers
    size = layout.P_QUEUES + workers * layout.WORKER_WORDS
    links = layout.HEADER
    flows = links + tiles * layout.LINKS
    first = flows + tiles * MOST_FLOWS_OF_A_TILE * layout.FLOW_WORDS
    chip = np.zeros(first + tiles * size, dtype=np.int64)
    chip[[layout.H_TILES, layout.H_TILE_WORDS, layout.H_WORKERS]] = tiles, size, workers
    chip[[layout.H_LINKS, layout.H_FLOW_AT, layout.H_TILE_AT]] = links, flows, first
    chip[layout.H_DDR_NEXT] = layout.HUGE
    _set_coefficients(chip, machine)
    for number in range(tiles):
        _rest(chip[first + number * size :][:size], number)
    return chip


def _set_coefficients(chip: Words, machine: Machine) -> None:
    timing, ddr = machine.timing, cost.ddr_prices(machine)
    for place, cycles in (
        (layout.H_CPI, timing.core.instruction),
        (layout.H_BARRIER, timing.barrier.fixed),
        (layout.H_DTE_FIXED, timing.dte.fixed),
        (layout.H_DTE_FIRST, timing.dte.first),
        (layout.H_HOP, timing.dte.hop),
        (layout.H_PROGRAM, timing.core.program),
        (layout.H_POLL, timing.core.register_read),
        (layout.H_CSR, timing.core.csr_read),
        (layout.H_SEND, timing.dte.issue),
    ):
        chip[place] = cost.ticks(cycles.value)
    chip[layout.H_JOIN] = cost.ticks(timing.core.join.value + timing.core.join_worker.value)
    chip[layout.H_LINK] = max(round(rates.link_rate(machine) * layout.KILO), 1)
    chip[[layout.H_DDR_BYTE, layout.H_DDR_RUN]] = ddr.byte, ddr.run
    chip[layout.H_COLLISION] = round(timing.spm.collision.value * layout.MILLION)
    chip[layout.H_ROWS] = machine.grid.y
    for engine in (Engine.CT, Engine.NE, Engine.RDMA, Engine.WDMA, Engine.TDMA):
        chip[layout.H_DEPTH + engine] = getattr(machine.queues, engine.name.lower())
    for engine in (Engine.CT, Engine.NE, Engine.RDMA, Engine.WDMA, Engine.TDMA, Engine.SCALAR):
        chip[layout.H_ISSUE + engine] = cost.ticks(timing.issue.of(engine.name.lower()).value)
    chip[layout.H_EFFORT :][: layout.EFFORTS] = _efforts(machine)


def _efforts(machine: Machine) -> list[int]:
    """Return ticks of each unit in an EFFORT row; an instruction's own are counted with all others."""
    core, kind = machine.timing.core, machine.timing.issue.kind
    first = [cost.ticks(figure.value) for figure in (core.line, kind)]
    longer = (core.load, core.uncached_load, core.divide, core.cache_line, core.cache)
    return first + [cost.ticks(max(figure.value - core.instruction.value, 0)) for figure in longer]


def tile_places(chip: Words) -> Words:
    """Return the positions of the tiles in the state."""
    numbers = np.arange(chip[layout.H_TILES], dtype=np.int64)
    places: Words = chip[layout.H_TILE_AT] + numbers * chip[layout.H_TILE_WORDS]
    return places


def _rest(tile: Words, number: int) -> None:
    """A tile whose log is empty."""
    tile[layout.P_TILE], tile[layout.P_CORE], tile[layout.P_PATH_HOLDER] = number, layout.STARVED, -1
    tile[[layout.P_NEXT, layout.P_DUE, layout.P_MESSAGE_NEXT]] = layout.HUGE
    engines = tile[layout.P_ENGINES : layout.P_ARRIVED].reshape(-1, layout.ENGINE_WORDS)
    engines[:, layout.E_EVENT] = layout.HUGE
    messages = tile[layout.P_COPIES : layout.P_SCALAR].reshape(-1, layout.MESSAGE_WORDS)
    messages[:, layout.M_EVENT] = layout.HUGE


def read_moment(snapshot: Words, workers: int) -> Moment:
    """Return the moment in a tile's words at ``P_SNAPSHOT``."""
    busy = snapshot[1 : 1 + layout.UNITS].copy()
    blocked = snapshot[1 + layout.UNITS :][: workers * layout.BLOCKED_UNITS].copy()
    return Moment(int(snapshot[0]), busy, blocked.reshape(workers, layout.BLOCKED_UNITS))
