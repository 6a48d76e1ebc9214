"""Spilling: chooses the values of a phase that leave the kernel core's registers if these do not suffice.

A phase is first generated as if there were any number of registers. If more values are alive than there are
registers, some of the values kept to the end of a scope are spilled, and the phase is generated again. A
spilled value is in the stack, or recomputed at every use if that takes no more instructions than a load and a
store. A reload needs a register for a moment, so this may take a few rounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from compiler.codegen.expr import Address, Operation, Slot, Value
from tx8isa.errors import Tx8Error
from tx8isa.numbers.division import round_up

TURNS = 8
"""Assumed number of iterations of a loop when the uses of values are weighed."""
CHEAP = 2
"""Most instructions for recomputing a value instead of loading it from the stack."""
WORD = 8
"""Bytes of a value in the stack."""
LARGEST_FRAME = 2032
"""Bytes of stack that loads, stores and the change of the stack pointer reach with their 12 bits."""


class OutOfRegisters(Tx8Error):
    """Raised if more values are alive than the core has registers, and kept values cannot be spilled."""


@dataclass(frozen=True)
class Shortage:
    """A place in the code with more values than ``registers``, by ``excess``.

    ``kept`` numbers the values in registers that could be spilled there.
    """

    registers: int
    excess: int
    kept: tuple[int, ...]


@dataclass
class Spills:
    """Decides which values of a phase are spilled, from the shortages of registers.

    Values that are kept are numbered in the order of the code, which is the same in every round.
    """

    chosen: frozenset[int] = frozenset()
    shortages: list[Shortage] = field(default_factory=list)
    weights: Counter[int] = field(default_factory=Counter)
    """The uses of each kept value; uses in loops are weighted by iterations."""

    def more(self) -> frozenset[int]:
        """Values to be spilled as well, none if there is no shortage; OutOfRegisters if none would help."""
        added: set[int] = set()
        for shortage in sorted(self.shortages, key=lambda shortage: -shortage.excess):
            added |= self._chosen_for(shortage, added)
        return frozenset(added)

    def _chosen_for(self, shortage: Shortage, added: set[int]) -> set[int]:
        """The least used values that end a shortage, in addition to the values already chosen."""
        missing = shortage.excess - len(added & set(shortage.kept))
        others = sorted(set(shortage.kept) - added, key=lambda number: (self.weights[number], number))
        if len(others) < missing:
            values = shortage.registers + shortage.excess
            raise OutOfRegisters(
                f"{values} values at once; the kernel core has {shortage.registers} registers"
            )
        return set(others[: max(missing, 0)])


def is_cheap(value: Value) -> bool:
    """True if a value can be recomputed with at most ``CHEAP`` instructions."""
    return _instructions(value) <= CHEAP


def _instructions(value: Value) -> int:
    """Rough number of the core's instructions that compute a value."""
    if isinstance(value, Operation):
        operands = [part for part in (value.left, value.right) if not isinstance(part, int)]
        return sum(map(_instructions, operands)) + (4 if value.op in ("min", "max") else 1)
    if isinstance(value, Address | Slot):
        return 2
    return int(isinstance(value, int))


def frame_bytes(words: int) -> int:
    """Bytes of stack for ``words`` values, a multiple of 16 as the calling convention requires."""
    return round_up(words * WORD, 16)


class Spillable(Protocol):
    """Code that has been generated with some values in the stack."""

    def more_spills(self) -> frozenset[int]:
        """Further values to spill; none if all remaining ones have registers."""


Code = TypeVar("Code", bound=Spillable)


def fitting(make: Callable[[Spills], Code], spilling: bool = True) -> Code:
    """Return the code that ``make`` generates, with values in the stack where registers run out.

    ``make`` must generate the same code every time, apart from spills and reloads. OutOfRegisters if nothing
    may be spilled, or if that is not enough; errors of ``make`` are passed on.
    """
    chosen: frozenset[int] = frozenset()
    while True:
        code = make(Spills(chosen))
        more = code.more_spills()
        if not more:
            return code
        if not spilling:
            raise OutOfRegisters("more values are alive at once than the kernel core has registers")
        chosen |= more
