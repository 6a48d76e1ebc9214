"""The values of index expressions on one tile in one iteration of each loop."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from compiler.codegen.expr import Address, Expr, Operation, Slot, SpilledVariable, Value, Variable
from compiler.evaluation.sizes import Size, here

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
    return _VALUES[type(value)](value, registers)


def _of_variable(value: Variable, registers: Registers) -> int:
    known = registers.get(value.register)
    return value_of(value.high, registers) if known is None else here(known)


def _of_operation(value: Operation, registers: Registers) -> int:
    left, right = value.left, value.right
    return _APPLY[value.op](
        left if isinstance(left, int) else _VALUES[type(left)](left, registers),
        right if isinstance(right, int) else _VALUES[type(right)](right, registers),
    )


def _of_slot(value: Slot, registers: Registers) -> int:
    return value.buffer.distance if value_of(value.parity, registers) else 0


def _of_address(value: Address, registers: Registers) -> int:
    return here(value.offset) + (value.buffer.address if value.buffer is not None else 0)


def _of_size(value: Size, registers: Registers) -> int:
    return value.here


_VALUES: dict[type[Expr | Size], Callable[[Any, Registers], int]] = {
    Variable: _of_variable,
    SpilledVariable: _of_variable,
    Operation: _of_operation,
    Slot: _of_slot,
    Address: _of_address,
    Size: _of_size,
}
"""Evaluators by the class of an expression, because no other function is called as often."""


def in_scratchpad(value: object) -> bool:
    """True if a value is an address in the scratchpad."""
    if isinstance(value, Operation):
        return in_scratchpad(value.left) or in_scratchpad(value.right)
    return isinstance(value, Address) and value.buffer is not None
