"""The code of one phase: engine instructions from their records, loops, scratchpad buffers, constants."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from compiler.graph import Array
from tx8isa.numbers.division import ceil_div
from tx8isa.numbers.formats import Format
from tx8isa.records.record import Instruction, Operand
from tx8isa.table.registry import find

from .emitter import Emitter
from .expr import Address, Slot, Value, Variable, bounds, highest, lanes
from .phase import Constant, Scratch, Target
from .registers import IMMEDIATES, TILE, Registers
from .spm import SpmAllocator, SpmBuffer, SpmOverflow
from .tree import NEVER_AGAIN, Argument, Issue, Item, Let, Loop

__all__ = ["Argument", "Constant", "Kernel", "Scratch", "Target"]

Prepared = TypeVar("Prepared")


@dataclass
class _Span:
    """A loop: the engine instructions from its first to its last, and what chooses copies in it."""

    number: int
    first: int
    last: int = -1
    turn: Variable | None = None


@dataclass
class Kernel:
    """Collects the code of one phase.

    ``prefix`` starts all its symbols. ``budget`` are the scratchpad bytes that the slices of the lowering
    should stay below together. ``synchronized``: the phase uses what other tiles wrote, so it must wait for
    them (``begin``). With ``turns`` the buffers of a loop have two copies, used in turns, if there is room.
    ``settled``: symbols of operands that were complete before that wait, and can be read earlier.
    ``busiest`` is a tile that has as much to do as any; what it takes is the estimate of the phase.
    """

    prefix: str
    target: Target
    budget: int
    synchronized: bool = False
    turns: bool = True
    settled: frozenset[str] = frozenset()
    busiest: int = 0
    out: Emitter = field(default_factory=Emitter)
    tree: list[Item] = field(default_factory=list)
    buffers: list[SpmBuffer] = field(default_factory=list)
    constants: list[Constant] = field(default_factory=list)
    scratches: list[Scratch] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    _uses: list[tuple[SpmBuffer, int, tuple[int, ...]]] = field(default_factory=list)
    _loops: list[_Span] = field(default_factory=list)
    _scope: tuple[int, ...] = ()
    _count: int = 0
    _core: int = 0
    _assembled: int = -1
    """Instructions of the phase when all tiles came together last."""
    _symbols: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.registers = Registers(self.out)
        self._body = self.tree
        self.tile = Variable(TILE, 0, self.target.tiles - 1)
        """Number of the tile that runs the program."""

    def buffer(self, name: str, size: int) -> Value:
        """A new scratchpad buffer of ``size`` bytes, alive from its first use in this scope to its last.

        A loop works on its two copies in turns: so a load of the next turn need not wait until this one's
        arithmetic has read its operands. What shall outlive a turn is to be declared outside.
        """
        turn = self._current_turn
        buffer = SpmBuffer(self._unique(name), size, self._scope, doubled=turn is not None)
        self.buffers.append(buffer)
        first = Address(buffer.symbol, 0, buffer)
        return first if turn is None else first + Slot(buffer, turn)

    @property
    def _current_turn(self) -> Variable | None:
        """What chooses between copies here."""
        return self._loops[self._scope[-1]].turn if self._scope else None

    def constant(self, name: str, fmt: Format, data: Array) -> Address:
        """Data of the phase in DDR; the symbol of its first element."""
        return self.constant_made(name, fmt, data.size, lambda: data)

    def constant_made(self, name: str, fmt: Format, size: int, make: Callable[[], Array]) -> Address:
        """The same for ``size`` elements that take time to make: only a program that is kept has them."""
        symbol = self._unique(name)
        self.constants.append(Constant(symbol, fmt, size, make))
        return Address(symbol)

    def scratch(self, name: str, size: int) -> Address:
        """``size`` bytes of DDR for results within the phase."""
        symbol = self._unique(name)
        self.scratches.append(Scratch(symbol, size))
        return Address(symbol)

    def _unique(self, name: str) -> str:
        symbol, number = f"{self.prefix}.{name}", 2
        while symbol in self._symbols:
            symbol, number = f"{self.prefix}.{name}{number}", number + 1
        self._symbols.add(symbol)
        return symbol

    def emit(self, mnemonic: str, /, **arguments: Argument) -> None:
        """One engine instruction; its record says which operands there are. ValueError for any other."""
        found = find(mnemonic)
        if found is None:
            raise ValueError(f"no instruction {mnemonic}")
        record = found[0]
        _check_names(record, arguments)
        with self.registers.scope():
            texts = [f"{name}={self._text(record.operand(name), value)}" for name, value in arguments.items()]
            self.out.instruction(mnemonic, ", ".join(texts))
        self._body.append(Issue(record, mnemonic, arguments, self._core_instructions() - 1))
        self._count += 1

    def _core_instructions(self) -> int:
        """Instructions since the last time this was asked."""
        since, self._core = self.out.instructions - self._core, self.out.instructions
        return since

    def _text(self, operand: Operand, value: Argument) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, float):
            return _decimal(value)
        if isinstance(value, list):
            if all(isinstance(part, int) for part in value):
                return f"[{','.join(map(str, value))}]"
            value = lanes(value)
        self._note(value)
        if isinstance(value, int):
            return hex(value) if operand.is_address or operand.scalar else str(value)
        if isinstance(value, Address):
            return value.text
        if not operand.words:
            raise ValueError(f"operand {operand.name} cannot come from a register")
        return self.registers.compute(value)

    def _note(self, value: Value) -> None:
        """Remember the symbols and buffers of an expression."""
        if isinstance(value, Address):
            self.used.add(value.symbol)
            if value.buffer is not None:
                self._uses.append((value.buffer, self._count, self._scope))
        for part in ("left", "right"):
            if hasattr(value, part):
                self._note(getattr(value, part))

    def claim(self, value: Value) -> None:
        """Give the buffers of an address bytes of their own from here on: other tiles may write there."""
        self._note(value)

    def let(self, value: Value) -> Value:
        """The value in a register of its own to the end of the scope; constants and variables stay."""
        if isinstance(value, int | Variable):
            return value
        self._note(value)
        variable = Variable(self.registers.compute(value), *bounds(value))
        self._body.append(Let(variable, value))
        return variable

    @contextmanager
    def loop(self, count: Value, start: Value = 0, step: int = 1) -> Iterator[Value]:
        """For every value from ``start`` to below ``count``; a single one needs no loop."""
        if count == 1 and start == 0:
            with self.registers.scope():
                yield 0
            return
        number = len(self._loops)
        begin, end = f"{self.prefix}.loop{number}", f"{self.prefix}.end{number}"
        with self.registers.scope():
            index = self._counter(start, highest(count))
            limit = self.registers.compute(count)
            turn = self._turn(ceil_div(highest(count) - bounds(start)[0], step))
            self._loops.append(_Span(number, self._count, turn=turn))
            if bounds(start)[1] >= bounds(count)[0]:
                self._exit_unless(index.register, limit, end)
            self.out.label(begin)
            loop = Loop(index, start, count, step, turn)
            with self._inside(loop, number):
                yield index
            if turn is not None:
                self.out.instruction("not", turn.register, turn.register)
            self._advance(index, step)
            self._exit_unless(index.register, limit, end)
            self.out.instruction("j", begin)
            self.out.label(end)
            loop.core = self._core_instructions()
        self._loops[number].last = self._count - 1

    def _advance(self, index: Variable, step: int) -> None:
        """The next turn's index."""
        if step in IMMEDIATES:
            self.out.instruction("addi", index.register, index.register, str(step))
            return
        with self.registers.scope():
            self.out.instruction("add", index.register, index.register, self.registers.compute(step))

    @contextmanager
    def if_below(self, index: Value, below: Value) -> Iterator[None]:
        """The code of the body runs if ``index`` < ``below``; without a branch where that is known."""
        if bounds(index)[1] < bounds(below)[0]:
            with self.registers.scope():
                yield
            return
        number = len(self._loops)
        self._loops.append(_Span(number, self._count, turn=self._current_turn))
        end = f"{self.prefix}.end{number}"
        with self.registers.scope():
            register = self.registers.compute(index)
            self._exit_unless(register, self.registers.compute(below), end)
            loop = Loop(Variable(register, *bounds(index)), index, below, NEVER_AGAIN)
            with self._inside(loop, number):
                yield
            self.out.label(end)
        self._loops[number].last = self._count - 1

    def if_zero(self, value: Value) -> AbstractContextManager[None]:
        """The code of the body runs if ``value``, which is not negative, is 0."""
        return self.if_below(value, 1)

    def unless_zero(self, value: Value) -> AbstractContextManager[None]:
        """The code of the body runs if ``value``, which is not negative, is not 0."""
        return self.if_below(0, value)

    @contextmanager
    def _inside(self, loop: Loop, number: int) -> Iterator[None]:
        """The body of a loop: a scope of its own for buffers, registers and the tree."""
        scope, body = self._scope, self._body
        body.append(loop)
        self._scope, self._body = (*scope, number), loop.body
        with self.registers.scope():
            yield
        self._scope, self._body = scope, body

    def _turn(self, most: int) -> Variable | None:
        """What chooses between two copies of buffers; None in a loop of at most one turn."""
        if most < 2 or not self.turns:
            return None
        register = self.registers.take()
        self.out.instruction("li", register, "0")
        return Variable(register, -1, 0)

    def _counter(self, start: Value, end: int) -> Variable:
        register = self.registers.take()
        if isinstance(start, int):
            self.out.instruction("li", register, str(start))
        else:
            with self.registers.scope():
                self.out.instruction("mv", register, self.registers.compute(start))
        return Variable(register, bounds(start)[0], end - 1)

    def _exit_unless(self, index: str, limit: str, end: str) -> None:
        """Branches reach 4 KiB, which is a few dozen engine instructions; jumps reach 1 MiB."""
        self.out.instruction("blt", index, limit, "1f")
        self.out.instruction("j", end)
        self.out.label("1")

    @contextmanager
    def items(self, count: int, first: int = 0) -> Iterator[Value]:
        """This tile's work items: ``count`` of them are dealt round robin, the first to tile ``first``."""
        tiles = self.target.tiles
        shift = -first % tiles
        start: Value = self.tile if tiles > 1 else 0
        if shift:
            start = (self.tile + shift) % tiles
        with self.loop(count, start, tiles) as item:
            yield item

    @contextmanager
    def grouped_items(
        self, groups: int, size: int, first: int, prepare: Callable[[Value], Prepared]
    ) -> Iterator[tuple[Value, Value, Prepared]]:
        """Work items in groups of ``size`` that share what ``prepare`` loads: (group, item, prepared).

        A group large enough for all tiles is prepared once by each of them; otherwise groups are spread over
        the tiles and prepared for every item.
        """
        if size >= self.target.tiles:
            with self.loop(groups) as group:
                prepared = prepare(group)
                with self.items(size, first) as item:
                    yield group, item, prepared
            return
        with self.items(groups * size, first) as item:
            group = self.let(item // size)
            yield group, self.let(item % size), prepare(group)

    def begin(self) -> None:
        """Wait, if the phase has to, until all tiles have written what earlier phases compute.

        A lowering that is registered with ``prefetch`` calls it before it touches any such data, and may
        load constants earlier.
        """
        if self.synchronized:
            self.synchronized = False
            self.synchronize()

    def synchronize(self) -> None:
        """Every tile waits until all have written what they were writing."""
        self.emit("ncc.wait")
        if self.target.tiles > 1:
            self.emit("ncc.barrier", tiles=(1 << self.target.tiles) - 1)
        self._assembled = self._count

    def assemble(self) -> None:
        """All tiles come here, done with all before; nothing to do where a phase begins with that."""
        if self._assembled != self._count:
            self.synchronize()

    def place_buffers(self) -> None:
        """Give the buffers their addresses; SpmOverflow when they do not fit.

        First every buffer of a loop gets bytes of its own, and a second copy if the loop uses them in turns,
        so that the load of the next turn, the arithmetic of this one and its store can overlap. If that is
        too much, outer loops do without copies; then bytes are used again after a buffer's last use, and the
        largest copies are given up, one after the other.
        """
        for reuse, copied in self._ways_to_place():
            try:
                self._place(reuse, copied)
                return
            except SpmOverflow:
                continue
        self._place(True, [])

    def _ways_to_place(self) -> Iterator[tuple[bool, list[SpmBuffer]]]:
        """Whether bytes are used again, and the buffers with copies; the best way first."""
        turned = [buffer for buffer in self.buffers if buffer.doubled]
        for depth in sorted({len(buffer.scope) for buffer in turned}):
            turned = [buffer for buffer in turned if len(buffer.scope) >= depth]
            yield False, turned
        yield True, turned
        for most in sorted({buffer.span for buffer in turned}, reverse=True):
            yield True, [buffer for buffer in turned if buffer.span < most]
        yield False, []

    def _place(self, reuse: bool, copied: list[SpmBuffer]) -> None:
        for buffer in self.buffers:
            buffer.first = buffer.last = buffer.address = buffer.second = -1
        for buffer, position, scope in self._uses:
            depth = len(buffer.scope) if reuse else 0
            if len(scope) > depth:
                loop = self._loops[scope[depth]]
                buffer.use(loop.first, loop.last)
            else:
                buffer.use(position, position)
        SpmAllocator(self.target.spm_bytes).place(self.buffers, copied)

    def mirror(self) -> None:
        """Count the addresses of the buffers from the end of the scratchpad.

        When every other phase does, the first loads of a phase do not wait for the last buffers of another.
        """
        for buffer in self.buffers:
            if buffer.address >= 0:
                end = self.target.spm_bytes - buffer.span
                buffer.address = end - buffer.address
                buffer.second = end - buffer.second if buffer.second >= 0 else -1

    @property
    def spm_bytes(self) -> int:
        """Scratchpad bytes up to the end of the last buffer."""
        return max((max(b.address, b.second) + b.span for b in self.buffers if b.address >= 0), default=0)

    def text(self) -> list[str]:
        """The lines of the phase, once the buffers are placed."""
        placed = [b for b in self.buffers if b.address >= 0]
        equations = [f"        .equ {b.symbol}, {b.address:#x}  # {b.size} bytes" for b in placed]
        equations += [f"        .equ {b.distance_symbol}, {b.distance}" for b in placed if b.doubled]
        return equations + self.out.lines


def _decimal(value: float) -> str:
    """The shortest decimal fraction of a number, as FP32 if it is one."""
    with np.errstate(over="ignore"):
        single = np.float32(value)
    text = str(single) if float(single) == value else repr(value)
    return text if set(text) & set(".ein") else f"{text}.0"


def _check_names(record: Instruction, arguments: dict[str, Argument]) -> None:
    fields = {operand.name: operand for operand in record.visible}
    unknown = [name for name in arguments if name not in fields]
    missing = [name for name, field in fields.items() if field.default is None and name not in arguments]
    if unknown or missing:
        raise ValueError(f"{record.mnemonic}: unknown operands {unknown}, missing operands {missing}")
