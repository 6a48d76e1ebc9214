"""Expressions as sums of products, for code that is to be small.

What does not change in a phase is one number of such a sum, a size that the program computes at its start if it
depends on the sizes of a run. So ``(row * width + column) * 2 + address``, or numbers of 16 bits in one word, take
as few instructions as there are variables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from asm.instructions.constants import load_constant
from compiler.codegen.expr import Address, Key, Operation, Slot, SpilledVariable, Value, Variable, bounds, key_of
from compiler.evaluation.sizes import Size, always

from .names import IMMEDIATES, with_immediate

_MOST = 1 << 62
"""Sums stay below this in magnitude."""
_WORD = (1 << 64) - 1
_INSTRUCTION, _NEW_SIZE = 4, 12
"""Bytes of an instruction, and about those for another size in the shape program."""
_CONSTANT = 8
"""Bytes of the instructions for a number that is not short or an address, or of one and its place in a table."""
_CHOICE = 12
"""Bytes of the instructions of a minimum or maximum."""

_Number = int | Size


@dataclass(frozen=True)
class _Sum:
    """Atoms with their factors, and a number. Atoms are no sums, products with numbers, numbers."""

    terms: Mapping[Key, tuple[Value, _Number]]
    number: _Number

    def plus(self, other: _Sum, factor: _Number = 1) -> _Sum:
        """This sum and a multiple of another one."""
        terms = dict(self.terms)
        for key, (atom, count) in other.terms.items():
            total: Any = count * factor
            if key in terms:
                total = terms.pop(key)[1] + total
            if not always(total == 0):
                terms[key] = atom, total
        number: Any = other.number * factor
        return _Sum(terms, self.number + number)

    def bounds(self) -> tuple[Any, Any]:
        """The least and largest value that it can have; ValueError where a factor has no known sign."""
        low: Any = self.number
        high: Any = self.number
        for atom, factor in self.terms.values():
            least, most = bounds(atom)
            if always(factor < 0):
                least, most = most, least
            elif not always(factor >= 0):
                raise ValueError
            low, high = low + least * factor, high + most * factor
        return low, high


class Sums:
    """Chooses how expressions are computed; ``is_held`` says whether a register holds a value.

    ``apart``: the variables that choose between two copies of buffers are the distance of the second copies.
    """

    def __init__(self, is_held: Callable[[Key], bool], apart: bool) -> None:
        self._is_held, self._apart = is_held, apart
        self._loaded: set[int] = set()
        """Sizes that the code has loaded, by their identity."""

    def simplest(self, value: Value) -> Value:
        """An expression with the same value that takes the fewest bytes where it is computed now."""
        if isinstance(value, int | Variable | Address):
            return value
        found = value if isinstance(value, Size) else self._shortest(self._with_turns(value))
        self._note_loads(found)
        return found

    def _shortest(self, value: Value) -> Value:
        try:
            return min([value, *_forms(self._sum(value))], key=self._bytes)
        except (ValueError, OverflowError):  # a number that leaves 64 bits
            return value

    def _with_turns(self, value: Value) -> Value:
        """The expression with variables in place of the distances of second copies that they are."""
        if isinstance(value, Slot) and self._apart:
            return value.parity
        if isinstance(value, Operation):
            left, right = self._with_turns(value.left), self._with_turns(value.right)
            return Operation(value.op, left, right, value.low, value.high)
        return value

    def _note_loads(self, value: Value) -> None:
        if isinstance(value, Size):
            self._loaded.add(id(value))
        elif isinstance(value, Operation) and not self._is_held(key_of(value)):
            self._note_loads(value.left)
            self._note_loads(value.right)

    def _bytes(self, value: Value) -> int:
        """About how many bytes of instructions compute a value here."""
        if isinstance(value, int):
            return min(load_constant(value & _WORD).size, _CONSTANT) if value else 0
        if isinstance(value, Variable) and not isinstance(value, SpilledVariable):
            return 0
        if self._is_held(key_of(value)):
            return 0
        if isinstance(value, Size):
            return _INSTRUCTION if id(value) in self._loaded else _INSTRUCTION + _NEW_SIZE
        if not isinstance(value, Operation):
            return {SpilledVariable: _INSTRUCTION, Slot: 3 * _INSTRUCTION}.get(type(value), _CONSTANT)
        if with_immediate(value.op, value.right) is not None:
            return self._bytes(value.left) + _INSTRUCTION
        own = _CHOICE if value.op in ("min", "max") else _INSTRUCTION
        return self._bytes(value.left) + self._bytes(value.right) + own

    # --- expressions as sums ------------------------------------------------------------------------------

    def _sum(self, value: Value) -> _Sum:
        """The sum that an expression is; ValueError or OverflowError where a number leaves 64 bits."""
        if isinstance(value, int | Size):
            return _Sum({}, value)
        if isinstance(value, Address):
            symbol = Address(value.symbol, 0, value.buffer)
            return _Sum({key_of(symbol): (symbol, 1)}, value.offset)
        if not isinstance(value, Operation):
            return _Sum({key_of(value): (value, 1)}, 0)
        left, right = self._sum(value.left), self._sum(value.right)
        if value.op in ("add", "sub"):
            return left.plus(right, 1 if value.op == "add" else -1)
        if value.op == "or":  # of numbers of 16 bits in one word: none has bits where another one has some
            return left.plus(right)
        if value.op in ("mul", "shl") and not right.terms:
            factor = right.number if value.op == "mul" else 1 << int(right.number)
            return _Sum({}, 0).plus(left, factor)
        if value.op == "mul" and not left.terms:
            return _Sum({}, 0).plus(right, left.number)
        known = _choice(value.op, left, right) if value.op in ("min", "max") else _part(value.op, left, right)
        return self._atom(value, left, right) if known is None else known

    def _atom(self, value: Operation, left: _Sum, right: _Sum) -> _Sum:
        """An operation that is no sum, of the operands in their shortest forms."""
        operands = [
            min([operand, *_forms(each)], key=self._bytes)
            for operand, each in ((value.left, left), (value.right, right))
        ]
        atom = Operation(value.op, *operands, value.low, value.high)
        return _Sum({key_of(atom): (atom, 1)}, 0)


def _choice(op: str, left: _Sum, right: _Sum) -> _Sum | None:
    """The minimum or maximum where it is known which of the two it is."""
    try:
        low, high = left.plus(right, -1).bounds()
    except ValueError:
        return None
    if always(high <= 0):
        return left if op == "min" else right
    if always(low >= 0):
        return right if op == "min" else left
    return None


def _part(op: str, left: _Sum, right: _Sum) -> _Sum | None:
    """The quotient or remainder where the divisor is a factor of all that is not less than it."""
    divisor = right.number
    if op not in ("div", "rem") or right.terms or not isinstance(divisor, int):
        return None
    if not isinstance(left.number, int):
        return None
    whole, parts = _Sum({}, left.number // divisor), _Sum({}, left.number % divisor)
    for key, (atom, factor) in left.terms.items():
        if isinstance(factor, int) and factor % divisor == 0:
            whole = whole.plus(_Sum({key: (atom, factor // divisor)}, 0))
        else:
            parts = parts.plus(_Sum({key: (atom, factor)}, 0))
    try:
        low, high = parts.bounds()
    except ValueError:
        return None
    if not always(low >= 0) or not always(high < divisor):
        return None
    return whole if op == "div" else parts


# --- sums as expressions ----------------------------------------------------------------------------------


def _forms(total: _Sum) -> Iterator[Value]:
    """Expressions that are a sum."""
    places = [atom for atom, factor in total.terms.values() if _is_place(atom) and isinstance(factor, int) and factor == 1]
    terms = {key: term for key, term in total.terms.items() if not any(term[0] is each for each in places)}
    number = total.number
    yield _added([*places, _products(terms, number)])
    shift = _common_shift(terms, number)
    if shift:
        shorter = {key: (atom, factor // (1 << shift)) for key, (atom, factor) in terms.items()}
        yield _added([*places, _product(_products(shorter, number // (1 << shift)), 1 << shift)])
    if isinstance(number, int) and number and isinstance(places[:1] and places[0], Address):
        first, *others = places
        yield _added([first + number, *others, _products(terms, 0)])
        if number in IMMEDIATES:
            yield _added([_added([*places, _products(terms, 0)]), number])


def _is_place(atom: Value) -> bool:
    """Whether an atom is an address, or the distance of a second copy from it."""
    return isinstance(atom, Address | Slot)


def _common_shift(terms: Mapping[Key, tuple[Value, _Number]], number: _Number) -> int:
    """The largest power of two by which all factors and the number can be divided."""
    numbers = [number, *(factor for _, factor in terms.values())]
    shifts = (shift for shift in range(16, 0, -1) if all(_is_multiple(each, 1 << shift) for each in numbers))
    return next(shifts, 0) if terms else 0


def _is_multiple(number: _Number, divisor: int) -> bool:
    """Whether a number is a multiple of another one at all points that are left; of sizes those from 0 on."""
    if isinstance(number, int):
        return number % divisor == 0
    values = number.values[number.domain.alive]
    return bool((values >= 0).all() and (values % divisor == 0).all())


def _products(terms: Mapping[Key, tuple[Value, _Number]], number: _Number) -> Value:
    """The sum of atoms with factors and a number; atoms of one factor are added before they are multiplied."""
    groups: dict[object, tuple[_Number, list[Value], list[Value]]] = {}
    for atom, factor in terms.values():
        negative = isinstance(factor, int) and factor < 0
        size: _Number = -factor if negative else factor
        _, more, less = groups.setdefault(size if isinstance(size, int) else id(size), (size, [], []))
        (less if negative else more).append(atom)
    found: Value = 0
    taken: list[Value] = []
    for factor, more, less in groups.values():
        if more:
            found = _added([found, _product(reduce(_difference, less, _added(more)), factor)])
        else:
            taken.append(_product(_added(less), factor))
    return reduce(_difference, taken, _added([found, number]))


def _added(values: list[Value]) -> Value:
    found: Value = 0
    for value in values:
        if isinstance(value, int) and value == 0:
            continue
        if isinstance(found, int) and found == 0:
            found = value
        elif isinstance(found, int | Size) and isinstance(value, int | Size):
            total: Any = found
            found = total + value
        else:
            found = Operation("add", found, value, -_MOST, _MOST)
    return found


def _difference(left: Value, right: Value) -> Value:
    return Operation("sub", left, right, -_MOST, _MOST)


def _product(value: Value, factor: _Number) -> Value:
    if isinstance(factor, int) and factor == 1:
        return value
    if isinstance(value, int | Size):
        number: Any = value
        return number * factor
    return Operation("mul", value, factor, -_MOST, _MOST)
