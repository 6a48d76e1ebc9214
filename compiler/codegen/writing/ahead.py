"""Loads that run one iteration of a loop ahead: the next slice arrives during the arithmetic on this one.

A loop alternates between two copies of its buffers. The loads of the first iteration go before the loop, and
each iteration begins with those of the next one. So RDMA has work while the kernel core waits for room in the
queues of the engines that compute, and the second slice does not wait for the first iteration, whose code is
new to the core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from compiler.codegen.expr import Address, Operation, Slot, Value, Variable, highest
from compiler.codegen.registers import POOL, TILE
from compiler.codegen.registers.contents import own_lines
from compiler.codegen.spm import SpmBuffer
from compiler.codegen.tree import Argument, Issue, Item, Let, LineRange, Loop, issues
from compiler.evaluation.sizes import largest, least, most
from tx8isa.records.meaning import Control
from tx8isa.records.record import Engine, Operand

from .conditions import if_below
from .writer import Aside, CodePlace, CodeWriter

_LEAST_BYTES = 4096
"""Least bytes of an iteration's loads: fewer save less time than the instructions for it take."""
_LEAST_AFTER = 3
"""Least instructions of an iteration besides its loads; with fewer, the next loads do not wait long."""

_Values = Mapping[str, Value]
"""Values of registers. Variables of one register may have different known ranges."""


@dataclass
class LoopCode:
    """The code of a loop. ``outer`` is the part of the tree that contains it, and ``limit`` the bound of its
    index. ``before`` is the place before its first iteration, ``inside`` the beginning of each iteration."""

    loop: Loop
    number: int
    limit: Value
    outer: list[Item]
    before: CodePlace
    inside: CodePlace | None = None


def load_ahead(code: CodeWriter, found: LoopCode) -> None:
    """Let the loads of a loop run ahead, once its body is written; nothing changes where none can."""
    loop, inside = found.loop, found.inside
    if not code.ahead or loop.parity is None or inside is None:
        return
    loads = _Loads(code, found)
    if not loads.worthwhile():
        return
    scope, code.scope = code.scope, (*code.scope, found.number)
    recorded, loops = code.spm.recorded, len(code.spm.loops)
    with code.aside(found.before, found.before.number) as first:
        code.body += [Let(loop.variable, loop.start), Let(loop.parity, 0)]
        loads.emit({})
    with code.aside(inside, inside.number + len(loads.found)) as turn:
        _next_turn(code, found, loop.parity, loads)
    if first.fits and turn.fits:
        code.spm.shift(2 * len(loads.found), range(inside.uses, recorded), range(found.number + 1, loops))
        _remove(code, loop, (load.issue for load in loads.found))
        _insert(code, found, first, turn, 2 * len(loads.found))
        code.spm.stay(loads.targets, found.number, code.count - 1, code.scope)
    else:
        code.spm.forget_since(recorded)
    code.scope = scope


def _next_turn(code: CodeWriter, found: LoopCode, parity: Variable, loads: _Loads) -> None:
    """Write the loads of the next iteration, if there is one, into the other copies."""
    loop = found.loop
    following = code.let(loop.variable + loop.step)
    assert isinstance(following, Variable)
    if isinstance(found.limit, Variable):
        code.body.append(Let(found.limit, loop.count))
    with if_below(code, following, found.limit):
        index = replace(following, high=highest(loop.count) - 1)
        loads.emit({loop.variable.register: index, parity.register: code.let(-1 - parity)})


class _Load(NamedTuple):
    """A load with its operands as they are known at the beginning of an iteration."""

    issue: Issue
    arguments: dict[str, Argument]


@dataclass
class _Loads:
    """The loads of a loop that can move to the beginning of an iteration, or before it.

    Such a load fills a buffer that has two copies and that no earlier instruction of the iteration uses. It
    reads only bytes that the loop does not store, and its operands depend on the iteration alone. A loop that
    waits or exchanges data has none.
    """

    code: CodeWriter
    loop_code: LoopCode
    found: list[_Load] = field(default_factory=list)
    targets: set[SpmBuffer] = field(default_factory=set)

    def __post_init__(self) -> None:
        body = self.loop_code.loop.body
        inner = [*issues(body)]
        if any(_orders(issue) for issue in inner):
            return
        stored = {symbol for issue in inner for symbol in self._symbols(issue, _is_written)}
        computed: dict[str, Value] = {}
        touched: set[SpmBuffer] = set()
        for item in body:
            if isinstance(item, Let):
                computed[item.variable.register] = _with(item.value, computed)
            elif isinstance(item, Issue) and self._can_move(item, touched, stored, computed):
                self.found.append(_Load(item, _with_values(item.arguments, computed)))
                self.targets |= self._buffers(item)
            else:
                for issue in issues([item]):
                    touched |= self._buffers(issue)

    def worthwhile(self) -> bool:
        """True if loads that run ahead save more than the instructions that they take."""
        size = sum(most(buffer.size) for buffer in self.targets)
        others = sum(1 for _ in issues(self.loop_code.loop.body)) - len(self.found)
        return size >= _LEAST_BYTES and others >= _LEAST_AFTER

    def emit(self, values: _Values) -> None:
        """Write the loads, with these values in the place of registers."""
        for load in self.found:
            with self.code.computing(load.issue.node):
                self.code.emit(load.issue.mnemonic, **_with_values(load.arguments, values))

    def _can_move(self, issue: Issue, touched: set[SpmBuffer], stored: set[str], computed: _Values) -> bool:
        if issue.record.engine is not Engine.RDMA or stored.intersection(self._symbols(issue, _is_read)):
            return False
        targets, number = self._buffers(issue), self.loop_code.number
        if not targets or touched & targets or any(each.turning != number for each in targets):
            return False
        parts = _parts(_with_values(issue.arguments, computed), {})
        variables = [part.parity if isinstance(part, Slot) else part for part in parts]
        return all(self._is_known(each) for each in variables if isinstance(each, Variable))

    def _is_known(self, variable: Variable) -> bool:
        """True if a variable, or the variable whose range it narrows, has its value at the beginning of a
        iteration."""
        code, inside, register = self.code, self.loop_code.inside, variable.register
        if register == TILE or variable in code.values or variable in code.loop_variables:
            return True
        return inside is not None and register in POOL and register not in inside.free

    def _buffers(self, issue: Issue) -> set[SpmBuffer]:
        """The buffers that an instruction uses."""
        parts = _parts(issue.arguments, self.code.values)
        return {part.buffer for part in parts if isinstance(part, Address) and part.buffer is not None}

    def _symbols(self, issue: Issue, chosen: Callable[[Operand], bool]) -> Iterator[str]:
        """The symbols in the addresses of the chosen operands in DDR."""
        named = {operand.name for operand in issue.record.operands if operand.is_address and chosen(operand)}
        arguments = {name: value for name, value in issue.arguments.items() if name in named}
        for part in _parts(arguments, self.code.values):
            if isinstance(part, Address) and part.buffer is None:
                yield part.symbol


def _orders(issue: Issue) -> bool:
    """True for an instruction that waits, or in which other tiles or workers take part."""
    waits = isinstance(issue.record.meaning, Control)
    return waits or issue.worker != 0 or issue.record.engine is Engine.DTE


def _is_written(operand: Operand) -> bool:
    return operand.role != "read"


def _is_read(operand: Operand) -> bool:
    return operand.role != "write"


def _parts(arguments: Mapping[str, Argument], kept: Mapping[Variable, Value]) -> Iterator[Value]:
    """The terms of operands, with the values of ``kept`` variables in their place."""
    parts: list[Value] = []
    for given in arguments.values():
        several: list[Value | float | str] = [*given] if isinstance(given, list) else [given]
        parts += (part for part in several if not isinstance(part, str | float))
    while parts:
        value = parts.pop()
        if isinstance(value, Operation):
            parts += [value.left, value.right]
        elif isinstance(value, Variable) and value in kept:
            parts.append(kept[value])
        else:
            yield value


def _with_values(arguments: Mapping[str, Argument], values: _Values) -> dict[str, Argument]:
    """Operands with these values in the place of registers."""
    found: dict[str, Argument] = {}
    for name, given in arguments.items():
        if isinstance(given, list):
            found[name] = [_with(part, values) for part in given]
        else:
            found[name] = given if isinstance(given, str | float) else _with(given, values)
    return found


def _with(value: Value, values: _Values) -> Value:
    if isinstance(value, Variable):
        return _narrowed(values[value.register], value) if value.register in values else value
    if isinstance(value, Operation):
        return replace(value, left=_with(value.left, values), right=_with(value.right, values))
    if isinstance(value, Slot) and value.parity.register in values:
        parity = values[value.parity.register]
        assert isinstance(parity, Variable)
        return replace(value, parity=parity)
    return value


def _narrowed(known: Value, variable: Variable) -> Value:
    """A value with the range of a variable that represents it."""
    if not isinstance(known, Variable | Operation):
        return known
    return replace(known, low=largest(known.low, variable.low), high=least(known.high, variable.high))


def _remove(code: CodeWriter, loop: Loop, gone: Iterable[Issue]) -> None:
    """Remove loads from the body; instructions of the core between them belong to the next item."""
    loads, kept, left = {issue.number for issue in gone}, list[Item](), 0
    for item in loop.body:
        if not isinstance(item, Issue):
            kept.append(item)
        elif item.number in loads:
            own = own_lines(code.registers.contents, item.lines)
            code.out.erase(own.start, own.stop)
            code.out.instructions -= len(own)
            code.counted -= len(own)
            left += item.core - (len(own) - 1)
        else:
            kept.append(item._replace(core=item.core + left))
            left = 0
    loop.body[:] = kept
    loop.core += left


def _insert(code: CodeWriter, found: LoopCode, first: Aside, turn: Aside, count: int) -> None:
    """Insert code before the loop and at the beginning of its body, with ``count`` engine instructions."""
    loop, outer, before, inside = found.loop, found.outer, first.place, turn.place
    _move(loop.body, first.out.count + turn.out.count, count)
    _move(first.items, before.line, 0)
    _move(turn.items, inside.line + first.out.count, 0)
    for place, aside in ((inside, turn), (before, first)):
        code.out.insert(place.line, aside.out)
        if code.registers.contents is not None:
            code.registers.contents.lines_inserted(place.line, aside.out.count)
        code.counted += aside.out.instructions
    code.count += count
    loop.body[:0] = turn.items
    at = len(outer) - 1
    outer[at:at] = first.items
    if outer is code.tree:
        code.gaps += [code.gaps[-1]._replace(item=at + 1 + number) for number in range(len(first.items))]


def _move(items: list[Item], lines: int, numbers: int) -> None:
    """Add to the numbers of lines and of instructions."""
    for at, item in enumerate(items):
        if isinstance(item, Issue):
            moved = LineRange(item.lines.first + lines, item.lines.end + lines)
            items[at] = item._replace(lines=moved, number=item.number + numbers)
        elif isinstance(item, Loop):
            item.line += lines
            _move(item.body, lines, numbers)
