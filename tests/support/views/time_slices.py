"""Random slices in the form of a simulation: consistent, though of no real program.

Consistent slices obey these rules. On one tile and track only the targets of one copy overlap. An engine
takes the instructions of a worker in program order. An instruction starts when it has been issued, its engine
is free and its blocker has ended. ``blocked`` is the time for which the blocker delayed it. The core waits
for something that ends when the wait ends. All tiles leave a barrier together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random

import numpy as np
import numpy.typing as npt

from asm.image import Image, ddr_windows
from emulator.engines import queues, tables
from emulator.timing.slices import MOST_RANGES, SLICE, TICKS, Batch, Cause, Track
from record_operands import Case, draw
from tx8isa.machine.description import load_machine
from tx8isa.numbers.formats import Format
from tx8isa.records.record import Engine

BASE = 0x8000_0000
_MNEMONICS = (
    "ct.add.vv",
    "ct.mul.vv",
    "ct.exp.v",
    "ne.gemm",
    "rdma",
    "rdma",
    "wdma",
    "td.memset",
    "td.gatherscatter",
    "td.transpose",
    "sc.sqrt",
    "dte.unicast",
    "dte.broadcast",
    "dte.rdma",
)
_DEPTH = {Track.CT: 6, Track.NE: 6, Track.RDMA: 6, Track.WDMA: 6, Track.TDMA: 4}
_STRETCH = {
    Track.CT: Cause.BANK,
    Track.NE: Cause.BANK,
    Track.TDMA: Cause.BANK,
    Track.RDMA: Cause.DDR,
    Track.WDMA: Cause.DDR,
    Track.DTE: Cause.NOC,
}
_WAITS = (Cause.DEPENDENCY, Cause.DTE, Cause.ARRIVAL)


@dataclass
class Static:
    """One instruction of the program's text."""

    pc: int
    number: int  # of the record
    case: Case
    ranges: list[list[int]]
    row: tuple[int, int, int, int, int]  # SPM and DDR bytes read and written, operations

    @property
    def track(self) -> Track:
        return Track(self.case.record.engine)


@dataclass
class _Tile:
    """The progress of one tile; times are ticks."""

    number: int
    clock: int = 0
    issued: int = 0
    free: dict[Track, int] = field(default_factory=dict)
    queued: dict[Track, list[int]] = field(default_factory=dict)
    recent: list[tuple[int, int]] = field(default_factory=list)  # (number, end) of the latest instructions


class Slices:
    """Slices of a random program: ``batches`` yields them, ``ends`` are the tiles' ends afterwards.

    ``image`` has lines and nodes for all the program counters, and no text.
    """

    def __init__(
        self,
        seed: int = 0,
        tiles: int = 4,
        instructions: int = 60,
        phases: int = 4,
        text: int = 40,
        nodes: int = 5,
    ) -> None:
        self._rng = Random(seed)
        self._phases, self._instructions, self._nodes = phases, instructions, nodes
        self.text = [self._static(BASE + 8 * i) for i in range(text)]
        self._tiles = [_Tile(number) for number in range(tiles)]
        self._rows: list[tuple[int, ...]] = []
        self._operands: list[Static | None] = []

    @property
    def ends(self) -> list[int]:
        return [tile.clock for tile in self._tiles]

    @cached_property
    def image(self) -> Image:
        each = -(-len(self.text) // self._nodes)
        nodes = {s.pc: f"node{i // each}" for i, s in enumerate(self.text)}
        lines = {s.pc: ("prog.s", 10 + i) for i, s in enumerate(self.text)}
        machine = load_machine(None)
        return Image(
            entry=BASE,
            segments=(),
            nodes=nodes,
            lines=lines,
            machine=machine.name,
            windows=ddr_windows(machine),
        )

    def batches(self) -> Iterator[Batch]:
        """One batch for each stretch of the program between two barriers."""
        for phase in range(self._phases):
            begin = len(self.text) * phase // self._phases
            end = max(len(self.text) * (phase + 1) // self._phases, begin + 1)
            for tile in self._tiles:
                for _ in range(self._instructions):
                    self._step(tile, self.text[self._rng.randrange(begin, end)])
                last = max(tile.recent, key=lambda known: known[1])
                self._core(tile, self.text[end - 1].pc, Cause.DEPENDENCY, max(tile.free.values()), last[0])
            self._barrier()
            yield self._batch()

    # -- the program's text ----------------------------------------------------------------------------

    def _static(self, pc: int) -> Static:
        number = tables.numbers()[self._rng.choice(_MNEMONICS)]
        record = tables.records()[number]
        case = None
        while case is None:
            fmt = Format[self._rng.choice(record.formats).name] if record.formats else None
            case = draw(record, fmt, self._rng.randint(1, 300), self._rng)
        ranges, moved = _ranges(case)
        operations = self._rng.randint(1, 1 << 13) if record.engine in (Engine.CT, Engine.NE) else 0
        return Static(pc, number, case, ranges, (*moved, operations))

    # -- running ---------------------------------------------------------------------------------------

    def _step(self, tile: _Tile, static: Static) -> None:
        tile.clock += self._rng.randint(2, 400) * TICKS
        if self._rng.random() < 0.1:
            self._wait(tile, static.pc)
        self._make_room(tile, static)
        self._execute(tile, static)

    def _wait(self, tile: _Tile, pc: int) -> None:
        cause = self._rng.choice(_WAITS)
        blocker, until = max(tile.recent, key=lambda known: known[1], default=(-1, 0))
        if cause is not Cause.DEPENDENCY:
            blocker, until = -1, tile.clock + self._rng.randint(1, 900) * TICKS
        self._core(tile, pc, cause, until, blocker)

    def _make_room(self, tile: _Tile, static: Static) -> None:
        if static.track not in _DEPTH:
            return
        queue = tile.queued.setdefault(static.track, [])
        queue[:] = [end for end in queue if end > tile.clock]
        if len(queue) >= _DEPTH[static.track]:
            self._core(tile, static.pc, Cause.QUEUE, queue[0], -1)
            del queue[0]

    def _execute(self, tile: _Tile, static: Static) -> None:
        track, rng = static.track, self._rng
        able = max(tile.clock, tile.free.get(track, 0))
        started, blocked, cause, blocker = able, 0, Cause.NOTHING, -1
        number, until = rng.choice(tile.recent) if tile.recent else (-1, 0)
        if track is not Track.SCALAR and until > able and rng.random() < 0.8:
            started, blocked, cause, blocker = until, until - able, Cause.DEPENDENCY, number
        ended = started + rng.randint(1, 1500 * TICKS)
        if track in _STRETCH and not blocked and rng.random() < 0.3:
            cause, blocked = _STRETCH[track], rng.randint(1, ended - started)
        targets = [-1]
        if track is Track.DTE:
            targets = rng.sample(range(16), rng.choice((1, 1, 3)))
        for target in targets:
            times = (tile.issued, static.pc, tile.clock, started, ended, blocked, blocker, target)
            self._note(tile, static, cause, times)
        tile.free[track] = ended
        tile.queued.setdefault(track, []).append(ended)
        tile.recent = [*tile.recent[-7:], (tile.issued, ended)]
        tile.issued += 1

    def _note(self, tile: _Tile, static: Static, cause: Cause, times: tuple[int, ...]) -> None:
        head = (tile.number, 0, static.track, static.number, cause, len(static.ranges))
        self._rows.append((*head, *times, *static.row))
        self._operands.append(static)

    def _core(self, tile: _Tile, pc: int, cause: Cause, until: int, blocker: int) -> None:
        if until <= tile.clock:
            return
        head = (tile.number, 0, Track.CORE, -1, cause, 0, tile.issued, pc)
        times = (tile.clock, tile.clock, until, until - tile.clock, blocker, -1)
        self._rows.append((*head, *times, 0, 0, 0, 0, 0))
        self._operands.append(None)
        tile.clock = until

    def _barrier(self) -> None:
        until = max(tile.clock for tile in self._tiles) + 100 * TICKS
        for tile in self._tiles:
            self._core(tile, self.text[0].pc, Cause.BARRIER, until, -1)

    # -- handing out -----------------------------------------------------------------------------------

    def _batch(self) -> Batch:
        slices = np.array(self._rows, dtype=SLICE)
        ranges = np.zeros((len(slices), MOST_RANGES, 3), dtype=np.int64)
        fields = np.zeros((len(slices), queues.MAX_FIELDS), dtype=np.int64)
        for row, static in enumerate(self._operands):
            if static is not None:
                ranges[row, : len(static.ranges)] = np.reshape(static.ranges, (-1, 3))
                fields[row, : len(static.case.values)] = static.case.values
        order = np.lexsort((slices["ended"], slices["track"], slices["tile"]))
        self._rows, self._operands = [], []
        return Batch(slices[order], ranges[order], fields[order])


def _ranges(case: Case) -> tuple[list[list[int]], tuple[int, int, int, int]]:
    """The ranges of an instruction, and SPM bytes read, written, DDR bytes read, written."""
    ranges, moved = [], [0, 0, 0, 0]
    for operand in case.addresses():
        write, in_ddr = operand.role == "write", operand.memory == "ddr"
        size = case.length(operand)
        ranges.append([case.named[operand.name] + in_ddr * queues.DDR, size, int(write)])
        moved[2 * in_ddr + write] += size
    return ranges, (moved[0], moved[1], moved[2], moved[3])


def repeated(batches: Sequence[Batch], times: int) -> Iterator[Batch]:
    """Repeat the batches later and with higher numbers, to make many slices quickly."""
    period = max(int(batch.slices["ended"].max()) for batch in batches) + TICKS
    numbers = max(int(batch.slices["number"].max()) for batch in batches) + 1
    for turn in range(times):
        for batch in batches:
            slices: npt.NDArray[np.void] = batch.slices.copy()
            for name in ("issued", "started", "ended"):
                slices[name] += turn * period
            slices["number"] += turn * numbers
            slices["blocker"][slices["blocker"] >= 0] += turn * numbers
            yield Batch(slices, batch.ranges, batch.fields)
