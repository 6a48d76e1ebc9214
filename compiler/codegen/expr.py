"""Integer expressions over values that the kernel core has in registers when the program runs.

An expression knows the range of its value, which simplifies it. Constants are folded, a minimum becomes one
side if that is never larger, and an index below its divisor has the quotient 0. The remaining expression is
compiled to RISC-V by ``codegen.registers``, with the results of Python's integers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from compiler.evaluation.sizes import Size, always, ever, largest, least
from tx8isa.numbers.limits import LANE_BITS, LANE_MASK

from .spm import SpmBuffer

_LIMIT = 1 << 62
"""Values stay below this in magnitude, so that no step leaves the 64 bits of a register."""


class Expr:
    """A value known only when the program runs; ``low`` and ``high`` are the least and largest it can be.

    Expressions and integers are added, subtracted and multiplied as usual. ``//`` and ``%`` take a value of
    0 and above and a divisor of 1 and above; ValueError for others.
    """

    low: int
    high: int

    def __add__(self, other: Value) -> Value:
        if isinstance(other, int) and other == 0:
            return self
        if isinstance(other, int) and isinstance(self, Address):
            return Address(self.symbol, self.offset + other, self.buffer)
        if isinstance(other, int) and isinstance(self, Operation) and self.op == "add":
            if isinstance(self.right, int):
                return self.left + (self.right + other)
            if isinstance(self.left, Address):
                return self.left + other + self.right
        low, high = bounds(other)
        return _operation("add", self, other, self.low + low, self.high + high)

    def __radd__(self, other: int) -> Value:
        return self + other

    def __sub__(self, other: Value) -> Value:
        if isinstance(other, int):
            return self + -other
        low, high = bounds(other)
        return _operation("sub", self, other, self.low - high, self.high - low)

    def __rsub__(self, other: int) -> Value:
        return _operation("sub", other, self, other - self.high, other - self.low)

    def __mul__(self, other: Value) -> Value:
        if isinstance(other, int) and other == 1:
            return self
        if isinstance(other, int) and isinstance(self, Operation) and self.op == "mul":
            factor = self.right
            if isinstance(factor, int):
                return self.left * (factor * other)
        if isinstance(other, int):
            corners = [self.low * other, self.high * other]
        else:
            corners = [one * another for one in (self.low, self.high) for another in bounds(other)]
        return _operation("mul", self, other, least(*corners), largest(*corners))

    def __rmul__(self, other: int) -> Value:
        return self * other

    def __floordiv__(self, divisor: Value) -> Value:
        return _quotient(self, divisor)

    def __rfloordiv__(self, dividend: int) -> Value:
        return _quotient(dividend, self)

    def __mod__(self, divisor: Value) -> Value:
        return _remainder(self, divisor)

    def __rmod__(self, dividend: int) -> Value:
        return _remainder(dividend, self)


Value = int | Expr | Size
"""An operand of an instruction. A size is known when the program runs, and stays constant."""


@dataclass(frozen=True, eq=False)
class Variable(Expr):
    """The content of a register."""

    register: str
    low: int
    high: int


@dataclass(frozen=True, eq=False)
class SpilledVariable(Variable):
    """The content of a word of the stack; ``register`` is its place as an operand of a load, ``8(sp)``."""


@dataclass(frozen=True, eq=False)
class Address(Expr):
    """A symbol of the program plus a constant; ``buffer`` if it is an address in the scratchpad."""

    symbol: str
    offset: int = 0
    buffer: SpmBuffer | None = None
    low: int = 0
    high: int = 1 << 40

    @property
    def text(self) -> str:
        """The address as assembly text."""
        return f"{self.symbol}{self.offset:+}" if self.offset else self.symbol


@dataclass(frozen=True, eq=False)
class Slot(Expr):
    """The distance from the first copy of a buffer to the one that an iteration of a loop uses.

    ``parity`` alternates between 0 and -1; the distance is 0 if the buffer has one copy.
    """

    buffer: SpmBuffer
    parity: Variable
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


def buffers_of(value: Value) -> Iterator[SpmBuffer]:
    """The scratchpad buffers whose addresses are in an expression."""
    if isinstance(value, Operation):
        yield from buffers_of(value.left)
        yield from buffers_of(value.right)
    elif isinstance(value, Slot | Address) and value.buffer is not None:
        yield value.buffer


def symbols_of(value: Value) -> Iterator[str]:
    """The symbols of the addresses in an expression."""
    if isinstance(value, Operation):
        yield from symbols_of(value.left)
        yield from symbols_of(value.right)
    elif isinstance(value, Address):
        yield value.symbol


class Key(NamedTuple):
    """Key of an expression's value: equal for expressions with the same value at one place of the code."""

    parts: tuple[object, ...]
    variables: frozenset[Variable]
    """The variables from which it is computed."""


def key_of(value: Value) -> Key:
    """The key of an expression. A size never changes, and its domain keeps a reference to it."""
    if isinstance(value, Operation):
        left, right = key_of(value.left), key_of(value.right)
        return Key((value.op, left, right), left.variables | right.variables)
    if isinstance(value, Variable):
        return Key(("variable", value), frozenset({value}))
    if isinstance(value, Slot):
        return Key(("slot", value.buffer.symbol, value.parity), frozenset({value.parity}))
    if isinstance(value, Address):
        return Key(("address", value.symbol, value.offset), frozenset())
    if isinstance(value, Size):
        return Key(("size", id(value)), frozenset())
    return Key(("number", value), frozenset())


def bounds(value: Value) -> tuple[int, int]:
    """The least and the largest value that an expression can have."""
    if isinstance(value, Expr):
        return value.low, value.high
    exact: Any = value  # a size is its own bound
    return exact, exact


def highest(value: Value) -> int:
    """The largest value that an expression can have."""
    return bounds(value)[1]


def constant(value: Value) -> int:
    """Return the value of an expression that is known when compiling; ValueError for any other."""
    if not isinstance(value, int):
        raise ValueError("a value that is known when compiling is needed here")
    return value


def _operation(op: str, left: Value, right: Value, low: int, high: int) -> Value:
    if always(low == high):
        return low
    if ever(low <= -_LIMIT) or ever(high >= _LIMIT):
        raise ValueError(f"the range {low}..{high} of an index leaves 64 bits")
    return Operation(op, left, right, low, high)


def _quotient(left: Value, divisor: Value) -> Value:
    _check_division(left, divisor)
    if always(divisor == 1):
        return left
    (low, high), (lowest, most) = bounds(left), bounds(divisor)
    return _operation("div", left, divisor, low // most, high // lowest)


def _remainder(left: Value, divisor: Value) -> Value:
    _check_division(left, divisor)
    (_, high), (lowest, most) = bounds(left), bounds(divisor)
    if always(high < lowest):
        return left
    return _operation("rem", left, divisor, 0, least(high, most - 1))


def _check_division(left: Value, divisor: Value) -> None:
    if ever(bounds(divisor)[0] < 1) or ever(bounds(left)[0] < 0):
        ranges = f"{bounds(left)} by {divisor if isinstance(divisor, int) else bounds(divisor)}"
        raise ValueError(f"division of {ranges}: only 0 and above by 1 and above")


def minimum(left: Value, right: Value) -> Value:
    """The smaller of the two."""
    (a_low, a_high), (b_low, b_high) = bounds(left), bounds(right)
    if always(a_high <= b_low):
        return left
    if always(b_high <= a_low):
        return right
    return _operation("min", left, right, least(a_low, b_low), least(a_high, b_high))


def maximum(left: Value, right: Value) -> Value:
    """The larger of the two."""
    (a_low, a_high), (b_low, b_high) = bounds(left), bounds(right)
    if always(a_low >= b_high):
        return left
    if always(b_low >= a_high):
        return right
    return _operation("max", left, right, largest(a_low, b_low), largest(a_high, b_high))


def lanes(parts: list[Value]) -> Value:
    """16-bit numbers in one word, the first in the highest lane; ValueError when one may not fit."""
    word: Value = 0
    for part in parts:
        low, high = bounds(part)
        if ever(low < 0) or ever(high > LANE_MASK):
            raise ValueError(f"a lane has {LANE_BITS} bits; its value is in {low}..{high}")
        word = _lane_below(word, part)
    return word


def _lane_below(word: Value, part: Value) -> Value:
    if isinstance(word, int) and isinstance(part, int):
        return word << LANE_BITS | part
    # A first lane of 2**15 or more sets the sign bit of the register; only the bits of the word matter.
    shifted = word << LANE_BITS if isinstance(word, int) else Operation("shl", word, LANE_BITS, 0, _LIMIT - 1)
    return part if shifted == 0 else Operation("or", shifted, part, 0, _LIMIT - 1)
