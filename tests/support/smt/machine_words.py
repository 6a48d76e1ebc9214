"""Bodies as compiled code executes them, where every value is a word of 64 bits, signed or unsigned.

The rules are those of ``emulator.native.direct``: sums and products modulo 2**64, shifts and comparisons by
the kind of their operands, quotients rounded down. Undefined operations must not occur: a shift by 64 or
more, a division that traps, a comparison of a signed word with an unsigned one.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from every_path import Flag, require, truth
from solver import z3
from symbolic_integers import Symbol
from tx8isa.numbers import primitives

BITS = 64


class Word(Symbol):
    """A word that holds ``value``, an integer of ``symbolic_integers``; ``kind`` is i (signed) or u."""

    def __init__(self, value: Any, kind: str) -> None:
        self.kind = kind
        self.value = value.wrapped(BITS, kind == "i")

    def _lifted(self, other: Any) -> Word:
        if isinstance(other, Word):
            return other
        number = int(other)
        return Word(self.value.of(number), self.kind if number >= 0 else "i")

    def _common(self, other: Word) -> str:
        return "u" if self.kind == other.kind == "u" else "i"

    def _combined(self, other: Any, operation: Callable[[Any, Any], Any]) -> Word:
        b = self._lifted(other)
        return Word(operation(self.value, b.value), self._common(b))

    def __add__(self, other: Any) -> Word:
        return self._combined(other, lambda a, b: a + b)

    def __sub__(self, other: Any) -> Word:
        return self._combined(other, lambda a, b: a - b)

    def __mul__(self, other: Any) -> Word:
        return self._combined(other, lambda a, b: a * b)

    def __and__(self, other: Any) -> Word:
        return self._combined(other, lambda a, b: a & b)

    def __or__(self, other: Any) -> Word:
        return self._combined(other, lambda a, b: a | b)

    def __xor__(self, other: Any) -> Word:
        return self._combined(other, lambda a, b: a ^ b)

    def __neg__(self) -> Word:
        return Word(-self.value, self.kind)

    def __invert__(self) -> Word:
        return Word(~self.value, self.kind)

    def _by(self, other: Any) -> Any:
        if isinstance(other, int):
            require(z3.BoolVal(0 <= other < BITS))
            return other
        require(truth(other.value >= 0))
        require(truth(other.value < BITS))
        return other.value.wrapped(BITS.bit_length() - 1, False)

    def __lshift__(self, other: Any) -> Word:
        return Word(self.value << self._by(other), self.kind)

    def __rshift__(self, other: Any) -> Word:
        return Word(self.value >> self._by(other), self.kind)

    def _division(self, other: Any) -> Word:
        b = self._lifted(other)
        require(truth(b.value != 0))
        if self._common(b) == "i":
            least = -(1 << BITS - 1)
            require(z3.Not(z3.And(truth(self.value == least), truth(b.value == -1))))
        return b

    def __floordiv__(self, other: Any) -> Word:
        b = self._division(other)
        return Word(self.value // b.value, self._common(b))

    def __mod__(self, other: Any) -> Word:
        b = self._division(other)
        return Word(self.value % b.value, self._common(b))

    def _compared(self, other: Any) -> Any:
        b = self._lifted(other)
        if b.kind != self.kind:
            raise TypeError("a signed word compared with an unsigned one")
        return b.value

    def __eq__(self, other: object) -> Any:
        b = self._lifted(other)
        return Flag(truth(self.value == (b.value if b.kind == self.kind else Word(b.value, self.kind).value)))

    def __lt__(self, other: Any) -> Any:
        return self.value < self._compared(other)

    def __le__(self, other: Any) -> Any:
        return self.value <= self._compared(other)


def _exact(value: Any, bits: int, signed: bool, kind: str) -> Word:
    return Word(value.wrapped(bits, signed), kind)


def _upper(a: Word, b: Word, signs: tuple[bool, bool]) -> Word:
    x, y = (word.value.wrapped(BITS, sign) for word, sign in zip((a, b), signs, strict=True))
    return Word((x * y) >> BITS, "i")


MACHINE: dict[Any, Callable[..., Word]] = {
    primitives.u64: lambda word: Word(word.value, "u"),
    primitives.s64: lambda word: Word(word.value, "i"),
    primitives.u32: lambda word: _exact(word.value, 32, False, "i"),
    primitives.s32: lambda word: _exact(word.value, 32, True, "i"),
    primitives.mulh: lambda a, b: _upper(a, b, (True, True)),
    primitives.mulhu: lambda a, b: _upper(a, b, (False, False)),
    primitives.mulhsu: lambda a, b: _upper(a, b, (True, False)),
}
"""The machine's version of each primitive that a body may call, by its definition."""


def compiled(body: Callable[..., Any]) -> Callable[..., Any]:
    """The same code with the machine's primitives in place of Python's."""
    if not isinstance(body, FunctionType) or body.__closure__:
        raise TypeError(f"{body!r} is not a plain function")
    own = body.__globals__.items()
    plain = {name: value for name, value in own if isinstance(value, FunctionType)}
    names = {**body.__globals__, **{name: MACHINE.get(value, value) for name, value in plain.items()}}
    return FunctionType(body.__code__, names, body.__name__, body.__defaults__)
