"""Values of a translation: known numbers are Python's, the others names in LLVM text with one of six kinds.

The kinds are those of ``emulator.native``: signed and unsigned 64-bit words, unsigned words read from narrow
elements, which need ``s64`` or ``u64`` before arithmetic, truth values, binary64 and binary32. A known number
represents itself, so choices made while the text is written cost nothing at run time.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from tx8isa.numbers.primitives import s64

Kind = Literal["i", "u", "n", "b", "d", "f"]
TYPES: dict[Kind, str] = {"i": "i64", "u": "i64", "n": "i64", "b": "i1", "d": "double", "f": "float"}


class Untranslatable(Exception):
    """Source that the translator does not know; the interpreter executes such an instruction."""


class Value(NamedTuple):
    """A result of an LLVM instruction."""

    kind: Kind
    name: str


class State(NamedTuple):
    """The view of the tile's state."""


class View(NamedTuple):
    """Memory at a host address as elements of one type; narrow integers are unsigned."""

    bits: int
    kind: Kind
    address: Known

    @property
    def element(self) -> str:
        """LLVM's type of an element."""
        return TYPES[self.kind] if self.kind in ("d", "f") else f"i{self.bits}"


Known = Value | int | float | bool | np.float32
"""A value, known or not; a known binary32 is NumPy's."""
Operand = Known | State | View | Callable[..., object]
"""Any object that a name may be bound to."""


def kind_of(value: Operand) -> Kind:
    """Return the kind of a value; known integers count as signed."""
    if isinstance(value, Value):
        return value.kind
    if isinstance(value, bool):
        return "b"
    if isinstance(value, int):
        return "i"
    if isinstance(value, float):
        return "d"
    if isinstance(value, np.float32):
        return "f"
    raise Untranslatable(f"{type(value).__name__} is no number")


def spelled(value: Operand) -> str:
    """Return a value as an operand of an LLVM instruction."""
    if isinstance(value, Value):
        return value.name
    kind = kind_of(value)
    if kind == "b":
        return "true" if value else "false"
    if isinstance(value, float | np.float32):  # LLVM writes binary32 as the binary64 of the same value
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    return str(s64(value))  # type: ignore[arg-type]


def typed(value: Operand) -> str:
    """Return type and operand."""
    return f"{TYPES[kind_of(value)]} {spelled(value)}"


def same(left: Operand, right: Operand) -> bool:
    """Return True if two values are the same: one result, or numbers of one kind with the same bits."""
    numbers = bool | int | float | np.float32
    if isinstance(left, numbers) and isinstance(right, numbers):
        return kind_of(left) == kind_of(right) and spelled(left) == spelled(right)
    return type(left) is type(right) and bool(left == right)


class Writer:
    """Lines of one LLVM function, in which one block is being written."""

    def __init__(self, prefix: str = "v") -> None:
        self.lines: list[str] = []
        self.label = "entry"
        self._prefix = prefix
        self._made = 0

    def line(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def make(self, kind: Kind, text: str) -> Value:
        """Return the result of an instruction."""
        self._made += 1
        name = f"%{self._prefix}{self._made}"
        self.line(f"{name} = {text}")
        return Value(kind, name)

    def new_label(self, hint: str) -> str:
        self._made += 1
        return f"{hint}{self._made}"

    def start(self, label: str) -> None:
        """Write the next lines into another block."""
        self.lines.append(f"{label}:")
        self.label = label

    def jump(self, label: str) -> None:
        self.line(f"br label %{label}")

    def branch(self, condition: Known, yes: str, no: str) -> None:
        self.line(f"br {typed(condition)}, label %{yes}, label %{no}")

    def phi(self, ways: list[tuple[Operand, str]]) -> Operand:
        """Return the value that comes from one of several blocks; no instruction when all agree."""
        first = ways[0][0]
        if all(same(value, first) for value, _ in ways):
            return first
        kinds = {kind_of(value) for value, _ in ways}
        if len(kinds) > 1 and kinds <= {"i", "u", "n"}:
            kinds = {"i" if "i" in kinds else "u"}
        if len(kinds) != 1:
            raise Untranslatable(f"one variable of kinds {sorted(kinds)}")
        kind = kinds.pop()
        arms = ", ".join(f"[ {spelled(value)}, %{label} ]" for value, label in ways)
        return self.make(kind, f"phi {TYPES[kind]} {arms}")
