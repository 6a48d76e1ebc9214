"""The values of index expressions on one tile in one turn of each loop."""

from __future__ import annotations

import operator
from collections.abc import Callable

from compiler.codegen.expr import Address, Operation, Slot, Value, Variable

Registers = dict[str, int]
"""The values of registers by name; registers of unknown value are missing."""

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
    """The value of an expression; an address in DDR is its offset, an unknown register its largest value."""
    if isinstance(value, int):
        return value
    if isinstance(value, Variable):
        known = registers.get(value.register)
        return value.high if known is None else known
    if isinstance(value, Operation):
        return _APPLY[value.op](value_of(value.left, registers), value_of(value.right, registers))
    if isinstance(value, Slot):
        return value.buffer.distance if value_of(value.parity, registers) else 0
    if isinstance(value, Address):
        return value.offset + (value.buffer.address if value.buffer is not None else 0)
    raise TypeError(f"{value!r} is no expression")


def in_scratchpad(value: object) -> bool:
    """Whether a value is an address in the scratchpad."""
    if isinstance(value, Operation):
        return in_scratchpad(value.left) or in_scratchpad(value.right)
    return isinstance(value, Address) and value.buffer is not None
