"""Directives in the assembly for each scratchpad buffer of a phase: its role and its live range."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field

from asm.instructions.text import quote
from compiler.codegen.expr import Operation, Value, Variable, buffers_of, symbols_of
from compiler.codegen.kernel import Kernel
from compiler.codegen.spm import SpmBuffer
from compiler.codegen.tree import Issue, Item, Let, Loop, issues
from tx8isa.records.record import Engine

_ARITHMETIC = (Engine.CT, Engine.NE)
_Moves = Sequence[tuple[set[SpmBuffer], set[SpmBuffer]]]
"""Sources and targets of instructions that move data on the chip."""


@dataclass
class BufferUses:
    """The uses of a phase's buffers by its instructions.

    ``constant`` and ``loaded``: buffers with constants, and with other data, from DDR; ``stored``: those
    whose bytes go to DDR. The data comes or goes directly, or by moves on the chip. ``filled``: buffers with
    bytes that have no source, such as a table of ones; ``changed``: buffers that get other bytes later.
    ``computed`` and ``read``: buffers that the vector and the matrix engine write and read. ``exchanged``:
    buffers that other tiles write and that are sent to them. ``nodes``: the graph nodes whose instructions
    are known to use a buffer.
    """

    constant: set[SpmBuffer] = field(default_factory=set)
    loaded: set[SpmBuffer] = field(default_factory=set)
    stored: set[SpmBuffer] = field(default_factory=set)
    filled: set[SpmBuffer] = field(default_factory=set)
    changed: set[SpmBuffer] = field(default_factory=set)
    computed: set[SpmBuffer] = field(default_factory=set)
    read: set[SpmBuffer] = field(default_factory=set)
    exchanged: set[SpmBuffer] = field(default_factory=set)
    nodes: dict[SpmBuffer, set[str]] = field(default_factory=lambda: defaultdict(set))

    def role(self, buffer: SpmBuffer) -> str:
        """One of ``asm.image.LIVE_ROLES``."""
        calculated = buffer in self.computed or buffer in self.read
        if buffer in self.constant or buffer in self.loaded:
            brought = "weights" if buffer in self.constant else "input"
            return brought if calculated else "staging"
        if buffer in self.filled - self.changed - self.exchanged:
            return "weights"
        if len(self.nodes[buffer]) > 1:
            return "value"
        if buffer in self.exchanged:
            return "exchange"
        if buffer in self.stored:
            return "output" if calculated else "staging"
        return "temporary"


def uses_of(kernel: Kernel, constants: Set[str]) -> BufferUses:
    """The uses of a phase's buffers; ``constants`` are the symbols of constant data in DDR."""
    found, moves = BufferUses(exchanged=set(kernel.received)), list[tuple[set[SpmBuffer], set[SpmBuffer]]]()
    values = dict(_kept_values(kernel.tree))
    for issue in issues(kernel.tree):
        sources, targets = _accessed(issue, "read", values), _accessed(issue, "write", values)
        for buffer in sources.buffers | targets.buffers:
            found.nodes[buffer] |= {issue.node} - {""}
        from_elsewhere = sources.buffers or sources.symbols
        (found.changed if from_elsewhere else found.filled).update(targets.buffers)
        if issue.record.engine in _ARITHMETIC:
            found.computed |= targets.buffers
            found.read |= sources.buffers
            continue
        if sources.symbols:
            (found.constant if sources.symbols <= constants else found.loaded).update(targets.buffers)
        if targets.symbols:
            found.stored |= sources.buffers
        if issue.record.engine is Engine.DTE:
            found.exchanged |= sources.buffers
        moves.append((sources.buffers, targets.buffers))
    _spread(found.constant, moves, found.computed)
    _spread(found.loaded, moves, found.computed)
    _spread(found.stored, [(targets, sources) for sources, targets in moves], set())
    return found


@dataclass(frozen=True)
class _AccessedMemory:
    """Buffers, and symbols of DDR."""

    buffers: set[SpmBuffer]
    symbols: set[str]


def _kept_values(items: Sequence[Item]) -> Iterator[tuple[int, Value]]:
    """The values that are kept in registers, by the identity of their variables."""
    for item in items:
        if isinstance(item, Let):
            yield id(item.variable), item.value
        elif isinstance(item, Loop):
            yield from _kept_values(item.body)


def _accessed(issue: Issue, role: str, values: dict[int, Value]) -> _AccessedMemory:
    """The memory that an instruction reads, or that it writes."""
    buffers, symbols = set[SpmBuffer](), set[str]()
    for operand in issue.record.operands:
        value = issue.arguments.get(operand.name)
        if not operand.is_address or operand.role not in (role, "update"):
            continue
        for part in _parts(value, values) if isinstance(value, Value) else ():
            own = set(buffers_of(part))
            buffers |= own
            symbols |= set() if own else set(symbols_of(part))
    return _AccessedMemory(buffers, symbols)


def _parts(value: Value, values: dict[int, Value]) -> Iterator[Value]:
    """The terms of an expression, with the values of variables in their place."""
    if isinstance(value, Operation):
        yield from _parts(value.left, values)
        yield from _parts(value.right, values)
    elif isinstance(value, Variable) and id(value) in values:
        yield from _parts(values[id(value)], values)
    else:
        yield value


def _spread(chosen: set[SpmBuffer], moves: _Moves, kept_out: Set[SpmBuffer]) -> None:
    """Add the targets of moves from chosen buffers, transitively, except ``kept_out``."""
    count = -1
    while count != len(chosen):
        count = len(chosen)
        for sources, targets in moves:
            if sources & chosen:
                chosen |= targets - kept_out


@dataclass(frozen=True)
class LiveDirectives:
    """Directives by the line of a phase's text that they precede: ends, and beginnings."""

    ends: dict[int, list[str]]
    begins: dict[int, list[str]]


def directives(
    kernel: Kernel, uses: BufferUses, name: str, early: Set[SpmBuffer], removed: Set[int]
) -> LiveDirectives:
    """Directives of all placed buffers of the phase ``name``; ``early`` ones have begun in another phase.

    ``removed`` lines are not in the text; neither are buffers that are reserved only during these.
    """
    found = LiveDirectives(defaultdict(list), defaultdict(list))
    lines = {issue.number: issue.lines for issue in issues(kernel.tree)}
    for buffer in kernel.spm.placed:
        begin = lines[buffer.first].first if buffer.first in lines else kernel.out.count
        end = lines[buffer.last].end if buffer.last in lines else kernel.out.count
        if buffer not in early:
            if removed >= {*range(begin, end)}:
                continue
            found.begins[begin] += begins_of(buffer, uses, name)
        found.ends[end] += [f"        .dead {quote(copy)}" for copy, _ in _copies(buffer)]
    return found


def begins_of(buffer: SpmBuffer, uses: BufferUses, phase: str) -> list[str]:
    """The directives at the beginning of a buffer's live range: one for each of its copies."""
    what = f"{buffer.span}, {quote(buffer.node or phase)}"
    role = uses.role(buffer)
    return [f"        .live {quote(name)}, {role}, {place}, {what}" for name, place in _copies(buffer)]


def _copies(buffer: SpmBuffer) -> list[tuple[str, str]]:
    """Name and address of each copy."""
    first = [(buffer.symbol, buffer.symbol)]
    if buffer.second < 0:
        return first
    return [*first, (f"{buffer.symbol}.2nd", f"{buffer.symbol}+{buffer.distance_symbol}")]
