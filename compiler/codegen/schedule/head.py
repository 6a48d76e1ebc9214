"""The head of a phase: its first instructions that use constants alone and can begin in an earlier phase.

An instruction belongs to the head if it reads only constants and what the head has written, and writes only
buffers that no other instruction has used before. Another worker of the engines executes it while
worker 0 executes the phase before; the phase waits for that worker before it uses a buffer of the head. It
waits for the whole head, so the head has only little of the data that the phase needs later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field

from compiler.codegen.expr import (
    Address,
    Operation,
    Slot,
    Value,
    Variable,
    bounds,
    buffers_of,
    highest,
    symbols_of,
)
from compiler.codegen.kernel import Kernel
from compiler.codegen.registers import TILE
from compiler.codegen.spm import SpmBuffer
from compiler.codegen.tree import Argument, Gap, Issue, Item, Let, Loop
from compiler.evaluation.sizes import Size, always
from tx8isa.records.record import Engine, Instruction

_ENGINES = (Engine.RDMA, Engine.TDMA, Engine.CT, Engine.NE)
"""The engines of the instructions of a head."""

_MOST_FOR_LATER = 32768
"""Most bytes of buffers that a head loads for uses after the phase's wait for it."""

Condition = tuple[Value, Value]
"""An instruction is executed if the first value is below the second."""


@dataclass(frozen=True)
class EarlyInstruction:
    """An instruction of a head; its operands depend on the tile alone."""

    issue: Issue
    arguments: dict[str, Argument]
    conditions: tuple[Condition, ...]

    @property
    def buffers(self) -> Iterator[SpmBuffer]:
        """The buffers that it uses."""
        return _buffers(self.arguments.values())


@dataclass
class Head:
    """The head of a phase; ``wait`` is the place in the phase where it waits for the head."""

    instructions: list[EarlyInstruction] = field(default_factory=list)
    buffers: set[SpmBuffer] = field(default_factory=set)
    wait: Gap | None = None


def find_head(kernel: Kernel, constants: Set[str], most: int) -> Head:
    """The head of a phase, of at most ``most`` instructions.

    ``constants`` are the symbols of constant data in DDR.
    """
    search = _Search(constants, kernel.received | kernel.spm.needed_twice, most)
    for number, item in enumerate(kernel.tree):
        search.item(item, ())
        if search.head.wait is None and search.used:
            search.head.wait = next(gap for gap in kernel.gaps if gap.item == number)
    return search.head


@dataclass
class _Search:
    constants: Set[str]
    touched: set[SpmBuffer]
    """Buffers that instructions outside of the head have used."""
    most: int
    head: Head = field(default_factory=Head)
    used: bool = False
    """True if an instruction outside of the head has used a buffer of the head."""
    for_later: int = 0
    """Bytes of the buffers that the head has loaded since then."""
    values: dict[int, Value] = field(default_factory=dict)
    """Variables other than loops', by their identity, as expressions of the tile's number."""
    held: dict[int, frozenset[SpmBuffer]] = field(default_factory=dict)
    """The buffers whose addresses are in a variable, by its identity."""

    def item(self, item: Item, conditions: tuple[Condition, ...]) -> None:
        if isinstance(item, Let):
            self._hold(item)
            value = self._of_tile(item.value)
            if value is not None:
                self.values[id(item.variable)] = value
        elif isinstance(item, Issue):
            self._issue(item, conditions)
        else:
            self._loop(item, conditions)

    def _loop(self, loop: Loop, conditions: tuple[Condition, ...]) -> None:
        """A loop of at most one iteration is a condition.

        Instructions of any other loop are not part of the head.
        """
        start, count = self._of_tile(loop.start), self._of_tile(loop.count)
        once = loop.condition or always(highest(loop.count) - _lowest(loop.start) <= loop.step)
        if once and start is not None and count is not None:
            self.values[id(loop.variable)] = start
            for item in loop.body:
                self.item(item, (*conditions, (start, count)))
            return
        self._touch_all(loop.body)

    def _touch_all(self, items: Iterable[Item]) -> None:
        for item in items:
            if isinstance(item, Let):
                self._hold(item)
            elif isinstance(item, Issue):
                self._touch(item)
            else:
                self._touch_all(item.body)

    def _hold(self, item: Let) -> None:
        """Record the addresses from which a variable is computed."""
        self.held[id(item.variable)] = frozenset(_buffers([item.value], self.held))

    def _issue(self, issue: Issue, conditions: tuple[Condition, ...]) -> None:
        arguments = self._arguments(issue)
        if arguments is None or not self._belongs(issue.record, arguments):
            self._touch(issue)
            return
        early = EarlyInstruction(issue, arguments, conditions)
        if self.used and issue.record.engine is Engine.RDMA:
            self.for_later += sum(buffer.size for buffer in early.buffers)
        if self.for_later > _MOST_FOR_LATER:
            self.most = len(self.head.instructions)
            self._touch(issue)
            return
        self.head.instructions.append(early)
        self.head.buffers |= set(early.buffers)

    def _touch(self, issue: Issue) -> None:
        buffers = set(_buffers(issue.arguments.values(), self.held))
        self.used = self.used or bool(buffers & self.head.buffers)
        self.touched |= buffers

    def _belongs(self, record: Instruction, arguments: Mapping[str, Argument]) -> bool:
        if len(self.head.instructions) >= self.most or record.engine not in _ENGINES:
            return False
        if self.touched.intersection(_buffers(arguments.values())):
            return False
        for operand in record.operands:
            value = arguments.get(operand.name)
            if not operand.is_address or not isinstance(value, Value):
                continue
            if operand.memory == "spm":
                unwritten = set(buffers_of(value)) - self.head.buffers
                if operand.role != "write" and unwritten:
                    return False
            elif not all(symbol in self.constants for symbol in symbols_of(value)):
                return False
        return True

    def _arguments(self, issue: Issue) -> dict[str, Argument] | None:
        """The operands as expressions of the tile; None if they depend on the iteration of a loop."""
        found: dict[str, Argument] = {}
        for name, given in issue.arguments.items():
            parts: list[Value | float | str] = [*given] if isinstance(given, list) else [given]
            replaced = [part if isinstance(part, str | float) else self._of_tile(part) for part in parts]
            if any(part is None for part in replaced):
                return None
            found[name] = replaced if isinstance(given, list) else replaced[0]  # type: ignore[assignment]
        return found

    def _of_tile(self, value: Value) -> Value | None:
        if isinstance(value, int | Address | Size):
            return value
        if isinstance(value, Variable):
            return self.values.get(id(value), value if value.register == TILE else None)
        if isinstance(value, Operation):
            left, right = self._of_tile(value.left), self._of_tile(value.right)
            if left is None or right is None:
                return None
            return Operation(value.op, left, right, value.low, value.high)
        assert isinstance(value, Slot)
        return None


def _lowest(value: Value) -> int:
    return bounds(value)[0]


def _buffers(
    arguments: Iterable[Argument], held: Mapping[int, frozenset[SpmBuffer]] | None = None
) -> Iterator[SpmBuffer]:
    """The buffers whose addresses are in operands; ``held`` are those in variables, by their identity."""
    for given in arguments:
        parts: list[Value | float | str] = [*given] if isinstance(given, list) else [given]
        for part in parts:
            if not isinstance(part, str | float):
                yield from buffers_of(part)
                yield from _held(part, held or {})


def _held(value: Value, held: Mapping[int, frozenset[SpmBuffer]]) -> Iterator[SpmBuffer]:
    """The buffers whose addresses are in the variables of an expression."""
    if isinstance(value, Operation):
        yield from _held(value.left, held)
        yield from _held(value.right, held)
    elif isinstance(value, Variable):
        yield from held.get(id(value), ())
