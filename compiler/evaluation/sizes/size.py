"""Sizes that a declared range leaves open: integers that are known only when the program runs.

A phase is generated for the sizes of one point of the range. Integers that depend on them are a
:class:`Size`. A ``Size`` has the arithmetic of integers, for all points of the range at once. Comparisons of
sizes have their result at that point; points with another result leave the :class:`Domain`. So for every
remaining point the code equals the one for its sizes, with operands in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from compiler.graph import Array

from .conditions import Condition, Domain
from .sums import SUM, sum_of

_HOLDS: Mapping[str, Callable[[Array, Any], Array]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
"""The comparisons of sizes."""
_LARGEST = float(1 << 62)
"""Sizes stay below this in magnitude."""


class Unsized(ValueError):
    """Raised for an expression over sizes that the program cannot compute."""


def _values(domain: Domain, operand: int | Size) -> Array:
    if isinstance(operand, Size):
        return operand.values
    return np.full(len(domain.alive), operand, np.int64)


class Size:
    """An integer that depends on the sizes of the run; ``values`` are those at the points of the domain.

    It is the sum, product, ... ``op`` of ``left`` and ``right``, or a dimension with a ``name``.
    """

    __slots__ = ("domain", "left", "name", "op", "right", "values")

    def __init__(
        self,
        domain: Domain,
        values: Array,
        op: str,
        left: int | Size = 0,
        right: int | Size = 0,
        name: str = "",
    ) -> None:
        self.domain, self.values, self.op, self.left, self.right = domain, values, op, left, right
        self.name = name

    @property
    def here(self) -> int:
        """Return the value at the point for which decisions are made."""
        return int(self.values[self.domain.anchor])

    @property
    def most(self) -> int:
        """The largest value at the points left."""
        return int(self.values[self.domain.alive].max())

    def __str__(self) -> str:
        if self.op == "symbol":
            return self.name
        if self.op == "neg":
            return f"-{self.left}"
        return f"({self.left} {self.op} {self.right})"

    __repr__ = __str__

    def __hash__(self) -> int:
        return id(self)

    # --- arithmetic -------------------------------------------------------------------------------------

    def _with(self, op: str, left: int | Size, right: int | Size, values: Array) -> Any:
        return self.domain.size(values, lambda found: Size(self.domain, found, op, left, right))

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, int | Size):
            return NotImplemented
        if isinstance(other, int) and self.op == "add" and isinstance(self.right, int):
            return self.left + (self.right + other)
        return self._with("add", self, other, self.values + _values(self.domain, other))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if not isinstance(other, int | Size):
            return NotImplemented
        if isinstance(other, int):
            return self + -other
        return self._with("sub", self, other, self.values - _values(self.domain, other))

    def __rsub__(self, other: Any) -> Any:
        if not isinstance(other, int):
            return NotImplemented
        return self._with("sub", other, self, other - self.values)

    def __neg__(self) -> Any:
        if self.op == "neg":
            return self.left
        return self._with("neg", self, 0, -self.values)

    def __mul__(self, other: Any) -> Any:
        if not isinstance(other, int | Size):
            return NotImplemented
        if isinstance(other, int) and self.op == "mul" and isinstance(self.right, int):
            return self.left * (self.right * other)
        one, another = self.values, _values(self.domain, other)
        if float(np.abs(one).max()) * float(np.abs(another).max()) >= _LARGEST:
            raise Unsized(f"the product of {self} and {other} leaves 64 bits")
        return self._with("mul", self, other, one * another)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        if not isinstance(other, int | Size):
            return NotImplemented
        return _quotient(self.domain, self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _quotient(self.domain, other, self)

    def __mod__(self, other: Any) -> Any:
        if not isinstance(other, int | Size):
            return NotImplemented
        return _remainder(self.domain, self, other)

    def __rmod__(self, other: Any) -> Any:
        return _remainder(self.domain, other, self)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def least(self, other: Any) -> Any:
        """The smaller of the two."""
        return self._with("min", self, other, np.minimum(self.values, _values(self.domain, other)))

    def largest(self, other: Any) -> Any:
        """The larger of the two."""
        return self._with("max", self, other, np.maximum(self.values, _values(self.domain, other)))

    # --- decisions --------------------------------------------------------------------------------------

    def _compared(self, op: str, other: Any) -> Any:
        if not isinstance(other, int | Size | float):
            return NotImplemented
        against = other.values if isinstance(other, Size) else other
        return Condition(self.domain, _HOLDS[op](self.values, against), (op, self, other))

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, int | Size | float):
            return False
        return self._compared("eq", other)

    def __ne__(self, other: object) -> Any:
        if not isinstance(other, int | Size | float):
            return True
        return self._compared("ne", other)

    def __lt__(self, other: Any) -> Any:
        return self._compared("lt", other)

    def __le__(self, other: Any) -> Any:
        return self._compared("le", other)

    def __gt__(self, other: Any) -> Any:
        return self._compared("gt", other)

    def __ge__(self, other: Any) -> Any:
        return self._compared("ge", other)

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __index__(self) -> int:
        bool(self == self.here)
        return self.here

    __int__ = __index__

    def __float__(self) -> float:
        return float(self.__index__())

    def __truediv__(self, other: Any) -> float:
        return float(self.__index__() / other)

    def __rtruediv__(self, other: Any) -> float:
        return float(other / self.__index__())

    def __pow__(self, other: Any) -> Any:
        return self.__index__() ** other

    def __and__(self, other: Any) -> Any:
        return self.__index__() & other

    def bit_length(self) -> int:
        """The bit length of the value; points with another value leave the domain."""
        return self.__index__().bit_length()


def dimension(domain: Domain, name: str) -> Any:
    """The size that a dimension has, or a sum of dimensions."""
    if SUM in name:
        parts = [part for part in name.split(SUM) if not part.isdigit()]
        return sum_of(name, {part: dimension(domain, part) for part in parts})
    return domain.size(domain.symbols[name], lambda values: Size(domain, values, "symbol", name=name))


def most(size: int | Size) -> int:
    """The largest value of a size at the points left."""
    return size.most if isinstance(size, Size) else size


def least(*values: Any) -> Any:
    """The smallest of some numbers."""
    found = values[0]
    for value in values[1:]:
        if isinstance(value, Size):
            found = value.least(found)
        else:
            found = found.least(value) if isinstance(found, Size) else min(found, value)
    return found


def largest(*values: Any) -> Any:
    """The largest of some numbers."""
    found = values[0]
    for value in values[1:]:
        if isinstance(value, Size):
            found = value.largest(found)
        else:
            found = found.largest(value) if isinstance(found, Size) else max(found, value)
    return found


def here(size: int | Size) -> int:
    """The value of a size at the point for which decisions are made; for estimates that prove nothing."""
    return size.here if isinstance(size, Size) else size


def chosen(condition: Any, one: Any, other: Any) -> Any:
    """For each point ``one`` if the condition holds there, else ``other``; no point leaves the domain."""
    if not isinstance(condition, Condition):
        return one if condition else other
    domain = condition.domain
    values = np.where(condition.holds, _values(domain, one), _values(domain, other))
    (op, left, right) = condition.compared
    test = domain.size(condition.holds.astype(np.int64), lambda found: Size(domain, found, op, left, right))
    if isinstance(test, int):
        return one if test else other
    step = one - other
    return other + domain.size(
        values - _values(domain, other), lambda found: Size(domain, found, "mul", test, step)
    )


def _quotient(domain: Domain, left: int | Size, right: int | Size) -> Any:
    if isinstance(left, Size) and left.op == "mul" and isinstance(left.right, int) and isinstance(right, int):
        factor = left.right
        if right > 0 and factor % right == 0:
            return left.left * (factor // right)
        if factor > 0 and right % factor == 0:
            return left.left // (right // factor)
    above, below = _values(domain, left), _values(domain, right)
    if not (below[domain.alive] > 0).all():
        return int(left) // int(right)
    values = above // np.maximum(below, 1)
    if not (above[domain.alive] > 0).any():
        inner = -left
        rounded = domain.size(-values, lambda found: Size(domain, found, "ceil", inner, right))
        return -rounded
    if (above[domain.alive] < 0).any():
        return int(left) // int(right)
    return domain.size(values, lambda found: Size(domain, found, "div", left, right))


def _remainder(domain: Domain, left: int | Size, right: int | Size) -> Any:
    above, below = _values(domain, left), _values(domain, right)
    if not (below[domain.alive] > 0).all():
        return int(left) % int(right)
    values = above % np.maximum(below, 1)
    if not (above[domain.alive] > 0).any():
        inner = -left  # -x % d is what is missing from x to the next multiple of d
        rounded = -(-inner // right) * right
        return rounded - inner
    if (above[domain.alive] < 0).any():
        return int(left) % int(right)
    return domain.size(values, lambda found: Size(domain, found, "rem", left, right))
