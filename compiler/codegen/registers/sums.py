"""Expressions as sums of products, for small code.

The constant parts of such a sum become a single number. If it depends on the sizes of a run, the program
computes it once, at its start. So ``(row * width + column) * 2 + address``, or numbers of 16 bits in one
word, take as few instructions as there are variables.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from asm.instructions.constants import load_constant
from compiler.codegen.emitter import Emitter
from compiler.codegen.expr import Address, Key, Operation, Slot, SpilledVariable, Value, Variable, key_of
from compiler.codegen.spm import Copies
from compiler.evaluation.sizes import Size, always, largest, least

from .contents import RegisterContents
from .forms import Forms
from .linear import LinearSum, forms_of
from .names import with_immediate

_WORD = (1 << 64) - 1
_INSTRUCTION, _NEW_SIZE = 4, 12
"""Bytes of an instruction in code, and of a size of its own in the shape program (roughly)."""
_CONSTANT = 8
"""Bytes of the instructions that make or load an address or a long number, with its place in a table."""
_CHOICE = 12
"""Bytes of the instructions of a minimum or maximum."""
_DEEPEST = 4
"""Most nested minima and maxima whose two sides are examined."""


class Sums(Forms):
    """Chooses the forms of expressions by the contents of registers.

    ``copies``: the variables that choose between the two copies of double buffers. If all copies are equally
    far apart, a variable is 0 or that distance.
    """

    def __init__(self, contents: RegisterContents, copies: Copies | None) -> None:
        self._is_held, self._apart = contents.holds, copies is not None and bool(copies.apart)
        self._loaded: set[int] = set()
        """Sizes that the code has loaded, by their identity."""
        self._alive: list[Variable] = []
        """Variables whose values are known, in the order in which they have become known."""
        self._known: dict[Variable, LinearSum] = {}
        """The values of these variables as sums of other atoms."""
        self._choices: dict[Variable, Operation] = {}
        """Variables with a minimum or maximum as value."""
        self._variables: dict[Key, Variable] = {}
        """The variable that has the value of an operation that is no sum."""

    def simplest(self, value: Value) -> Value:
        if isinstance(value, int | Variable | Address):
            return value
        found = value if isinstance(value, Size) else self._shortest(self._with_turns(value))
        self._note_loads(found)
        return found

    def _shortest(self, value: Value) -> Value:
        try:
            return min([value, *self._all_forms(value)], key=lambda form: (self._bytes(form), _is_made(form)))
        except (ValueError, OverflowError):  # a number that leaves 64 bits
            return value

    def _all_forms(self, value: Value) -> Iterator[Value]:
        plain, rooted = self._sum(value), self._sum(value, rooted=True)
        yield from forms_of(plain)
        if rooted.terms.keys() != plain.terms.keys():
            yield from forms_of(rooted)

    def _with_turns(self, value: Value) -> Value:
        """The expression with variables in place of the distances of second copies."""
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
        """Rough number of bytes of instructions that compute a value here."""
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
        return len(self._alive)

    def forget_since(self, mark: int) -> None:
        for variable in self._alive[mark:]:
            del self._known[variable]
            self._choices.pop(variable, None)
        self._variables = {key: found for key, found in self._variables.items() if found in self._known}
        del self._alive[mark:]

    def forget(self, variable: Variable) -> None:
        for other, total in self._known.items():
            if any(variable in key.variables for key in total.terms):
                self._known[other] = LinearSum({key_of(other): (other, 1)}, 0)
                self._choices.pop(other, None)

    def define(self, variable: Variable, value: Value) -> None:
        own = LinearSum({key_of(variable): (variable, 1)}, 0)
        with suppress(ValueError, OverflowError):
            total = self._sum(self._with_turns(value), rooted=True)
            atom = total.atom
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
        if not isinstance(value, Operation):
            return None
        with suppress(ValueError, OverflowError):
            total = self._sum(self._with_turns(value), rooted=True)
            if not total.terms and isinstance(total.number, int):
                return total.number
        return None

    def is_below(self, value: Value, other: Value) -> bool | None:
        with suppress(ValueError, OverflowError):
            apart = self._sum(other, rooted=True).plus(self._sum(value, rooted=True), -1)
            if always(self._least(apart) > 0):
                return True
            if always(self._least(LinearSum({}, 0).plus(apart, -1)) >= 0):
                return False
        return None

    def _is_least(self, left: LinearSum, right: LinearSum) -> bool | None:
        """True if a sum is never above another one, False if never below it; None if neither is known."""
        apart = right.plus(left, -1)
        if always(self._least(apart) >= 0):
            return True
        return False if always(self._least(LinearSum({}, 0).plus(apart, -1)) >= 0) else None

    def _least(self, total: LinearSum, depth: int = 0) -> Any:
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

    def _sum(self, value: Value, rooted: bool = False) -> LinearSum:
        """The sum equal to an expression; ``rooted`` replaces variables by their known values.

        ValueError or OverflowError where a number leaves 64 bits.
        """
        if isinstance(value, int | Size):
            return LinearSum({}, value)
        if isinstance(value, Address):
            symbol = Address(value.symbol, 0, value.buffer)
            return LinearSum({key_of(symbol): (symbol, 1)}, value.offset)
        if not isinstance(value, Operation):
            own = LinearSum({key_of(value): (value, 1)}, 0)
            return self._known.get(value, own) if rooted and isinstance(value, Variable) else own
        left, right = self._sum(value.left, rooted), self._sum(value.right, rooted)
        if value.op in ("add", "sub"):
            return left.plus(right, 1 if value.op == "add" else -1)
        if value.op == "or":  # numbers of 16 bits in one word: their bits do not overlap
            return left.plus(right)
        if value.op in ("mul", "shl") and not right.terms:
            factor = right.number if value.op == "mul" else 1 << int(right.number)
            return LinearSum({}, 0).plus(left, factor)
        if value.op == "mul" and not left.terms:
            return LinearSum({}, 0).plus(right, left.number)
        known = self._known_result(value, left, right, rooted)
        return self._atom(value, left, right, rooted) if known is None else known

    def _known_result(
        self, value: Operation, left: LinearSum, right: LinearSum, rooted: bool
    ) -> LinearSum | None:
        """The result of an operation as a sum, where that is known."""
        with suppress(ValueError, OverflowError):
            if value.op in ("min", "max"):
                ends = (left, right) if rooted else [self._sum(v, True) for v in (value.left, value.right)]
                is_least = self._is_least(*ends)
                return None if is_least is None else left if is_least == (value.op == "min") else right
            if value.op in ("div", "rem") and not right.terms and isinstance(right.number, int):
                return self._part(value.op, left, right.number)
        return None

    def _part(self, op: str, left: LinearSum, divisor: int) -> LinearSum | None:
        """The quotient or remainder if all terms are multiples of the divisor and the rest is less."""
        if not isinstance(left.number, int):
            return None
        whole, parts = LinearSum({}, left.number // divisor), LinearSum({}, left.number % divisor)
        for key, (atom, factor) in left.terms.items():
            if isinstance(factor, int) and factor % divisor == 0:
                whole = whole.plus(LinearSum({key: (atom, factor // divisor)}, 0))
            else:
                parts = parts.plus(LinearSum({key: (atom, factor)}, 0))
        room = LinearSum({}, divisor - 1).plus(parts, -1)
        if not always(self._least(parts) >= 0) or not always(self._least(room) >= 0):
            return None
        return whole if op == "div" else parts

    def _atom(self, value: Operation, left: LinearSum, right: LinearSum, rooted: bool) -> LinearSum:
        """Return an operation as an atom, with operands in their shortest form, or in a form that is the same
        everywhere."""
        if rooted:
            one, other = next(forms_of(left)), next(forms_of(right))
        else:
            one = min([value.left, *forms_of(left)], key=self._bytes)
            other = min([value.right, *forms_of(right)], key=self._bytes)
        atom = Operation(value.op, one, other, value.low, value.high)
        return LinearSum({key_of(atom): (atom, 1)}, 0)


class Proofs(Sums):
    """Knows which values are below others, but computes each value unchanged and erases no code."""

    def __init__(self) -> None:
        super().__init__(RegisterContents(Emitter()), None)

    def simplest(self, value: Value) -> Value:
        return value

    def is_below(self, value: Value, other: Value) -> bool | None:
        return super().is_below(value, other) or None


def _is_made(value: Value) -> bool:
    """True if a value is computed from others."""
    return isinstance(value, Operation)
