"""The code of one phase: engine instructions from their records, loops, scratchpad buffers, constants."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from compiler.evaluation.sizes import always, most
from compiler.graph import Array
from tx8isa.numbers.formats import Format

from .expr import Address, Value
from .phase import Constant, Origin, Scratch, Target
from .spm import Copies
from .tree import Argument
from .writing import CodeWriter, if_below, loop

__all__ = ["Argument", "Constant", "Kernel", "Scratch", "Target"]


@dataclass
class Kernel(CodeWriter):
    """Collects the code of one phase.

    ``budget`` are the scratchpad bytes that the slices of the lowering together should not exceed.
    ``synchronized``: the phase uses data that other tiles wrote, so it must wait for them
    (``await_earlier_phases``). ``settled`` are the symbols of operands that were complete at the barrier
    before that, and can be read earlier. ``busiest`` is a tile that has as much work as any other; the
    estimated time of the phase is that of this tile. ``reordering``: slices may be loaded and stored in long
    runs and reordered in the scratchpad, which takes bytes for a second copy (``slices/long_runs.py``).
    """

    budget: int
    synchronized: bool = False
    settled: frozenset[str] = frozenset()
    busiest: int = 0
    reordering: bool = True
    constants: list[Constant] = field(default_factory=list)
    scratches: list[Scratch] = field(default_factory=list)
    met_at: int | None = None
    """The line after the wait for earlier phases; None without one."""
    released: dict[int, int] = field(default_factory=dict)  # by worker: the line after its last use here
    reordered: bool = False  # whether any slice is reordered
    on_core: bool = False  # whether the kernel core computes elements of tensors (``slices/scalar.py``)
    maintained: int = 0  # places where the core cleans or invalidates its whole cache
    links: int = 0  # cycles that links between chips take
    early: int = 0  # bytes of weights with which the phase begins; more can be loaded before it
    again: Callable[[Copies], Kernel] | None = None  # generates the code again when copies are decided
    _synchronized_at: int = -1  # value of ``count`` when all tiles met last

    def constant(self, name: str, fmt: Format, data: Array) -> Address:
        """The address of constant data in DDR."""
        return self.lazy_constant(name, fmt, data.size, lambda: data)

    def lazy_constant(
        self, name: str, fmt: Format, size: int, make: Callable[[], Array], origin: Origin | None = None
    ) -> Address:
        """The DDR address of ``size`` constant elements, which ``make`` computes once for each origin."""
        symbol = self.unique(name)
        self.constants.append(Constant(symbol, fmt, size, make, origin))
        return Address(symbol)

    def scratch(self, name: str, size: int) -> Address:
        """The address of ``size`` bytes of DDR for intermediate results of the phase."""
        symbol = self.unique(name)
        self.scratches.append(Scratch(symbol, most(size)))
        return Address(symbol)

    def loop(self, count: Value, start: Value = 0, step: int = 1) -> AbstractContextManager[Value]:
        """Run the body for each value from ``start`` to ``count`` - 1; a single value needs no loop."""
        return loop(self, count, start, step)

    def if_below(self, index: Value, below: Value) -> AbstractContextManager[None]:
        """Run the body if ``index`` < ``below``; without a branch where that is known."""
        return if_below(self, index, below)

    def if_zero(self, value: Value) -> AbstractContextManager[None]:
        """Run the body if ``value``, which is not negative, is 0."""
        return self.if_below(value, 1)

    def unless_zero(self, value: Value) -> AbstractContextManager[None]:
        """Run the body if ``value``, which is not negative, is not 0."""
        return self.if_below(0, value)

    @contextmanager
    def items(self, count: Value, first: int = 0) -> Iterator[Value]:
        """This tile's work items of ``count``, distributed round robin; tile ``first`` has the first."""
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
        """Count the addresses of the buffers from the end of the scratchpad. If every second phase does so,
        the first loads of a phase do not wait for the last buffers of the phase before."""
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
