"""Python's integers, of any size, as symbolic values over bits, and over the numbers themselves.

``Bits`` is a number between two bounds; ``low(n)`` gives the low n bits of its two's complement. For a sum, a
product or a bitwise operation, the low n bits of the operands determine them, because they agree modulo 2**n.
``Number`` is an integer of z3. Its quotients and remainders are numbers q and r with a = q*b + r.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from every_path import Flag, current, require
from solver import z3


def signed_width(low: int, high: int) -> int:
    """Bits of a two's complement that holds all of low..high."""
    return max(low.bit_length() if low >= 0 else (~low).bit_length(), high.bit_length()) + 1


class Symbol:
    """Operators that are defined by others, for both kinds of symbolic integers."""

    __hash__ = None  # type: ignore[assignment]

    def __radd__(self, other: Any) -> Any:
        return self + other

    def __rmul__(self, other: Any) -> Any:
        return self * other

    def __ne__(self, other: object) -> Any:
        return Flag(z3.Not((self == other).term))

    def __gt__(self, other: Any) -> Any:
        return Flag(z3.Not((self <= other).term))

    def __ge__(self, other: Any) -> Any:
        return Flag(z3.Not((self < other).term))

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __format__(self, _: str) -> str:
        return "?"


class Bits(Symbol):
    """An integer in ``least..most``, by the low bits of its two's complement."""

    def __init__(self, least: int, most: int, low: Callable[[int], Any]) -> None:
        self.least, self.most = least, most
        self.low = cache(low)

    @staticmethod
    def unsigned(term: Any) -> Bits:
        """The number that a bit-vector is without a sign."""
        size = term.size()

        def low(n: int) -> Any:
            return z3.Extract(n - 1, 0, term) if n <= size else z3.ZeroExt(n - size, term)

        return Bits(0, (1 << size) - 1, low)

    @staticmethod
    def signed(term: Any) -> Bits:
        """The number that a bit-vector is in two's complement."""
        size = term.size()

        def low(n: int) -> Any:
            return z3.Extract(n - 1, 0, term) if n <= size else z3.SignExt(n - size, term)

        return Bits(-(1 << size - 1), (1 << size - 1) - 1, low)

    @staticmethod
    def of(value: Any) -> Bits:
        """A symbolic integer or a plain one."""
        if isinstance(value, Bits):
            return value
        number = int(value)
        return Bits(number, number, lambda n: z3.BitVecVal(number, n))

    @property
    def width(self) -> int:
        return signed_width(self.least, self.most)

    def wrapped(self, bits: int, signed: bool) -> Bits:
        """The low bits as a number of their own."""
        least = -(1 << bits - 1) if signed else 0
        if least <= self.least and self.most < least + (1 << bits):
            return self
        return Bits.signed(self.low(bits)) if signed else Bits.unsigned(self.low(bits))

    def __hash__(self) -> int:  # type: ignore[override]
        term = z3.simplify(self.low(self.width))
        if not z3.is_bv_value(term):
            raise TypeError("a symbolic integer is a key only where it has one value")
        return hash(term.as_signed_long())

    # --- sums and products: the low bits of the operands give those of the result

    def __add__(self, other: Any) -> Bits:
        b = Bits.of(other)
        return Bits(self.least + b.least, self.most + b.most, lambda n: self.low(n) + b.low(n))

    def __neg__(self) -> Bits:
        return Bits(-self.most, -self.least, lambda n: -self.low(n))

    def __sub__(self, other: Any) -> Bits:
        return self + -Bits.of(other)

    def __rsub__(self, other: Any) -> Bits:
        return Bits.of(other) - self

    def __mul__(self, other: Any) -> Bits:
        b = Bits.of(other)
        corners = [x * y for x in (self.least, self.most) for y in (b.least, b.most)]
        return Bits(min(corners), max(corners), lambda n: self.low(n) * b.low(n))

    # --- bits

    def _bitwise(self, other: Any, operation: Callable[[Any, Any], Any]) -> Bits:
        b = Bits.of(other)
        width = max(self.width, b.width)
        least = 0 if min(self.least, b.least) >= 0 else -(1 << width - 1)
        return Bits(least, (1 << width - 1) - 1, lambda n: operation(self.low(n), b.low(n)))

    def __and__(self, other: Any) -> Bits:
        b = Bits.of(other)
        found = self._bitwise(b, lambda x, y: x & y)
        tops = [value.most for value in (self, b) if value.least >= 0]
        return Bits(0, min(tops), found.low) if tops else found

    __rand__ = __and__

    def __or__(self, other: Any) -> Bits:
        return self._bitwise(other, lambda x, y: x | y)

    __ror__ = __or__

    def __xor__(self, other: Any) -> Bits:
        return self._bitwise(other, lambda x, y: x ^ y)

    __rxor__ = __xor__

    def __invert__(self) -> Bits:
        return Bits(~self.most, ~self.least, lambda n: ~self.low(n))

    def __lshift__(self, other: Any) -> Bits:
        by = Bits.of(other)
        _not_negative(by)
        corners = [x << max(s, 0) for x in (self.least, self.most) for s in (by.least, by.most)]

        def low(n: int) -> Any:
            size = max(n, by.width)
            return z3.Extract(n - 1, 0, self.low(size) << by.low(size))

        return Bits(min(corners), max(corners), low)

    def __rlshift__(self, other: Any) -> Bits:
        return Bits.of(other) << self

    def __rshift__(self, other: Any) -> Bits:
        if isinstance(other, int):
            least, most = self.least >> other, self.most >> other
            return Bits(least, most, lambda n: z3.Extract(n + other - 1, other, self.low(n + other)))
        by = Bits.of(other)
        _not_negative(by)
        corners = [x >> max(s, 0) for x in (self.least, self.most) for s in (by.least, by.most)]

        def low(n: int) -> Any:
            size = max(n, self.width, by.width)
            return z3.Extract(n - 1, 0, self.low(size) >> by.low(size))

        return Bits(min(corners), max(corners), low)

    # --- quotients of numbers without a sign; others are for ``Number``

    def _divided(self, other: Any, operation: Callable[[Any, Any], Any], most: int) -> Bits:
        b = Bits.of(other)
        if min(self.least, b.least) < 0:
            raise TypeError("a quotient of signed numbers: prove it with Number")
        size = max(self.width, b.width) - 1
        require(b.low(size) != 0)
        return Bits(0, most, Bits.unsigned(operation(self.low(size), b.low(size))).low)

    def __floordiv__(self, other: Any) -> Bits:
        return self._divided(other, z3.UDiv, self.most)

    def __mod__(self, other: Any) -> Bits:
        if isinstance(other, int) and other & other - 1 == 0:
            bits = max(other.bit_length() - 1, 1)
            return Bits.unsigned(self.low(bits) if other > 1 else z3.BitVecVal(0, 1))
        return self._divided(other, z3.URem, min(self.most, Bits.of(other).most - 1))

    # --- comparisons, of as many bits as the bounds need

    def _pair(self, other: Any) -> tuple[Any, Any]:
        b = Bits.of(other)
        size = max(self.width, b.width)
        return self.low(size), b.low(size)

    def __eq__(self, other: object) -> Any:
        if other is None:
            return Flag(z3.BoolVal(False))
        a, b = self._pair(other)
        return Flag(a == b)

    def __lt__(self, other: Any) -> Any:
        a, b = self._pair(other)
        return Flag(a < b)

    def __le__(self, other: Any) -> Any:
        a, b = self._pair(other)
        return Flag(a <= b)


def _not_negative(shift: Bits) -> None:
    if shift.least < 0:
        require(shift.low(shift.width) >= 0)


class Number(Symbol):
    """An integer of z3, perhaps with known bounds.

    Quotients, remainders and low bits are new variables, which axioms of the path define. So every product
    has two variables as factors, and everything else is linear.
    """

    def __init__(self, term: Any, least: int | None = None, most: int | None = None) -> None:
        self.term, self.least, self.most = term, least, most

    @staticmethod
    def of(value: Any) -> Number:
        """A symbolic integer or a plain one."""
        return value if isinstance(value, Number) else Number(z3.IntVal(int(value)), int(value), int(value))

    def wrapped(self, bits: int, signed: bool) -> Number:
        """The number congruent modulo 2**bits that a word of so many bits holds."""
        least = -(1 << bits - 1) if signed else 0
        most = least + (1 << bits) - 1
        known = self.least is not None and self.most is not None
        if known and least <= self.least and self.most <= most:  # type: ignore[operator]
            return self
        low, _ = _defined("low", self.term - least, z3.IntVal(1 << bits))
        return Number(low + least, least, most)

    def __add__(self, other: Any) -> Number:
        return Number(self.term + Number.of(other).term)

    def __sub__(self, other: Any) -> Number:
        return Number(self.term - Number.of(other).term)

    def __neg__(self) -> Number:
        return Number(-self.term)

    def __mul__(self, other: Any) -> Number:
        return Number(self.term * Number.of(other).term)

    def __and__(self, other: int) -> Number:
        if other & other + 1:
            raise TypeError("only masks of the lowest bits")
        return self.wrapped(other.bit_length(), False)

    def __rshift__(self, other: int) -> Number:
        return Number(_defined("low", self.term, z3.IntVal(1 << other))[1])

    def __floordiv__(self, other: Any) -> Number:
        return Number(_defined("remainder", self.term, Number.of(other).term)[1])

    def __mod__(self, other: Any) -> Number:
        return Number(_defined("remainder", self.term, Number.of(other).term)[0])

    def __eq__(self, other: object) -> Any:
        return Flag(self.term == Number.of(other).term)

    def __lt__(self, other: Any) -> Any:
        return Flag(self.term < Number.of(other).term)

    def __le__(self, other: Any) -> Any:
        return Flag(self.term <= Number.of(other).term)


def _defined(kind: str, a: Any, b: Any) -> tuple[Any, Any]:
    """Remainder and quotient rounded down, as Python's: new variables, the same for the same operands."""
    require(b != 0)
    path = current()
    key = kind, a.get_id(), b.get_id()
    if key not in path.defined:
        r, q = (z3.Int(f"{name}{len(path.defined)}") for name in (kind, "quotient"))
        path.defined[key] = r, q, a, b
        between = z3.If(b > 0, z3.And(r >= 0, r < b), z3.And(b < r, r <= 0))
        path.axioms.append(z3.Implies(b != 0, z3.And(a == q * b + r, between)))
        path.axioms += [larger_product(x, y) for x in (q, -q) for y in (b, -b)]
    return path.defined[key][:2]  # type: ignore[no-any-return]


def larger_product(x: Any, y: Any) -> Any:
    """A product of positive integers is no smaller than a factor; ``prove_one_division`` proves it."""
    return z3.Implies(z3.And(x >= 1, y >= 1), x * y >= y)
