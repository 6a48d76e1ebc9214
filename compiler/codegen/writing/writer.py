"""Engine instructions from their records, and the values of the kernel core that they need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from typing import NamedTuple

from compiler.codegen.emitter import Emitter
from compiler.codegen.expr import Address, Operation, Slot, Value, Variable, buffers_of, lanes
from compiler.codegen.phase import Target
from compiler.codegen.registers import TILE, Registers, Turns, registers_for
from compiler.codegen.registers.spilling import Spills
from compiler.codegen.spm import Copies, PhaseBuffers, SpmBuffer
from compiler.codegen.tree import Argument, EngineLine, Gap, Issue, Item, Let, LineRange, Syntax, syntax_of
from compiler.evaluation.sizes import Size

from .moves import within_scratchpad


class CodePlace(NamedTuple):
    """A place in the code. ``line`` and ``number``: its next line and next engine instruction; ``free``: the
    registers that hold no value there; ``uses``: the uses of buffers that are recorded before it."""

    line: int
    number: int
    free: tuple[str, ...]
    uses: int


class Aside:
    """Code for an earlier place: its lines and its items of the tree."""

    def __init__(self, place: CodePlace) -> None:
        self.place, self.out, self.items = place, Emitter(), list[Item]()
        self._spills = Spills()
        self.registers = Registers(self.out, self._spills)
        self.registers.limit(place.free)

    @property
    def fits(self) -> bool:
        """False if it needs more registers than are free at its place."""
        return not self._spills.shortages


@dataclass
class CodeWriter:
    """Writes instructions, as text and as a tree, and records which instructions use which buffers.

    ``prefix`` begins all symbols of the code. ``spills`` says which values are in the stack. ``copies`` says
    which buffers have second copies, if that is decided. ``worker`` gets the instructions. ``ahead``: loops
    may load the slice of their next iteration before they compute (``ahead.py``).
    """

    prefix: str
    target: Target
    _: KW_ONLY
    spills: Spills = field(default_factory=Spills)
    copies: Copies | None = None
    ahead: bool = False
    worker: int = 0
    node: str = ""
    """The graph node being computed, in a phase of several; empty if unknown."""
    out: Emitter = field(default_factory=Emitter)
    tree: list[Item] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    """Places between the outermost items of the tree."""
    spm: PhaseBuffers = field(default_factory=PhaseBuffers)
    used: set[str] = field(default_factory=set)  # symbols that occur in the code
    workers: set[int] = field(default_factory=set)
    """The workers other than 0 that execute parts of the phase."""
    received: set[SpmBuffer] = field(default_factory=set)
    """Buffers that other tiles write to."""
    scope: tuple[int, ...] = ()
    """Numbers of the loops around the current position, the outermost first."""
    parity: Variable | None = None
    """The variable that chooses between two copies of buffers at the current position."""
    count: int = 0  # engine instructions so far
    counted: int = 0  # instructions that ``instructions_since`` has counted
    values: dict[Variable, Value] = field(default_factory=dict)
    """The value of each kept variable. An instruction that reads it uses the buffers in that value."""
    loop_variables: set[Variable] = field(default_factory=set)
    """The indices of loops, and the variables that choose between two copies."""
    _symbols: set[str] = field(default_factory=set)
    _reached: dict[Variable, tuple[Address, ...]] = field(default_factory=dict)
    """The addresses in the value of each kept variable, also by the variables in it."""
    _in_background: dict[int, set[SpmBuffer]] = field(default_factory=dict)  # by workers other than 0

    def __post_init__(self) -> None:
        self.spm.settle(self.copies, self.target.small)
        self.registers = registers_for(self.target, self.out, self.spills, self.copies)
        self.turns = Turns(self.registers, self.copies)
        self.body = self.tree
        self.tile: Value = Variable(TILE, 0, self.target.tiles - 1)
        """Number of the tile that runs the program."""

    def buffer(self, name: str, size: int) -> Value:
        """The address of a new scratchpad buffer of ``size`` bytes.

        It is alive from its first use in this scope to its last. A loop alternates between two copies of it
        if there is room, so that a load of the next iteration need not wait until the arithmetic of this one
        has read its operands. A buffer whose content is needed after an iteration must be declared outside of
        the loop.
        """
        symbol = self.unique(name)
        parity, turning = self.turns.of(symbol, self.parity)
        buffer = SpmBuffer(symbol, size, self.scope, node=self.node, turning=turning)
        self.spm.buffers.append(buffer)
        first = Address(buffer.symbol, 0, buffer)
        return first if parity is None else first + Slot(buffer, parity)

    def unique(self, name: str) -> str:
        """A symbol of the phase that nothing else has."""
        symbol, number = f"{self.prefix}.{name}", 2
        while symbol in self._symbols:
            symbol, number = f"{self.prefix}.{name}{number}", number + 1
        self._symbols.add(symbol)
        return symbol

    def emit(self, mnemonic: str, /, **arguments: Argument) -> None:
        """Write one engine instruction; ValueError if its record has other operands."""
        mnemonic, arguments = within_scratchpad(mnemonic, arguments, self.values)
        syntax = syntax_of(mnemonic)
        syntax.check(arguments)
        self.begin_item()
        if mnemonic == "dte.wait":  # other code can be inserted before it, which takes free registers
            self.registers.forget_all()
        first = self.out.count
        with self.registers.scope():
            operands = self._operands(syntax, arguments)
            self.out.add(EngineLine(mnemonic, syntax, operands, self.worker))
        lines = LineRange(first, self.out.count)
        core = self.instructions_since() - 1
        issue = Issue(syntax.record, mnemonic, arguments, core, lines, self.count, self.worker, self.node)
        self.body.append(issue)
        self.count += 1

    def begin_item(self) -> None:
        """Remember the place before an outermost item of the tree."""
        if self.body is self.tree:
            self.gaps.append(Gap(len(self.tree), self.out.count, self.count, self.registers.free))

    def instructions_since(self) -> int:
        """Instructions of the kernel core and of engines since the last call."""
        since, self.counted = self.out.instructions - self.counted, self.out.instructions
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
            self.keep_alive(value)
            if isinstance(value, int | Address):
                found[name] = value
            elif syntax.operands[name].words:
                found[name] = self.registers.operand(value)
            elif not isinstance(value, Size):
                raise ValueError(f"operand {name} cannot come from a register")
            else:
                found[name] = int(value)
        return found

    def keep_alive(self, value: Value) -> None:
        """Extend the live ranges of the buffers of an address to here; its symbols are used.

        Use it also for bytes that other tiles or the DTE access, since this tile's instructions do not show
        that.
        """
        for address in self._addresses(value):
            self.used.add(address.symbol)
            if address.buffer is not None:
                self.spm.use(address.buffer, self.count, self.scope)
                if self.worker:
                    self._in_background.setdefault(self.worker, set()).add(address.buffer)

    def _addresses(self, value: Value) -> tuple[Address, ...]:
        """The addresses from which a value is computed."""
        if isinstance(value, Operation):
            return self._addresses(value.left) + self._addresses(value.right)
        if isinstance(value, Variable):
            return self._reached.get(value, ())
        return (value,) if isinstance(value, Address) else ()

    def receive(self, value: Value) -> None:
        """Declare that from here on other tiles may write to the buffers of an address."""
        self.keep_alive(value)
        self.received |= set(buffers_of(value))

    def let(self, value: Value) -> Value:
        """The value in a register of its own to the end of the scope; constants and variables unchanged."""
        if isinstance(value, int | Variable):
            return value
        self.keep_alive(value)
        kept = self.registers.keep(value)
        if isinstance(kept, Variable):
            self.body.append(Let(kept, value))
            self.values[kept] = value
            self._reached[kept] = tuple(
                {address.symbol: address for address in self._addresses(value)}.values()
            )
        return kept

    @property
    def place(self) -> CodePlace:
        """The current position."""
        return CodePlace(self.out.count, self.count, self.registers.free, self.spm.recorded)

    @contextmanager
    def aside(self, place: CodePlace, number: int) -> Iterator[Aside]:
        """Write the code of the block at an earlier place; its first engine instruction is ``number``."""
        outside = self.out, self.registers, self.body, self.count, self.counted
        aside = Aside(place)
        self.out, self.registers, self.body = aside.out, aside.registers, aside.items
        self.count, self.counted = number, 0
        yield aside
        self.out, self.registers, self.body, self.count, self.counted = outside

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
        """Mark the instructions and buffers inside as a graph node's, for reports."""
        before, self.node = self.node, node
        yield
        self.node = before

    def await_worker(self, worker: int) -> None:
        """Wait until all instructions of a worker are complete; until here their buffers are alive."""
        for buffer in self._in_background.pop(worker, ()):
            self.spm.use(buffer, self.count, self.scope)
        with self.on_worker(worker):
            self.emit("ncc.wait")
