"""The trace of a phase: the events of one tile, in order, independent of the machine's figures.

The tree of a phase is walked once, for its busiest tile; the trace can then be priced on several machines.
Only some iterations of a long loop are walked; the trace says how many are like the last of the first ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from compiler.codegen.expr import Expr, Value, Variable, lanes, symbols_of
from compiler.codegen.kernel import Kernel
from compiler.codegen.registers import TILE
from compiler.codegen.tree import Argument, Issue, Item, Let, Loop
from compiler.evaluation.sizes import Size
from tx8isa.numbers.division import round_up
from tx8isa.numbers.layouts import LINE_BYTES
from tx8isa.records.meaning import Action, Control
from tx8isa.records.record import Engine, Operand
from tx8isa.riscv.format import SCALAR_BYTES

from .demand import Demand, Form, choice, demand_of, form_of
from .events import (
    ALIKE,
    CacheMaintenance,
    Command,
    Copy,
    CoreTime,
    EndOfConstants,
    Event,
    MoreTurns,
    NewCode,
    NewKind,
    Sharing,
    TurnBegin,
    Wait,
)
from .timeline import ByteRange
from .values import Registers, in_scratchpad, value_of

_FIRST_TURNS = 4
_WALKED = _FIRST_TURNS + 3
"""In a loop of more iterations than this, only the first ones and the last are walked. The iterations between
are taken to be as long as the last two of the first ones: buffers alternate."""
_MOST_VARIED = 64
"""Most iterations of a loop that is walked whole because the loops in it have more from turn to turn."""


_MOVING = (Engine.RDMA, Engine.WDMA)
"""The engines that use DDR."""


@dataclass(frozen=True)
class Trace:
    """The events of the busiest tile, the number of tiles with work, and the average number of tiles that
    share DDR.

    ``kinds`` are the kinds of commands that it issues, ``links`` the cycles that links between chips take.
    """

    events: list[Event]
    tiles: int
    sharing: float
    kinds: tuple[str, ...] = ()
    links: int = 0


def trace_of(kernel: Kernel) -> Trace:
    """The trace of a phase whose buffers have been placed."""
    tiles = tiles_at_work(kernel)
    entered = Counter[int]()
    sharing = _sharing(kernel, tiles, entered)
    walk = _PhaseWalk(kernel, sharing, entered)
    walk.items(kernel.tree)
    if kernel.maintained:
        walk.events.append(CacheMaintenance(kernel.maintained))
    return Trace(walk.events, tiles, sharing, tuple(walk.kinds), kernel.links)


def kinds_of(items: list[Item]) -> Iterator[str]:
    """The kinds of the commands in a tree, each as often as it occurs."""
    for item in items:
        if isinstance(item, Loop):
            yield from kinds_of(item.body)
        elif isinstance(item, Issue) and not isinstance(item.record.meaning, Control):
            yield item.record.mnemonic


def tiles_at_work(kernel: Kernel) -> int:
    """Number of tiles with work; they have the lowest numbers."""
    low, high = 1, kernel.target.tiles
    while low < high:
        middle = (low + high + 1) // 2
        if _has_work(kernel.tree, {TILE: middle - 1}):
            low = middle
        else:
            high = middle - 1
    return low


class _Block(NamedTuple):
    """A conditional block, and its properties that depend on the tile."""

    loop: Loop
    items: list[Let | Loop | _Block]


def _sharing(kernel: Kernel, tiles: int, entered: Counter[int]) -> float:
    """Tiles that use DDR at the same time on average: a tile with fewer iterations than tile 0 ends earlier.

    ``entered`` counts the tiles that execute a conditional block, by its identity.
    """
    items = _with_turns(kernel.tree)
    turns = [_turns(items, {TILE: tile}, entered) for tile in range(tiles)]
    return min(sum(turns) / turns[0], tiles) if turns[0] else tiles


def _with_turns(items: list[Item]) -> list[Let | Loop | _Block]:
    """The items without instructions, and without conditional blocks that have no loop and use no DDR."""
    found: list[Let | Loop | _Block] = []
    for item in items:
        if isinstance(item, Loop) and item.condition:
            inner = _with_turns(item.body)
            moves = any(isinstance(each, Issue) and each.record.engine in _MOVING for each in item.body)
            if moves or any(not isinstance(each, Let) for each in inner):
                found.append(_Block(item, inner))
        elif not isinstance(item, Issue):
            found.append(item)
    return found


def _turns(items: list[Let | Loop | _Block], registers: Registers, entered: Counter[int]) -> int:
    """Number of turns of the outermost loops; a conditional block is included if the tile executes it."""
    turns = 0
    for item in items:
        if isinstance(item, Let):
            registers[item.variable.register] = value_of(item.value, registers)
            continue
        loop = item.loop if isinstance(item, _Block) else item
        start, count = value_of(loop.start, registers), value_of(loop.count, registers)
        if isinstance(item, Loop):
            turns += len(range(start, count, item.step))
        elif start < count:
            entered[id(loop)] += 1
            turns += _turns(item.items, registers, entered)
    return turns


def _has_work(items: list[Item], registers: Registers) -> bool:
    for item in items:
        if isinstance(item, Issue):
            if item.record.engine in _MOVING:
                return True
        elif isinstance(item, Let):
            registers[item.variable.register] = value_of(item.value, registers)
        else:
            start, count = value_of(item.start, registers), value_of(item.count, registers)
            registers[item.variable.register] = start
            if start < count and _has_work(item.body, registers):
                return True
    return False


class _Access(NamedTuple):
    """A range of the scratchpad: its number among the demand's ranges, and its first byte ``address``."""

    number: int
    address: Expr
    writes: bool


class _Operands:
    """The operands of an instruction, as far as they are known without the values of registers."""

    def __init__(self, issue: Issue) -> None:
        form = form_of(issue.mnemonic)
        self.mnemonic = issue.mnemonic
        self.from_ddr = issue.record.engine is Engine.DTE and _reads_ddr(issue)
        self.values = list(form.defaults)
        self.unknown: list[tuple[int, Expr | Size]] = []
        for name, given in issue.arguments.items():
            index = form.needed.get(name)
            if index is not None:
                number = (
                    given if isinstance(given, int) else _number(form.record.operands[index], given, form)
                )
                if isinstance(number, int):
                    self.values[index] = number
                else:
                    self.unknown.append((index, number))
        self.accesses = [
            _Access(at, address, operand.role != "read")
            for at, operand in enumerate(form.in_scratchpad)
            if isinstance(address := issue.arguments.get(operand.name), Expr)
        ]

    def demand(self, registers: Registers) -> Demand:
        """The demand of the instruction for these values of the registers."""
        values = self.values
        for index, value in self.unknown:
            values[index] = value_of(value, registers)
        return demand_of(self.mnemonic, self.from_ddr, tuple(values))


def _number(operand: Operand, given: Argument, form: Form) -> Value:
    """The value of an operand."""
    if isinstance(given, int):
        return given
    if isinstance(given, list):
        return lanes(given)
    if isinstance(given, str):
        return choice(operand, given, form.format_code)
    return 0 if isinstance(given, float) else given


def _reads_ddr(issue: Issue) -> bool:
    return "src" in issue.arguments and not in_scratchpad(issue.arguments["src"])


class _PhaseWalk:
    def __init__(self, kernel: Kernel, sharing: float, entered: Counter[int]) -> None:
        self.tiles, self.sharing, self.entered = kernel.target.tiles, sharing, entered
        self.constants = {constant.symbol for constant in kernel.constants}
        self.registers: Registers = {TILE: kernel.busiest}
        self.events: list[Event] = []
        self.began = False
        """True if the tiles have met, or a value that is not constant has been loaded."""
        self._operands: dict[int, _Operands] = {}
        """Operands, keyed by the identity of the instructions of the tree."""
        self.kinds: dict[str, None] = {}
        """The kinds of the commands so far, in their order."""
        self._met: set[int] = set()
        """Identities of the parts of the tree that were executed before."""

    def items(self, items: list[Item]) -> None:
        for item in items:
            if isinstance(item, Issue):
                self._issue(item)
            elif isinstance(item, Let):
                self.registers[item.variable.register] = value_of(item.value, self.registers)
            else:
                self._loop(item)

    def _issue(self, issue: Issue) -> None:
        self._meet(issue, SCALAR_BYTES * issue.core + form_of(issue.mnemonic).size)
        self._execute(issue.core)
        kind = issue.record.meaning
        if isinstance(kind, Control) and kind.action in (Action.WAIT, Action.BARRIER, Action.SEND_WAIT):
            if kind.action is Action.BARRIER and not self.began:
                self.events.append(EndOfConstants())
                self.began = True
            self.events.append(Wait(kind.action, issue.worker))
            return
        operands = self._operands.get(id(issue))
        if operands is None:
            operands = self._operands[id(issue)] = _Operands(issue)
        demand = operands.demand(self.registers)
        if isinstance(kind, Control):
            self.events.append(Copy(demand, self._senders(issue)))
            return
        self.began = self.began or (issue.record.engine is Engine.RDMA and not self._is_constant(issue))
        reads: list[ByteRange] = []
        writes: list[ByteRange] = []
        for number, address, written in operands.accesses:
            first, length = value_of(address, self.registers), demand.lengths[number]
            if written:
                writes.append((first, first + round_up(length, LINE_BYTES)))
            else:
                reads.append((first, first + length))
        self._meet_kind(issue.record.mnemonic)
        self.events.append(Command(issue.record.engine, demand, reads, writes, issue.worker))

    def _senders(self, issue: Issue) -> int | None:
        """Number of all tiles, if each sends to the same few, which then receive more than a tile sends."""
        targets = issue.arguments.get("tiles")
        return self.tiles if isinstance(targets, int) and targets.bit_count() < self.tiles else None

    def _is_constant(self, issue: Issue) -> bool:
        """True if a load reads a constant."""
        source = issue.arguments.get("src")
        return isinstance(source, Expr) and self.constants.issuperset(symbols_of(source))

    def _meet(self, item: Issue | Loop, size: int) -> None:
        """Execute code of ``size`` bytes, which costs more when the tile reaches it for the first time."""
        if id(item) not in self._met:
            self._met.add(id(item))
            self.events.append(NewCode(size))

    def _meet_kind(self, kind: str) -> None:
        if kind not in self.kinds:
            self.kinds[kind] = None
            self.events.append(NewKind(kind))

    def _execute(self, instructions: int) -> None:
        if instructions:
            self.events.append(CoreTime(instructions))

    def _loop(self, loop: Loop) -> None:
        start, count = value_of(loop.start, self.registers), value_of(loop.count, self.registers)
        turns = range(start, count, loop.step)
        if loop.condition and id(loop) in self.entered and turns:
            self._block(loop, start)
            return
        if len(turns) <= _WALKED or (len(turns) <= _MOST_VARIED and self._varies(loop, turns)):
            for number, value in enumerate(turns):
                self._turn(loop, number, value)
            return
        for number in range(_FIRST_TURNS):
            if number == _FIRST_TURNS - ALIKE:
                self.events.append(TurnBegin())
            self._turn(loop, number, turns[number])
        self.events.append(MoreTurns(len(turns) - _FIRST_TURNS - 1))
        self._turn(loop, len(turns) - 1, turns[-1])

    def _varies(self, loop: Loop, turns: range) -> bool:
        """True if the loops in a loop have more or fewer iterations in the middle than at its beginning."""
        items, name = _with_turns(loop.body), loop.variable.register
        first, middle = (
            _turns(items, {**self.registers, name: turns[at]}, Counter())
            for at in (_FIRST_TURNS - 1, len(turns) // 2)
        )
        return first != middle

    def _block(self, loop: Loop, start: int) -> None:
        """A conditional block; only some of the tiles that share DDR outside of it execute it."""
        before, self.sharing = self.sharing, min(self.sharing, self.entered[id(loop)])
        self.events.append(Sharing(self.sharing))
        self._turn(loop, 0, start)
        self.sharing = before
        self.events.append(Sharing(before))

    def _turn(self, loop: Loop, number: int, value: int) -> None:
        self._set(loop.variable, value)
        if loop.parity is not None:
            self._set(loop.parity, -(number % 2))
        self.items(loop.body)
        self._meet(loop, SCALAR_BYTES * loop.core)
        self._execute(loop.core)

    def _set(self, variable: Variable, value: int) -> None:
        self.registers[variable.register] = value
