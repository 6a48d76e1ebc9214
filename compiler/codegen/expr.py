"""Integer expressions over values that the kernel core has in registers when the program runs.

An expression knows the range its value lies in. What the ranges decide is decided here: constants fold, a
minimum that always takes one side is that side, an index below its divisor has the quotient 0. What is left
is compiled to RISC-V by ``codegen.registers``; the results are those of Python's integers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .spm import SpmBuffer

_LIMIT = 1 << 62
"""Values stay below this in magnitude, so that no step leaves the 64 bits of a register."""


class Expr:
    """A value known only when the program runs; ``low`` and ``high`` are the least and largest it can be."""

    low: int
    high: int

    def __add__(self, other: Value) -> Value:
        return add(self, other)

    def __radd__(self, other: int) -> Value:
        return add(other, self)

    def __sub__(self, other: Value) -> Value:
        return subtract(self, other)

    def __rsub__(self, other: int) -> Value:
        return subtract(other, self)

    def __mul__(self, other: Value) -> Value:
        return multiply(self, other)

    def __rmul__(self, other: int) -> Value:
        return multiply(other, self)

    def __floordiv__(self, other: int) -> Value:
        return quotient(self, other)

    def __mod__(self, other: int) -> Value:
        return remainder(self, other)


Value = int | Expr


@dataclass(frozen=True, eq=False)
class Variable(Expr):
    """The content of a register."""

    register: str
    low: int
    high: int


@dataclass(frozen=True, eq=False)
class Address(Expr):
    """A symbol of the program plus a constant; ``buffer`` when it is a place in the scratchpad."""

    symbol: str
    offset: int = 0
    buffer: SpmBuffer | None = None
    low: int = 0
    high: int = 1 << 40

    @property
    def text(self) -> str:
        """As assembly spells it."""
        return f"{self.symbol}{self.offset:+}" if self.offset else self.symbol


@dataclass(frozen=True, eq=False)
class Slot(Expr):
    """How far the copy of a buffer that a turn of a loop uses is from the first one.

    ``turn`` is 0 or all ones, by turns; the distance is 0 when the buffer has one copy.
    """

    buffer: SpmBuffer
    turn: Variable
    low: int = -(1 << 40)
    high: int = 1 << 40


@dataclass(frozen=True, eq=False)
class Operation(Expr):
    """``left op right``; ``op`` is one of add sub mul div rem min max shl or."""

    op: str
    left: Value
    right: Value
    low: int
    high: int


def bounds(value: Value) -> tuple[int, int]:
    """The least and the largest an expression can be."""
    return (value, value) if isinstance(value, int) else (value.low, value.high)


def highest(value: Value) -> int:
    """The largest an expression can be: what a buffer must have room for."""
    return bounds(value)[1]


def constant(value: Value) -> int:
    """The value of an expression that is known; ValueError otherwise."""
    if not isinstance(value, int):
        raise ValueError("a value that is known when compiling is needed here")
    return value


def _operation(op: str, left: Value, right: Value, corners: tuple[int, ...]) -> Value:
    low, high = min(corners), max(corners)
    if low == high:
        return low
    if low <= -_LIMIT or high >= _LIMIT:
        raise ValueError(f"the range {low}..{high} of an index leaves 64 bits")
    return Operation(op, left, right, low, high)


def _corners(left: Value, right: Value, apply: Callable[[int, int], int]) -> tuple[int, ...]:
    return tuple(apply(a, b) for a in bounds(left) for b in bounds(right))


def add(left: Value, right: Value) -> Value:
    """left + right."""
    if isinstance(left, int) and isinstance(right, int):
        return left + right
    if isinstance(left, int):
        left, right = right, left
    if right == 0:
        return left
    if isinstance(right, int) and isinstance(left, Address):
        return Address(left.symbol, left.offset + right, left.buffer)
    if isinstance(right, int) and isinstance(left, Operation) and left.op == "add":
        if isinstance(left.right, int):
            return add(left.left, left.right + right)
        if isinstance(left.left, Address):
            return add(add(left.left, right), left.right)
    return _operation("add", left, right, _corners(left, right, lambda a, b: a + b))


def subtract(left: Value, right: Value) -> Value:
    """left - right."""
    if isinstance(right, int):
        return left - right if isinstance(left, int) else add(left, -right)
    return _operation("sub", left, right, _corners(left, right, lambda a, b: a - b))


def multiply(left: Value, right: Value) -> Value:
    """left * right."""
    if isinstance(left, int) and isinstance(right, int):
        return left * right
    if isinstance(left, int):
        left, right = right, left
    if right == 1:
        return left
    if (
        isinstance(right, int)
        and isinstance(left, Operation)
        and left.op == "mul"
        and isinstance(left.right, int)
    ):
        return multiply(left.left, left.right * right)
    return _operation("mul", left, right, _corners(left, right, lambda a, b: a * b))


def _checked_division(left: Value, divisor: int) -> None:
    if divisor < 1 or bounds(left)[0] < 0:
        raise ValueError(f"division of {bounds(left)} by {divisor}: only 0 and above by 1 and above")


def quotient(left: Value, divisor: int) -> Value:
    """left // divisor, for left >= 0 and a constant divisor >= 1; ValueError otherwise."""
    _checked_division(left, divisor)
    if isinstance(left, int):
        return left // divisor
    if divisor == 1:
        return left
    return _operation("div", left, divisor, (left.low // divisor, left.high // divisor))


def remainder(left: Value, divisor: int) -> Value:
    """left % divisor, for left >= 0 and a constant divisor >= 1; ValueError otherwise."""
    _checked_division(left, divisor)
    if isinstance(left, int):
        return left % divisor
    if left.high < divisor:
        return left
    return _operation("rem", left, divisor, (0, divisor - 1))


def minimum(left: Value, right: Value) -> Value:
    """The smaller of the two."""
    (a_low, a_high), (b_low, b_high) = bounds(left), bounds(right)
    if a_high <= b_low:
        return left
    if b_high <= a_low:
        return right
    return _operation("min", left, right, (min(a_low, b_low), min(a_high, b_high)))


def maximum(left: Value, right: Value) -> Value:
    """The larger of the two."""
    (a_low, a_high), (b_low, b_high) = bounds(left), bounds(right)
    if a_low >= b_high:
        return left
    if b_low >= a_high:
        return right
    return _operation("max", left, right, (max(a_low, b_low), max(a_high, b_high)))


def lanes(parts: list[Value]) -> Value:
    """16-bit numbers in one word, the first in the highest lane; ValueError when one may not fit."""
    word: Value = 0
    for part in parts:
        low, high = bounds(part)
        if low < 0 or high > 0xFFFF:
            raise ValueError(f"a lane has 16 bits; its value is in {low}..{high}")
        word = _lane_below(word, part)
    return word


def _lane_below(word: Value, part: Value) -> Value:
    if isinstance(word, int) and isinstance(part, int):
        return word << 16 | part
    # Wraps into the sign bit for a first lane above 2**15, as the bits of the word shall.
    shifted = word << 16 if isinstance(word, int) else Operation("shl", word, 16, 0, _LIMIT - 1)
    return part if shifted == 0 else Operation("or", shifted, part, 0, _LIMIT - 1)
