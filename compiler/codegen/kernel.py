"""The code of one phase: engine instructions from their records, loops, scratchpad buffers, constants."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from compiler.evaluation.sizes import Size, always, most
from compiler.graph import Array
from tx8isa.numbers.division import ceil_div
from tx8isa.numbers.formats import Format

from .emitter import Emitter
from .expr import Address, Operation, Slot, Value, Variable, bounds, buffers_of, highest, lanes
from .moves import within_scratchpad
from .phase import Constant, Origin, Scratch, Target
from .registers import TILE, Turns, registers_for
from .registers.branches import exit_unless, shorten_exit, shorten_turn
from .spilling import Spills
from .spm import Copies, InstructionSpan, PhaseBuffers, SpmBuffer
from .tree import (
    STEP_OF_CONDITION,
    Argument,
    EngineLine,
    Gap,
    Issue,
    Item,
    Let,
    LineRange,
    Loop,
    Syntax,
    syntax_of,
)

__all__ = ["Argument", "Constant", "Kernel", "Scratch", "Target"]


@dataclass
class Kernel:
    """Collects the code of one phase.

    ``prefix`` begins all its symbols. ``budget`` are the scratchpad bytes that the slices of the lowering
    together should not exceed. ``synchronized``: the phase uses data that other tiles wrote, so it must wait
    for them (``await_earlier_phases``). ``settled`` are the symbols of operands that were complete at the
    barrier before that, and can be read earlier. ``busiest`` is a tile that has as much work as any other;
    the estimated time of the phase is that of this tile. ``spills`` says which values are in the stack.
    ``worker`` gets the instructions. ``reordering``: slices may be loaded and stored in long runs and
    reordered in the scratchpad, which takes bytes for a second copy (``slices/long_runs.py``).
    """

    prefix: str
    target: Target
    budget: int
    synchronized: bool = False
    settled: frozenset[str] = frozenset()
    busiest: int = 0
    spills: Spills = field(default_factory=Spills)
    worker: int = 0
    reordering: bool = True
    out: Emitter = field(default_factory=Emitter)
    tree: list[Item] = field(default_factory=list)
    spm: PhaseBuffers = field(default_factory=PhaseBuffers)
    constants: list[Constant] = field(default_factory=list)
    scratches: list[Scratch] = field(default_factory=list)
    used: set[str] = field(default_factory=set)  # symbols that occur in the code
    gaps: list[Gap] = field(default_factory=list)
    """Places between the outermost items of the tree."""
    met_at: int | None = None
    """The line after the wait for earlier phases; None without one."""
    workers: set[int] = field(default_factory=set)  # besides 0, those that execute parts of the phase
    released: dict[int, int] = field(default_factory=dict)  # by worker: the line after its last use here
    received: set[SpmBuffer] = field(default_factory=set)
    """Buffers that other tiles write to."""
    _in_background: dict[int, set[SpmBuffer]] = field(default_factory=dict)  # by workers other than 0
    reordered: bool = False  # whether any slice is reordered
    node: str = ""
    """The graph node being computed, in a phase of several; empty if unknown."""
    on_core: bool = False  # whether the kernel core computes elements of tensors (``slices/scalar.py``)
    maintained: int = 0  # places where the core cleans or invalidates its whole cache
    links: int = 0  # cycles that links between chips take
    early: int = 0  # bytes of weights with which the phase begins; more can be loaded before it
    scope: tuple[int, ...] = ()
    """Numbers of the loops around the current position, the outermost first."""
    copies: Copies | None = None  # the buffers with second copies, if that is decided
    again: Callable[[Copies], Kernel] | None = None  # generates the code again when copies are decided
    _parity: Variable | None = None
    """The variable that chooses between two copies of buffers at the current position."""
    count: int = 0  # engine instructions so far
    _counted: int = 0  # lines of code that ``_instructions_since`` has counted
    _synchronized_at: int = -1  # value of ``count`` when all tiles met last
    _symbols: set[str] = field(default_factory=set)
    _kept: dict[Variable, Value] = field(default_factory=dict)
    """The value of each variable. An instruction that reads the variable uses the buffers in that value."""

    def __post_init__(self) -> None:
        self.spm.settle(self.copies, self.target.smallest)
        self.registers = registers_for(self.target, self.out, self.spills, self.copies)
        self._turns = Turns(self.registers, self.copies)
        self._body = self.tree
        self.tile: Value = Variable(TILE, 0, self.target.tiles - 1)
        """Number of the tile that runs the program."""

    def buffer(self, name: str, size: int) -> Value:
        """The address of a new scratchpad buffer of ``size`` bytes.

        It is alive from its first use in this scope to its last. A loop uses two copies of it in turns if
        there is room, so that a load of the next iteration need not wait until the arithmetic of this one has
        read its operands. A buffer whose content is needed after an iteration must be declared outside of
        the loop.
        """
        symbol = self._unique(name)
        parity, turning = self._turns.of(symbol, self._parity)
        buffer = SpmBuffer(symbol, size, self.scope, node=self.node, turning=turning)
        self.spm.buffers.append(buffer)
        first = Address(buffer.symbol, 0, buffer)
        return first if parity is None else first + Slot(buffer, parity)

    def constant(self, name: str, fmt: Format, data: Array) -> Address:
        """The address of constant data in DDR."""
        return self.lazy_constant(name, fmt, data.size, lambda: data)

    def lazy_constant(
        self, name: str, fmt: Format, size: int, make: Callable[[], Array], origin: Origin | None = None
    ) -> Address:
        """The address of ``size`` elements; ``make`` computes them once an origin."""
        symbol = self._unique(name)
        self.constants.append(Constant(symbol, fmt, size, make, origin))
        return Address(symbol)

    def scratch(self, name: str, size: int) -> Address:
        """The address of ``size`` bytes of DDR for intermediate results of the phase."""
        symbol = self._unique(name)
        self.scratches.append(Scratch(symbol, most(size)))
        return Address(symbol)

    def _unique(self, name: str) -> str:
        symbol, number = f"{self.prefix}.{name}", 2
        while symbol in self._symbols:
            symbol, number = f"{self.prefix}.{name}{number}", number + 1
        self._symbols.add(symbol)
        return symbol

    def emit(self, mnemonic: str, /, **arguments: Argument) -> None:
        """Write one engine instruction; ValueError if its record has other operands."""
        mnemonic, arguments = within_scratchpad(mnemonic, arguments, self._kept)
        syntax = syntax_of(mnemonic)
        syntax.check(arguments)
        self._begin_item()
        if mnemonic == "dte.wait":  # other code can be inserted before it, which takes free registers
            self.registers.forget_all()
        first = self.out.count
        with self.registers.scope():
            operands = self._operands(syntax, arguments)
            self.out.add(EngineLine(mnemonic, syntax, operands, self.worker))
        lines = LineRange(first, self.out.count)
        core = self._instructions_since() - 1
        issue = Issue(syntax.record, mnemonic, arguments, core, lines, self.count, self.worker, self.node)
        self._body.append(issue)
        self.count += 1

    def _begin_item(self) -> None:
        if self._body is self.tree:
            self.gaps.append(Gap(len(self.tree), self.out.count, self.count, self.registers.free))

    def _instructions_since(self) -> int:
        """Instructions of the kernel core and of engines since the last call."""
        since, self._counted = self.out.instructions - self._counted, self.out.instructions
        return since

    def _operands(self, syntax: Syntax, arguments: dict[str, Argument]) -> dict[str, Argument]:
        """The operands, with registers for values that the core computes before the instruction."""
        found = dict(arguments)
        for name, value in arguments.items():
            if isinstance(value, int | str | float):
                continue
            if isinstance(value, list):
                if all(isinstance(part, int) for part in value):
                    continue
                value = lanes(value)
            self._record_uses(value)
            if isinstance(value, int | Address):
                found[name] = value
            elif syntax.operands[name].words:
                found[name] = self.registers.operand(value)
            elif not isinstance(value, Size):
                raise ValueError(f"operand {name} cannot come from a register")
            else:
                found[name] = int(value)
        return found

    def _record_uses(self, value: Value) -> None:
        """Remember the symbols and buffers of an expression."""
        if isinstance(value, Address):
            self.used.add(value.symbol)
            if value.buffer is not None:
                self.spm.use(value.buffer, self.count, self.scope)
                if self.worker:
                    self._in_background.setdefault(self.worker, set()).add(value.buffer)
        elif isinstance(value, Operation):
            self._record_uses(value.left)
            self._record_uses(value.right)
        elif isinstance(value, Variable) and value in self._kept:
            self._record_uses(self._kept[value])

    def keep_alive(self, value: Value) -> None:
        """Extend the live ranges of the buffers of an address to here.

        For bytes that other tiles or the DTE access, invisibly to this tile's instructions.
        """
        self._record_uses(value)

    def receive(self, value: Value) -> None:
        """Declare that from here on other tiles may write to the buffers of an address."""
        self._record_uses(value)
        self.received |= set(buffers_of(value))

    def let(self, value: Value) -> Value:
        """The value in a register of its own to the end of the scope; constants and variables unchanged."""
        if isinstance(value, int | Variable):
            return value
        self._record_uses(value)
        kept = self.registers.keep(value)
        if isinstance(kept, Variable):
            self._body.append(Let(kept, value))
            self._kept[kept] = value
        return kept

    @contextmanager
    def loop(self, count: Value, start: Value = 0, step: int = 1) -> Iterator[Value]:
        """The code of the body for each value from ``start`` to before ``count``, a loop unless it is one."""
        count = self.registers.forms.settled(count)
        if always(count == 1) and always(start == 0):
            with self.registers.scope():
                yield 0
            return
        number = len(self.spm.loops)
        begin, end = f"{self.prefix}.loop{number}", f"{self.prefix}.end{number}"
        self._begin_item()
        line = self.out.count
        with self.registers.scope():
            index = self.registers.counter(start, bounds(start)[0], highest(count) - 1)
            limit = self.registers.keep(count)
            parity = self._turns.variable(number, ceil_div(highest(count) - bounds(start)[0], step))
            self.spm.loops.append(InstructionSpan(self.count))
            runs = self.registers.forms.is_below(start, count) or always(bounds(start)[1] < bounds(count)[0])
            first = None if runs else self.exit_unless(index, limit, end)
            self.registers.label_of_loop(begin)
            loop = Loop(index, start, count, step, line, parity)
            with self._inside(loop, number, parity):
                yield index
            self._turns.change(parity)
            self.registers.add(index, step)
            last = self.exit_unless(index, limit, end)
            self.out.instruction("j", begin)
            self.registers.label_of_loop(end)
            shorten_turn(self.registers, last, begin, line)
            shorten_exit(self.registers, first, end)
            loop.core = self._instructions_since()
        self.spm.loops[number].last = self.count - 1

    @contextmanager
    def if_below(self, index: Value, below: Value) -> Iterator[None]:
        """Run the body if ``index`` < ``below``; without a branch where that is known."""
        is_below = self.registers.forms.is_below(index, below)
        if is_below or always(bounds(index)[1] < bounds(below)[0]):
            with self.registers.scope():
                yield
            return
        number = len(self.spm.loops)
        self.spm.loops.append(InstructionSpan(self.count))
        end = f"{self.prefix}.end{number}"
        self._begin_item()
        line = self.out.count
        with self.registers.scope():
            kept, limit = self.registers.keep(index, once=True), self.registers.keep(below, once=True)
            branch = self.exit_unless(kept, limit, end)
            skipped = self.registers.state()
            variable = kept if isinstance(kept, Variable) else Variable("", *bounds(index))
            loop = Loop(variable, index, below, STEP_OF_CONDITION, line)
            with self._inside(loop, number, self._parity):
                yield
            self.registers.join(end, skipped)
            shorten_exit(self.registers, branch, end, is_reached=is_below is not False)
        self.spm.loops[number].last = self.count - 1

    def if_zero(self, value: Value) -> AbstractContextManager[None]:
        """Run the body if ``value``, which is not negative, is 0."""
        return self.if_below(value, 1)

    def unless_zero(self, value: Value) -> AbstractContextManager[None]:
        """Run the body if ``value``, which is not negative, is not 0."""
        return self.if_below(0, value)

    @contextmanager
    def _inside(self, loop: Loop, number: int, parity: Variable | None) -> Iterator[None]:
        """The body of a loop, with a scope of its own for buffers and registers."""
        outside = self.scope, self._body, self._parity
        self._body.append(loop)
        self.scope, self._body, self._parity = (*self.scope, number), loop.body, parity
        self.registers.depth += not loop.condition
        with self.registers.scope():
            yield
        self.registers.depth -= not loop.condition
        self.scope, self._body, self._parity = outside

    def exit_unless(self, index: Value, limit: Value, end: str) -> int:
        """Jump to ``end`` unless ``index`` < ``limit``; the number of the line with the branch."""
        return exit_unless(self.registers, index, limit, end)

    @contextmanager
    def items(self, count: Value, first: int = 0) -> Iterator[Value]:
        """The work items of this tile of ``count``, distributed round robin; tile ``first`` has the first."""
        tiles = self.target.tiles
        shift = -first % tiles
        start: Value = self.tile if tiles > 1 else 0
        if not always(shift == 0):
            start = (self.tile + shift) % tiles
        with self.loop(count, start, tiles) as item:
            yield item

    def await_earlier_phases(self) -> None:
        """Wait, if the phase has to, until all tiles have written the results of earlier phases.

        A lowering that is registered with ``prefetch`` calls it before it uses any such data, and may load
        constants earlier.
        """
        if self.synchronized:
            self.synchronized = False
            self.synchronize()
            self.met_at = self.out.count

    def synchronize(self) -> None:
        """Every tile waits until all tiles have completed their instructions."""
        self.emit("ncc.wait")
        self.meet()

    @contextmanager
    def on_worker(self, worker: int) -> Iterator[None]:
        """The engine instructions inside are issued to another worker of the engines.

        Only ``await_worker`` orders them with those of other workers.
        """
        before, self.worker = self.worker, worker
        self.workers |= {worker} - {0}
        yield
        self.worker = before

    @contextmanager
    def computing(self, node: str) -> Iterator[None]:
        """Mark the instructions and buffers inside as those of a graph node, for reports."""
        before, self.node = self.node, node
        yield
        self.node = before

    def await_worker(self, worker: int) -> None:
        """Wait until all instructions of a worker are complete; until here their buffers are alive."""
        for buffer in self._in_background.pop(worker, ()):
            self.spm.use(buffer, self.count, self.scope)
        with self.on_worker(worker):
            self.emit("ncc.wait")

    def meet(self) -> None:
        """All tiles meet; their engines and copies must be complete, except those of other workers."""
        if self.target.tiles > 1:
            self.emit("ncc.barrier", tiles=(1 << self.target.tiles) - 1)
        self._synchronized_at = self.count

    def ensure_synchronized(self) -> None:
        """``synchronize``, unless no engine instruction has been issued since the last time."""
        if self._synchronized_at != self.count:
            self.synchronize()

    def more_spills(self) -> frozenset[int]:
        """Further values to spill; OutOfRegisters if none helps or the stack is too small."""
        return self.registers.more_spills(self.target.stack_bytes)

    def place_buffers(self) -> None:
        """Give the buffers their addresses; SpmOverflow if they do not fit."""
        for buffer in self.spm.buffers:
            buffer.size = most(buffer.size)
        self.spm.place(self.target.spm_bytes)

    def mirror(self) -> None:
        """Count the addresses of the buffers from the end of the scratchpad. When every other phase does, the
        first loads of a phase do not wait for the last buffers of another."""
        self.spm.mirror(self.target.spm_bytes)

    @property
    def spm_bytes(self) -> int:
        """Scratchpad bytes up to the end of the last buffer."""
        return self.spm.end

    def text(self) -> list[str]:
        """The lines of the phase, once the buffers are placed."""
        return self.spm.definitions() + self.with_frame(self.out.lines)

    def with_frame(self, lines: list[str]) -> list[str]:
        """Code of the phase with room for spilled values in the stack, if there are any."""
        return self.registers.with_frame(lines)
