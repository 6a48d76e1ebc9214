"""The values of expressions on one tile, at one turn of each loop."""

from __future__ import annotations

import operator
from collections.abc import Callable

from compiler.codegen.expr import Address, Operation, Slot, Value, Variable

Registers = dict[str, int]
"""What the registers hold, as far as it is known."""

_APPLY: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.floordiv,
    "rem": operator.mod,
    "min": min,
    "max": max,
    "shl": operator.lshift,
    "or": operator.or_,
}


def value_of(value: Value, registers: Registers) -> int:
    """The value; addresses in DDR count from 0, a register that is not known holds the most it can."""
    if isinstance(value, int):
        return value
    if isinstance(value, Variable):
        known = registers.get(value.register)
        return value.high if known is None else known
    if isinstance(value, Operation):
        return _APPLY[value.op](value_of(value.left, registers), value_of(value.right, registers))
    if isinstance(value, Slot):
        return value.buffer.distance if value_of(value.turn, registers) else 0
    if isinstance(value, Address):
        return value.offset + (value.buffer.address if value.buffer is not None else 0)
    raise TypeError(f"{value!r} is no expression")


def in_scratchpad(value: object) -> bool:
    """Whether an address is one of the scratchpad."""
    if isinstance(value, Operation):
        return in_scratchpad(value.left) or in_scratchpad(value.right)
    return isinstance(value, Address) and value.buffer is not None
