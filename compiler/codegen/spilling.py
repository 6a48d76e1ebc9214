"""Which values of a phase leave the registers of the kernel core when these do not suffice.

A phase is first generated as if there were any number of registers. Where more values are alive than there
are registers, some of those that are kept to the end of a scope are chosen, and the phase is generated again
with these in the stack, or computed anew at every use if that takes no more instructions than a load and a
store would. A reload needs a register for a moment, so this may take a few rounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from tx8isa.errors import Tx8Error
from tx8isa.numbers.division import round_up

from .expr import Address, Operation, Slot, Value

TURNS = 8
"""How many turns a loop is assumed to have when the uses of values are weighed."""
CHEAP = 2
"""Instructions up to which a value is computed again rather than loaded from the stack."""
WORD = 8
"""Bytes of a value in the stack."""
LARGEST_FRAME = 2032
"""Bytes of stack that loads, stores and the change of the stack pointer reach with their 12 bits."""


class OutOfRegisters(Tx8Error):
    """More values are alive at once than the core has registers, and what is kept cannot be spilled."""


@dataclass(frozen=True)
class Shortage:
    """A place in the code with more values than ``registers``, by ``excess``.

    ``kept`` numbers the values in registers there that could leave them.
    """

    registers: int
    excess: int
    kept: tuple[int, ...]


@dataclass
class Spills:
    """The values that leave the registers of a phase, and what decides about others.

    Values that are kept are numbered in the order of the code, which is the same in every round.
    """

    chosen: frozenset[int] = frozenset()
    shortages: list[Shortage] = field(default_factory=list)
    weights: Counter[int] = field(default_factory=Counter)
    """The uses of each kept value, those in loops for their turns."""

    def more(self) -> frozenset[int]:
        """Values to be spilled as well, none if there is no shortage; OutOfRegisters if none would help."""
        added: set[int] = set()
        for shortage in sorted(self.shortages, key=lambda shortage: -shortage.excess):
            added |= self._chosen_for(shortage, added)
        return frozenset(added)

    def _chosen_for(self, shortage: Shortage, added: set[int]) -> set[int]:
        """The values with the fewest uses that end a shortage, beside those that were added already."""
        missing = shortage.excess - len(added & set(shortage.kept))
        others = sorted(set(shortage.kept) - added, key=lambda number: (self.weights[number], number))
        if len(others) < missing:
            values = shortage.registers + shortage.excess
            raise OutOfRegisters(
                f"{values} values at once; the kernel core has {shortage.registers} registers"
            )
        return set(others[: max(missing, 0)])


def is_cheap(value: Value) -> bool:
    """Whether a value is computed again with no more than ``CHEAP`` instructions."""
    return _instructions(value) <= CHEAP


def _instructions(value: Value) -> int:
    """About how many instructions of the core compute a value."""
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
        """Values that have to leave the registers too; none if all others have one."""


Code = TypeVar("Code", bound=Spillable)


def fitting(make: Callable[[Spills], Code], spilling: bool = True) -> Code:
    """The code that ``make`` generates, with the values in the stack for which there are no registers.

    ``make`` has to generate the same code every time but for these. OutOfRegisters if nothing may be spilled,
    or if that is not enough; what ``make`` raises.
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
