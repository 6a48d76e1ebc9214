"""Linear sums of a program's values with constant factors, and the expressions that compute them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from compiler.codegen.expr import Address, Key, Operation, Slot, Value, bounds
from compiler.evaluation.sizes import Size, always

from .names import IMMEDIATES

_MOST = 1 << 62
"""Sums stay below this in magnitude."""
_LARGEST_SHIFT = 16
"""The largest power of two that is factored out of a sum."""

Number = int | Size
"""A number or size, constant in a run of the program."""
Terms = Mapping[Key, tuple[Value, Number]]
"""Atoms with their factors, by the keys of the atoms."""


def _within(one: Number, another: Any, factor: Number) -> Any:
    """Return ``one + another * factor``; OverflowError if it leaves 64 bits."""
    total = one + another * factor
    if isinstance(total, int) and abs(total) >= 1 << 64:
        raise OverflowError(f"{total} leaves 64 bits")
    return total


@dataclass(frozen=True)
class LinearSum:
    """Atoms with their factors, and a number. Sums, products with numbers and numbers are no atoms."""

    terms: Terms
    number: Number

    def plus(self, other: LinearSum, factor: Number = 1) -> LinearSum:
        """Return this sum plus ``factor`` times another one; OverflowError if a number leaves 64 bits."""
        terms = dict(self.terms)
        for key, (atom, count) in other.terms.items():
            total = _within(terms.pop(key)[1] if key in terms else 0, count, factor)
            if not always(total == 0):
                terms[key] = atom, total
        return LinearSum(terms, _within(self.number, other.number, factor))

    @property
    def atom(self) -> Value | None:
        """The atom, if the sum is a single one; None otherwise."""
        terms = list(self.terms.values())
        if len(terms) != 1 or not isinstance(self.number, int) or self.number:
            return None
        atom, factor = terms[0]
        return atom if isinstance(factor, int) and factor == 1 else None

    def without(self, key: Key) -> LinearSum:
        """This sum without one of its atoms."""
        return LinearSum({each: term for each, term in self.terms.items() if each != key}, self.number)

    def least(self) -> Any:
        """The lower bound by the ranges of atoms; ValueError where a factor has no known sign."""
        low: Any = self.number
        for atom, factor in self.terms.values():
            lowest, most = bounds(atom)
            if always(factor < 0):
                lowest = most
            elif not always(factor >= 0):
                raise ValueError
            low = low + lowest * factor
        return low


def forms_of(total: LinearSum) -> Iterator[Value]:
    """Expressions with the value of a sum."""
    places = [
        atom
        for atom, factor in total.terms.values()
        if _is_place(atom) and isinstance(factor, int) and factor == 1
    ]
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
    """True if an atom is an address, or the distance of a second copy from it."""
    return isinstance(atom, Address | Slot)


def _common_shift(terms: Terms, number: Number) -> int:
    """The largest power of two by which all factors and the number can be divided."""
    numbers = [number, *(factor for _, factor in terms.values())]
    shifts = (
        shift
        for shift in range(_LARGEST_SHIFT, 0, -1)
        if all(_is_multiple(each, 1 << shift) for each in numbers)
    )
    return next(shifts, 0) if terms else 0


def _is_multiple(number: Number, divisor: int) -> bool:
    """True if a number is a multiple of another one at all remaining points; sizes must also be at least
    0."""
    if isinstance(number, int):
        return number % divisor == 0
    values = number.values[number.domain.alive]
    return bool((values >= 0).all() and (values % divisor == 0).all())


def _products(terms: Terms, number: Number) -> Value:
    """Return the sum of atoms with factors and a number. Atoms with equal factors are added before they are
    multiplied."""
    groups: dict[object, tuple[Number, list[Value], list[Value]]] = {}
    for atom, factor in terms.values():
        negative = isinstance(factor, int) and factor < 0
        size: Number = -factor if negative else factor
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


def _product(value: Value, factor: Number) -> Value:
    if isinstance(factor, int) and factor == 1:
        return value
    if isinstance(value, int | Size):
        product: Value = value * factor
        return product
    return Operation("mul", value, factor, -_MOST, _MOST)
