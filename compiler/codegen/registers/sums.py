"""Expressions as sums of products, for code that is to be small.

What does not change in a phase is one number of such a sum, a size that the program computes at its start if it
depends on the sizes of a run. So ``(row * width + column) * 2 + address``, or numbers of 16 bits in one word, take
as few instructions as there are variables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from typing import Any

from asm.instructions.constants import load_constant
from compiler.codegen.expr import Address, Key, Operation, Slot, SpilledVariable, Value, Variable, bounds, key_of
from compiler.evaluation.sizes import Size, always, largest, least

from .contents import RegisterContents
from .names import IMMEDIATES, with_immediate

_MOST = 1 << 62
"""Sums stay below this in magnitude."""
_WORD = (1 << 64) - 1
_INSTRUCTION, _NEW_SIZE = 4, 12
"""Bytes of an instruction, and about those for another size in the shape program."""
_CONSTANT = 8
"""Bytes of the instructions for a number that is not short or an address, or of one and its place in a table."""
_DEEPEST = 4
"""Minima and maxima of which both sides are looked at."""
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

    def without(self, key: Key) -> _Sum:
        """This sum without one of its atoms."""
        return _Sum({each: term for each, term in self.terms.items() if each != key}, self.number)

    def least(self) -> Any:
        """The least value that it can have as far as atoms say; ValueError where a factor has no known sign."""
        low: Any = self.number
        for atom, factor in self.terms.values():
            lowest, most = bounds(atom)
            if always(factor < 0):
                lowest = most
            elif not always(factor >= 0):
                raise ValueError
            low = low + lowest * factor
        return low


class Sums:
    """Chooses how expressions are computed, by what registers hold.

    ``apart``: the variables that choose between two copies of buffers are the distance of the second copies.
    """

    def __init__(self, contents: RegisterContents, apart: bool) -> None:
        self._is_held, self._apart = contents.holds, apart
        self._loaded: set[int] = set()
        """Sizes that the code has loaded, by their identity."""
        self._alive: list[Variable] = []
        """Variables whose values are known, in the order in which they have become known."""
        self._known: dict[Variable, _Sum] = {}
        """Their values as sums of other atoms."""
        self._choices: dict[Variable, Operation] = {}
        """Those that are a minimum or maximum."""
        self._variables: dict[Key, Variable] = {}
        """The variable that has the value of an operation that is no sum."""

    def simplest(self, value: Value) -> Value:
        """An expression with the same value that takes the fewest bytes where it is computed now."""
        if isinstance(value, int | Variable | Address):
            return value
        found = value if isinstance(value, Size) else self._shortest(self._with_turns(value))
        self._note_loads(found)
        return found

    def _shortest(self, value: Value) -> Value:
        try:
            return min([value, *self._all_forms(value)], key=self._bytes)
        except (ValueError, OverflowError):  # a number that leaves 64 bits
            return value

    def _all_forms(self, value: Value) -> Iterator[Value]:
        plain, rooted = self._sum(value), self._sum(value, rooted=True)
        yield from _forms(plain)
        if rooted.terms.keys() != plain.terms.keys():
            yield from _forms(rooted)

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

    # --- what is known of variables -----------------------------------------------------------------------

    @property
    def mark(self) -> int:
        """The number of variables that are known here."""
        return len(self._alive)

    def forget_since(self, mark: int) -> None:
        """The variables that have become known since then are not in use any more."""
        for variable in self._alive[mark:]:
            del self._known[variable]
            self._choices.pop(variable, None)
        self._variables = {key: found for key, found in self._variables.items() if found in self._known}
        del self._alive[mark:]

    def forget(self, variable: Variable) -> None:
        """A variable gets another value: that of others is not known from it any more."""
        for other, total in self._known.items():
            if any(variable in key.variables for key in total.terms):
                self._known[other] = _Sum({key_of(other): (other, 1)}, 0)
                self._choices.pop(other, None)

    def define(self, variable: Variable, value: Value) -> None:
        """A variable has a value as long as it is in use."""
        own = _Sum({key_of(variable): (variable, 1)}, 0)
        with suppress(ValueError, OverflowError):
            total = self._sum(self._with_turns(value), rooted=True)
            atom = _single(total)
            if isinstance(atom, Operation):
                total = own
                if atom.op in ("min", "max"):
                    self._choices[variable] = atom
                same = self._variables.setdefault(key_of(atom), variable)
                if same is not variable:
                    total = self._known[same]
            own = total
        self._known[variable] = own
        self._alive.append(variable)

    def number(self, value: Value) -> int | None:
        """The number that a value always is, None if it is not known."""
        if isinstance(value, int) or not isinstance(value, Operation):
            return value if isinstance(value, int) else None
        with suppress(ValueError, OverflowError):
            total = self._sum(self._with_turns(value), rooted=True)
            if not total.terms and isinstance(total.number, int):
                return total.number
        return None

    def is_below(self, value: Value, other: Value) -> bool | None:
        """Whether a value is always below another one, or never; None if neither is known."""
        with suppress(ValueError, OverflowError):
            apart = self._sum(other, rooted=True).plus(self._sum(value, rooted=True), -1)
            if always(self._least(apart) > 0):
                return True
            if always(self._least(_Sum({}, 0).plus(apart, -1)) >= 0):
                return False
        return None

    def _is_least(self, left: _Sum, right: _Sum) -> bool | None:
        """Whether a sum is never above another one, or never below it; None if neither is known."""
        apart = right.plus(left, -1)
        if always(self._least(apart) >= 0):
            return True
        return False if always(self._least(_Sum({}, 0).plus(apart, -1)) >= 0) else None

    def _least(self, total: _Sum, depth: int = 0) -> Any:
        """The least value that a sum can have; ValueError if none is known."""
        found = total.least()
        for key, (atom, factor) in total.terms.items():
            choice = self._choices.get(atom, atom) if isinstance(atom, Variable) else atom
            if depth == _DEEPEST or not isinstance(factor, int) or not isinstance(choice, Operation):
                continue
            if choice.op in ("min", "max"):
                others = total.without(key)
                sides = (self._sum(side, rooted=True) for side in (choice.left, choice.right))
                ends = [self._least(others.plus(side, factor), depth + 1) for side in sides]
                either = least(*ends) if (choice.op == "min") == (factor > 0) else largest(*ends)
                return largest(found, either)
        return found

    # --- expressions as sums ------------------------------------------------------------------------------

    def _sum(self, value: Value, rooted: bool = False) -> _Sum:
        """The sum that an expression is; ``rooted``: with what is known of variables in their place.

        ValueError or OverflowError where a number leaves 64 bits.
        """
        if isinstance(value, int | Size):
            return _Sum({}, value)
        if isinstance(value, Address):
            symbol = Address(value.symbol, 0, value.buffer)
            return _Sum({key_of(symbol): (symbol, 1)}, value.offset)
        if not isinstance(value, Operation):
            own = _Sum({key_of(value): (value, 1)}, 0)
            return self._known.get(value, own) if rooted and isinstance(value, Variable) else own
        left, right = self._sum(value.left, rooted), self._sum(value.right, rooted)
        if value.op in ("add", "sub"):
            return left.plus(right, 1 if value.op == "add" else -1)
        if value.op == "or":  # of numbers of 16 bits in one word: none has bits where another one has some
            return left.plus(right)
        if value.op in ("mul", "shl") and not right.terms:
            factor = right.number if value.op == "mul" else 1 << int(right.number)
            return _Sum({}, 0).plus(left, factor)
        if value.op == "mul" and not left.terms:
            return _Sum({}, 0).plus(right, left.number)
        known = self._known_result(value, left, right, rooted)
        return self._atom(value, left, right, rooted) if known is None else known

    def _known_result(self, value: Operation, left: _Sum, right: _Sum, rooted: bool) -> _Sum | None:
        """The result of an operation where it is known what that is a sum of."""
        with suppress(ValueError, OverflowError):
            if value.op in ("min", "max"):
                ends = (left, right) if rooted else [self._sum(v, True) for v in (value.left, value.right)]
                is_least = self._is_least(*ends)
                return None if is_least is None else left if is_least == (value.op == "min") else right
            if value.op in ("div", "rem") and not right.terms and isinstance(right.number, int):
                return self._part(value.op, left, right.number)
        return None

    def _part(self, op: str, left: _Sum, divisor: int) -> _Sum | None:
        """The quotient or remainder where the divisor is a factor of all that is not less than it."""
        if not isinstance(left.number, int):
            return None
        whole, parts = _Sum({}, left.number // divisor), _Sum({}, left.number % divisor)
        for key, (atom, factor) in left.terms.items():
            if isinstance(factor, int) and factor % divisor == 0:
                whole = whole.plus(_Sum({key: (atom, factor // divisor)}, 0))
            else:
                parts = parts.plus(_Sum({key: (atom, factor)}, 0))
        room = _Sum({}, divisor - 1).plus(parts, -1)
        if not always(self._least(parts) >= 0) or not always(self._least(room) >= 0):
            return None
        return whole if op == "div" else parts

    def _atom(self, value: Operation, left: _Sum, right: _Sum, rooted: bool) -> _Sum:
        """An operation that is no sum, of the operands in their shortest forms, or in one form everywhere."""
        if rooted:
            operands = [next(_forms(each)) for each in (left, right)]
        else:
            operands = [
                min([operand, *_forms(each)], key=self._bytes)
                for operand, each in ((value.left, left), (value.right, right))
            ]
        atom = Operation(value.op, *operands, value.low, value.high)
        return _Sum({key_of(atom): (atom, 1)}, 0)


def _single(total: _Sum) -> Value | None:
    """The atom that a sum is alone."""
    terms = list(total.terms.values())
    if len(terms) != 1 or not isinstance(total.number, int) or total.number:
        return None
    atom, factor = terms[0]
    return atom if isinstance(factor, int) and factor == 1 else None


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
