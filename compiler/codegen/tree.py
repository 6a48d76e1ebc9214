"""The code of a phase as a tree, for those who reason about it: what is issued, in which loops."""

from __future__ import annotations

from dataclasses import dataclass, field

from tx8isa.records.record import Instruction

from .expr import Value, Variable

Argument = Value | float | str | list[Value]

NEVER_AGAIN = 1 << 60
"""Step of a loop that has one turn at most: of a condition."""


@dataclass(frozen=True, slots=True)
class Issue:
    """An engine instruction. ``core``: instructions of the kernel core before it since the last item."""

    record: Instruction
    mnemonic: str
    arguments: dict[str, Argument]
    core: int


@dataclass(frozen=True, slots=True)
class Let:
    """A value that is kept in a register."""

    variable: Variable
    value: Value


@dataclass(slots=True)
class Loop:
    """``variable`` goes from ``start`` to below ``count``; ``turn`` is 0 and all ones by turns, from 0 on."""

    variable: Variable
    start: Value
    count: Value
    step: int
    turn: Variable | None = None
    body: list[Item] = field(default_factory=list)
    core: int = 0
    """Instructions of the kernel core at the end of a turn."""

    @property
    def condition(self) -> bool:
        """Whether it is code that some tiles pass by, rather than a loop."""
        return self.step == NEVER_AGAIN


Item = Issue | Let | Loop
