"""The code of a phase as a tree of engine instructions and loops, for the estimate of its time."""

from __future__ import annotations

from dataclasses import dataclass, field

from tx8isa.records.record import Instruction

from .expr import Value, Variable

Argument = Value | float | str | list[Value]

STEP_OF_CONDITION = 1 << 60
"""Step that makes a condition a loop of at most one iteration."""


@dataclass(frozen=True, slots=True)
class Issue:
    """An engine instruction. ``core``: instructions of the kernel core between the previous item and it."""

    record: Instruction
    mnemonic: str
    arguments: dict[str, Argument]
    core: int


@dataclass(frozen=True, slots=True)
class Let:
    """A value that is computed once and kept in a register."""

    variable: Variable
    value: Value


@dataclass(slots=True)
class Loop:
    """``variable`` goes from ``start`` to before ``count``; ``parity`` is 0 and -1 in turns, 0 at first."""

    variable: Variable
    start: Value
    count: Value
    step: int
    parity: Variable | None = None
    body: list[Item] = field(default_factory=list)
    core: int = 0
    """Instructions of the kernel core at the end of an iteration."""

    @property
    def condition(self) -> bool:
        """Whether it is a condition, not a loop."""
        return self.step == STEP_OF_CONDITION


Item = Issue | Let | Loop
