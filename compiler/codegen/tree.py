"""The code of a phase as a tree of engine instructions and loops. The estimate of time and the search for
instructions that can begin before the phase read it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from tx8isa.numbers.formats import Format
from tx8isa.records.record import Instruction, Operand
from tx8isa.table.encoding import argument_values, encoder, pack_lanes
from tx8isa.table.footprint import batch_gap, plan
from tx8isa.table.registry import find

from .emitter import ScalarLine, decimal, instruction_text
from .expr import Address, Value, Variable

Argument = Value | float | str | list[Value]

_CORE_BYTES, _CONSTANT_BYTES, _WIDE_BYTES = 4, 8, 32
"""The most bytes of an instruction of the kernel core: of one that loads no constant, of one that loads an
address or a number of 32 bits, and of one that loads a number of 64 bits."""
_BATCHES = ("lb", "rb", "shape", "dst_shape")
"""Operands with the number of batches of aligned tensors, which is first in a shape."""
STEP_OF_CONDITION = 1 << 60
"""Step that makes a condition a loop of at most one iteration."""


class LineRange(NamedTuple):
    """Lines of the phase's text, from ``first`` to before ``end``."""

    first: int
    end: int


class Issue(NamedTuple):
    """An engine instruction. ``core``: instructions of the kernel core between the previous item and it.

    ``lines`` are its own and those that compute its operands, which nothing else uses. ``number`` counts the
    engine instructions of the phase and ``worker`` receives it. ``node`` is the graph node that it computes,
    if the phase says so.
    """

    record: Instruction
    mnemonic: str
    arguments: dict[str, Argument]
    core: int
    lines: LineRange
    number: int
    worker: int = 0
    node: str = ""


class Let(NamedTuple):
    """A value that is computed once and kept in a register."""

    variable: Variable
    value: Value


@dataclass(slots=True)
class Loop:
    """``variable`` goes from ``start`` to ``count`` - 1; ``parity`` alternates between 0 and -1, beginning
    with 0.

    ``line`` is the first line of its text.
    """

    variable: Variable
    start: Value
    count: Value
    step: int
    line: int
    parity: Variable | None = None
    body: list[Item] = field(default_factory=list)
    core: int = 0
    """Instructions of the kernel core at the end of an iteration."""

    @property
    def condition(self) -> bool:
        """True if it is a condition, not a loop."""
        return self.step == STEP_OF_CONDITION


class Gap(NamedTuple):
    """A place in the phase's tree, before an item, at which other code can be inserted.

    ``item`` is the number of the item, ``line`` its first line, ``number`` the next engine instruction, and
    ``free`` are the registers that hold no value there.
    """

    item: int
    line: int
    number: int
    free: tuple[str, ...]


Item = Issue | Let | Loop


class Spaced(int):
    """The number of batches in a buffer with gaps, where each begins at a whole line."""


def issues(items: Iterable[Item]) -> Iterator[Issue]:
    """The instructions of items, those in loops included, in the order of the text."""
    for item in items:
        if isinstance(item, Issue):
            yield item
        elif isinstance(item, Loop):
            yield from issues(item.body)


@dataclass(frozen=True, eq=False, slots=True)
class Syntax:
    """The syntax of an instruction: its record, and the operands that the text names."""

    record: Instruction
    operands: dict[str, Operand]
    required: frozenset[str]
    """The operands without a default."""
    fmt: Format | None
    batches: tuple[str, ...]
    """The operands that can ask for several batches of an aligned tensor."""

    def check(self, arguments: dict[str, Argument]) -> None:
        """Raises ValueError if an instruction has other operands than ``arguments``, or batches with gaps.

        The engine begins each batch at a whole line. Dense blocks have no gaps; ``Spaced`` batches have.
        """
        if not (arguments.keys() <= self.operands.keys() and self.required <= arguments.keys()):
            unknown = [name for name in arguments if name not in self.operands]
            missing = [name for name in self.operands if name in self.required and name not in arguments]
            what = f"unknown operands {unknown}, missing operands {missing}"
            raise ValueError(f"{self.record.mnemonic}: {what}")
        for name in self.batches:
            given = arguments.get(name, 1)
            count = given[0] if isinstance(given, list) else given
            if not isinstance(count, Spaced) and not (isinstance(count, int) and count == 1):
                self._check_gaps(arguments)

    def _check_gaps(self, arguments: dict[str, Argument]) -> None:
        """Raises ValueError if the engine finds a batch of an operand elsewhere than a dense block has it."""
        values = [self._number(operand, arguments) for operand in self.record.operands]
        for operand in self.record.operands:
            if operand.extent is None:
                continue
            found = argument_values(self.record, operand.extent.arguments, values)
            if gap := batch_gap(operand.extent.length, tuple(found)):
                what = f"operand {operand.name}: {gap} bytes between batches, but dense blocks have none"
                raise ValueError(f"{self.record.mnemonic}: {what}")

    def _number(self, operand: Operand, arguments: dict[str, Argument]) -> int:
        """Returns the value of an operand on which extents may depend; ValueError if it is not known."""
        if operand.hidden:
            return any(each.switched_by == operand.name for each in map(self.operands.get, arguments) if each)
        if operand.name == "format":
            return int(self.fmt or 0)
        given = arguments.get(operand.name, operand.default)
        if isinstance(given, str):
            code = dict(operand.choices).get(given)
            return code if code is not None else self._number(self.record.operand(given), arguments)
        if operand.is_address or given is None:
            return 0
        parts = (*given,) if isinstance(given, list) else (given,)
        numbers = [part for part in parts if isinstance(part, int)]
        if len(numbers) < len(parts):
            raise ValueError(f"{self.record.mnemonic}: operand {operand.name} of batches is not known")
        return pack_lanes(numbers)


class EngineLine(NamedTuple):
    """The text of an engine instruction; ``operands`` has registers for values that the core computes."""

    mnemonic: str
    syntax: Syntax
    operands: dict[str, Argument]
    worker: int

    def __str__(self) -> str:
        parts = [f"{name}={_text(self.syntax.operands[name], v)}" for name, v in self.operands.items()]
        if self.worker:
            parts.append(f"worker={self.worker}")
        return instruction_text(self.mnemonic, ", ".join(parts))


def _text(operand: Operand, value: Argument) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return decimal(value)
    if isinstance(value, list):
        return f"[{','.join(map(str, value))}]"
    if isinstance(value, Address):
        return value.text
    assert isinstance(value, int)
    return hex(value) if operand.is_address or operand.scalar else str(value)


@cache
def syntax_of(mnemonic: str) -> Syntax:
    """The syntax of instructions with a full mnemonic; ValueError if there are none."""
    found = find(mnemonic)
    if found is None:
        raise ValueError(f"no instruction {mnemonic}")
    operands = {operand.name: operand for operand in found[0].visible}
    required = (name for name, operand in operands.items() if operand.default is None)
    aligned = any(each.extent and plan(each.extent.length).facts for each in found[0].operands)
    batches = tuple(name for name in _BATCHES if aligned and name in operands)
    return Syntax(found[0], operands, frozenset(required), found[1], batches)


def most_bytes(lines: Iterable[object]) -> int:
    """The most bytes that lines of code can have."""
    return sum(_most_bytes(line) for line in lines)


def _most_bytes(line: object) -> int:
    if isinstance(line, EngineLine):
        return encoder(line.syntax.record).size
    if isinstance(line, str):
        return 0  # a label, a comment or a directive
    if not isinstance(line, ScalarLine) or line.mnemonic not in ("li", "la"):
        return _CORE_BYTES
    number = line.operands[1].removeprefix("-")
    is_wide = number[0].isdigit() and int(number, 0) >= 1 << 31
    return _WIDE_BYTES if is_wide else _CONSTANT_BYTES
