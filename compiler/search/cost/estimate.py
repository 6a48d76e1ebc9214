"""Estimates the time of a phase: walks its tree for one tile, and extrapolates long loops from some turns."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from compiler.codegen.expr import Expr, Variable, symbols_of
from compiler.codegen.kernel import Kernel
from compiler.codegen.tree import Issue, Item, Let, Loop
from tx8isa.cost.instructions import TICKS
from tx8isa.machine.description import Machine
from tx8isa.numbers.division import round_up
from tx8isa.numbers.layouts import LINE_BYTES
from tx8isa.records.meaning import Action, Control
from tx8isa.records.record import Engine

from .pricing import Pricing, scratchpad_operands
from .timeline import ByteRange, Timeline
from .values import Registers, value_of

_FIRST_TURNS = 3
_WALKED = _FIRST_TURNS + 3
"""Of a loop with more turns than this only the first ones and the last are walked. The turns between are
taken to be as long as the last of the first ones."""


@dataclass(frozen=True)
class Estimate:
    """Cycles of a phase, busy cycles of each engine of one tile, and DDR traffic of all tiles in bytes."""

    cycles: int
    ahead: int
    """Cycles of them before the tiles meet for the first time, if until then only constants are loaded."""
    engines: dict[str, int]
    ddr_bytes: int
    tiles: int
    """Tiles that have work."""


def estimate(kernel: Kernel, machine: Machine, pricing: Pricing | None = None) -> Estimate:
    """The time of a phase whose buffers have been placed. A ``pricing`` can be shared between estimates."""
    tiles = _tiles_at_work(kernel)
    entered = Counter[int]()
    timeline = Timeline(machine, _sharing(kernel, tiles, entered))
    walk = _PhaseWalk(kernel, timeline, pricing or Pricing(machine), entered)
    walk.run(kernel.busiest)
    engines = {engine.name: ticks // TICKS for engine, ticks in sorted(timeline.busy.items())}
    return Estimate(timeline.now // TICKS, walk.ahead // TICKS, engines, timeline.ddr_bytes * tiles, tiles)


def _tiles_at_work(kernel: Kernel) -> int:
    """How many tiles have work; they are those with the lowest numbers."""
    low, high = 1, kernel.target.tiles
    while low < high:
        middle = (low + high + 1) // 2
        if _has_work(kernel.tree, {kernel.tile.register: middle - 1}):
            low = middle
        else:
            high = middle - 1
    return low


def _sharing(kernel: Kernel, tiles: int, entered: Counter[int]) -> float:
    """Tiles that use DDR at the same time on average: a tile with fewer turns than tile 0 ends earlier.

    ``entered`` counts the tiles that execute each conditional block, by its identity.
    """
    turns = [_turns(kernel.tree, {kernel.tile.register: tile}, entered) for tile in range(tiles)]
    return min(sum(turns) / turns[0], tiles) if turns[0] else tiles


def _turns(items: list[Item], registers: Registers, entered: Counter[int]) -> int:
    """Turns of the outermost loops; a conditional block counts with its loops if the tile executes it."""
    turns = 0
    for item in items:
        if isinstance(item, Let):
            registers[item.variable.register] = value_of(item.value, registers)
        elif isinstance(item, Loop):
            start, count = value_of(item.start, registers), value_of(item.count, registers)
            if not item.condition:
                turns += len(range(start, count, item.step))
            elif start < count:
                entered[id(item)] += 1
                turns += _turns(item.body, registers, entered)
    return turns


def _has_work(items: list[Item], registers: Registers) -> bool:
    for item in items:
        if isinstance(item, Issue):
            if item.record.engine in (Engine.RDMA, Engine.WDMA):
                return True
        elif isinstance(item, Let):
            registers[item.variable.register] = value_of(item.value, registers)
        else:
            start, count = value_of(item.start, registers), value_of(item.count, registers)
            registers[item.variable.register] = start
            if start < count and _has_work(item.body, registers):
                return True
    return False


class _PhaseWalk:
    def __init__(self, kernel: Kernel, timeline: Timeline, pricing: Pricing, entered: Counter[int]) -> None:
        self.kernel, self.timeline, self.pricing, self.entered = kernel, timeline, pricing, entered
        self.registers: Registers = {}
        self.constants = {constant.symbol for constant in kernel.constants}
        self.ahead = 0
        self.began = False
        """Whether the tiles have met, or data that is not constant has been loaded."""

    def run(self, tile: int) -> None:
        self.registers[self.kernel.tile.register] = tile
        self._items(self.kernel.tree)

    def _items(self, items: list[Item]) -> None:
        for item in items:
            if isinstance(item, Issue):
                self._issue(item)
            elif isinstance(item, Let):
                self.registers[item.variable.register] = value_of(item.value, self.registers)
            else:
                self._loop(item)

    def _issue(self, issue: Issue) -> None:
        timeline = self.timeline
        timeline.execute(issue.core)
        kind = issue.record.meaning
        if isinstance(kind, Control):
            if kind.action is Action.WAIT:
                timeline.join(issue.worker)
            elif kind.action is Action.BARRIER:
                self.ahead = self.ahead if self.began else timeline.now
                self.began = True
                timeline.barrier()
            elif kind.action is Action.SEND_WAIT:
                timeline.await_sent()
            else:
                # Where every tile names the same targets, each of these gets a copy from every tile.
                everyone = self.kernel.target.tiles if isinstance(issue.arguments.get("tiles"), int) else None
                timeline.send(self.pricing.price(issue, self.registers), everyone)
            return
        self.began = self.began or (issue.record.engine is Engine.RDMA and not self._is_constant(issue))
        price = self.pricing.price(issue, self.registers)
        reads: list[ByteRange] = []
        writes: list[ByteRange] = []
        for operand, length in zip(scratchpad_operands(issue.record), price.lengths, strict=True):
            given = issue.arguments.get(operand.name)
            if isinstance(given, Expr):
                first = value_of(given, self.registers)
                side, grain = (reads, 1) if operand.role == "read" else (writes, LINE_BYTES)
                side.append((first, first + round_up(length, grain)))
        self.timeline.issue(issue.record.engine, price, reads, writes, issue.worker)

    def _is_constant(self, issue: Issue) -> bool:
        """Whether what a load reads is constant."""
        source = issue.arguments.get("src")
        return isinstance(source, Expr) and set(symbols_of(source)) <= self.constants

    def _loop(self, loop: Loop) -> None:
        start, count = value_of(loop.start, self.registers), value_of(loop.count, self.registers)
        turns = list(range(start, count, loop.step))
        if loop.condition and turns:
            sharing = self.timeline.sharing
            self.timeline.sharing = min(sharing, self.entered.get(id(loop), sharing))
            self._turn(loop, 0, start)
            self.timeline.sharing = sharing
            return
        if len(turns) <= _WALKED:
            for number, value in enumerate(turns):
                self._turn(loop, number, value)
            return
        timeline = self.timeline
        for number in range(_FIRST_TURNS):
            before, busy, moved = timeline.now, timeline.snapshot(), timeline.ddr_bytes
            self._turn(loop, number, turns[number])
        timeline.skip(len(turns) - _FIRST_TURNS - 1, timeline.now - before, busy, moved)
        self._turn(loop, len(turns) - 1, turns[-1])

    def _turn(self, loop: Loop, number: int, value: int) -> None:
        self._set(loop.variable, value)
        if loop.parity is not None:
            self._set(loop.parity, -(number % 2))
        self._items(loop.body)
        self.timeline.execute(loop.core)

    def _set(self, variable: Variable, value: int) -> None:
        self.registers[variable.register] = value
