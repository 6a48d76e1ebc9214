"""Expressions: the tree, literals, and evaluation in 64 bits."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol

from asm.diagnostics import Fault


class Address(NamedTuple):
    """A place in a section whose final address is not known yet."""

    section: str
    offset: int


Value = int | Address


class UnknownValue(Exception):
    """A value that later text or the final layout decides; ``what`` names the reason."""

    def __init__(self, what: str, at: int | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.at = at


class CircularValue(UnknownValue):
    """The value of a symbol that is defined by itself; the mistake is reported once, where it is defined."""

    def __init__(self) -> None:
        super().__init__("a symbol that is defined by itself")


@dataclass(frozen=True, slots=True)
class Atom:
    """The ``index``-th number, name or character constant of a statement; ``at`` is its offset."""

    index: int
    at: int


@dataclass(frozen=True, slots=True)
class Unary:
    op: str
    operand: Node
    at: int


@dataclass(frozen=True, slots=True)
class Binary:
    op: str
    left: Node
    right: Node
    at: int


@dataclass(frozen=True, slots=True)
class Paren:
    inner: Node
    at: int


@dataclass(frozen=True, slots=True)
class Function:
    """``%hi(x)`` and its like."""

    name: str
    argument: Node
    at: int


Node = Atom | Unary | Binary | Paren | Function


def has_function(node: Node) -> bool:
    """Return True if an expression uses a function such as ``%lo``."""
    if isinstance(node, Binary):
        return has_function(node.left) or has_function(node.right)
    if isinstance(node, Unary):
        return has_function(node.operand)
    return has_function(node.inner) if isinstance(node, Paren) else isinstance(node, Function)


class Scope(Protocol):
    """The symbols and functions of expressions."""

    def value_of(self, name: str, at: int) -> Value:
        """Value of a symbol, of ``.`` or of a local label; UnknownValue or Fault when there is none."""

    def apply(self, function: str, argument: Value, at: int) -> Value:
        """Value of ``%function(argument)``."""


LIMIT_LOW, LIMIT_HIGH = -(1 << 63), 1 << 64

_LONGEST_NUMBER = 1000
"""Far more digits than 64 bits have: zeros may stand before them."""
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]+|0[bB][01]+|0(?:[oO]?[0-7]+)?|[1-9]\d*")
_FLOAT = re.compile(r"\d+\.\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|inf|nan")
_LOCAL = re.compile(r"\d+[fb]")
_ESCAPES = {"n": 10, "t": 9, "r": 13, "0": 0, "b": 8, "f": 12, "v": 11, "a": 7}
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]+|[0-7]{1,3}|.)", re.DOTALL)


def literal(text: str, at: int = 0) -> int | None:
    """The value of a literal, None for a name; Fault for a malformed or too large one."""
    first = text[0]
    if first == "'":
        return _character(text, at)
    if not first.isdigit() or (text[-1] in "fb" and _LOCAL.fullmatch(text)):
        return None
    value = _whole_number(text)
    if value is not None:
        return value
    if _NUMBER.fullmatch(text):
        what = text if len(text) <= _LONGEST_NUMBER else f"a number of {len(text)} digits"
        raise Fault(f"{what} does not fit 64 bits", at)
    if _FLOAT.fullmatch(text):
        raise Fault(f"{text} is a fraction; a whole number is expected here", at)
    raise Fault(f"malformed number {text}", at, "write 10, 0x1f, 0b101 or 017")


@lru_cache(maxsize=65536)  # programs name the same addresses and sizes in many operands
def _whole_number(text: str) -> int | None:
    """The value of digits; None when they are no number, or one beyond 64 bits."""
    if not _NUMBER.fullmatch(text) or len(text) > _LONGEST_NUMBER:
        return None
    octal = text[0] == "0" and len(text) > 1 and text[1] in "01234567"
    value = int(text, 8 if octal else 0)
    return value if value < LIMIT_HIGH else None


def fraction(text: str) -> float | None:
    """The value of a float literal (``1e-6``, ``inf``), None for anything else."""
    return float(text) if _FLOAT.fullmatch(text) else None


def _character(text: str, at: int) -> int:
    body = text[1:-1] if len(text) > 2 and text.endswith("'") else text[1:] if text != "''" else ""
    code = unescape(body, at)
    if len(code) != 1:
        raise Fault(
            f"{text} is not a character constant", at, "write one ASCII character or escape, as 'a' or '\\n'"
        )
    return code[0]


def unescape(body: str, at: int = 0) -> bytes:
    """Bytes of a string's inside: UTF-8, with \\n \\t \\r \\b \\f \\v \\a \\\\ \\" \\' \\ooo and \\xhh."""

    def byte(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] == "x" and len(code) > 1:
            return chr(int(code[1:], 16) & 0xFF)
        if code[0] in "01234567":
            return chr(int(code, 8) & 0xFF)
        if code in _ESCAPES:
            return chr(_ESCAPES[code])
        if code in "\\\"'":
            return code
        raise Fault(
            f"unknown escape \\{code}",
            at + match.start(),
            "known: \\n \\t \\r \\b \\f \\v \\a \\\\ \\\" \\' \\ooo \\xhh",
        )

    if "\\" not in body:
        return body.encode()
    parts, end = [], 0
    for match in _ESCAPE.finditer(body):
        parts += [body[end : match.start()].encode(), byte(match).encode("latin-1")]
        end = match.end()
    return b"".join((*parts, body[end:].encode()))


def divide(a: int, b: int) -> int:
    """The quotient, rounded toward zero."""
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def signed64(value: int) -> int:
    """The signed number with the same 64 bits; ``value`` in -2**63 .. 2**64-1."""
    return value - (1 << 64) if value >= 1 << 63 else value


def _signed(function: Callable[[int, int], int]) -> Callable[[int, int], int]:
    return lambda a, b: function(signed64(a), signed64(b))


def _relation(holds: Callable[[int, int], bool]) -> Callable[[int, int], int]:
    """A comparison of signed numbers; -1 where it holds."""
    return _signed(lambda a, b: -int(holds(a, b)))


RELATIONS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<>": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}
OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _signed(divide),
    "%": _signed(lambda a, b: a - divide(a, b) * b),
    "<<": operator.lshift,
    ">>": lambda a, b: (a & LIMIT_HIGH - 1) >> b,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "!": lambda a, b: a | ~b,
    "&&": lambda a, b: int(bool(a and b)),
    "||": lambda a, b: int(bool(a or b)),
    **{symbol: _relation(holds) for symbol, holds in RELATIONS.items()},
}
"""The operators on numbers as GNU as computes them, in 64 bits; results may leave the range."""
_RELATIVE = ("-", *RELATIONS)


Told = Callable[[Binary, Value, Value], None]
"""Receives the values of the operands of an operator."""


def evaluate(node: Node, atoms: Sequence[str], scope: Scope, told: Told | None = None) -> Value:
    """Value of an expression: a number, or a place in a section while the layout is open.

    Numbers are in -2**63 .. 2**64-1; Fault when one leaves that range, UnknownValue when it is not known yet.
    """
    if isinstance(node, Atom):
        number = literal(atoms[node.index], node.at)
        return scope.value_of(atoms[node.index], node.at) if number is None else number
    if isinstance(node, Paren):
        return evaluate(node.inner, atoms, scope, told)
    if isinstance(node, Function):
        return scope.apply(node.name, evaluate(node.argument, atoms, scope, told), node.at)
    if isinstance(node, Unary):
        return _unary(node, number_of(evaluate(node.operand, atoms, scope, told), node.at))
    left, right = evaluate(node.left, atoms, scope, told), evaluate(node.right, atoms, scope, told)
    if told is not None:
        told(node, left, right)
    return _binary(node, left, right)


def number_of(value: Value, at: int | None = None) -> int:
    """A value as a number; UnknownValue for an address before the layout."""
    if isinstance(value, Address):
        raise UnknownValue(f"an address in {value.section}", at)
    return value


def _unary(node: Unary, value: int) -> int:
    if node.op == "!":
        return int(not value)
    return _in_range({"-": -value, "~": ~value, "+": value}[node.op], node.at)


def _binary(node: Binary, left: Value, right: Value) -> Value:
    op = node.op
    if isinstance(left, Address) or isinstance(right, Address):
        if isinstance(left, Address) and isinstance(right, int) and op in ("+", "-"):
            return Address(left.section, left.offset + (right if op == "+" else -right))
        if isinstance(right, Address) and isinstance(left, int) and op == "+":
            return Address(right.section, right.offset + left)
        if (
            isinstance(left, Address)
            and isinstance(right, Address)
            and op in _RELATIVE
            and left[0] == right[0]
        ):
            return OPERATORS[op](left.offset, right.offset)
    a, b = number_of(left, node.at), number_of(right, node.at)
    if op in ("/", "%") and b == 0:
        raise Fault(f"division of {a} by zero", node.at)
    if op in ("<<", ">>") and not 0 <= b <= 63:
        raise Fault(f"shift by {b} is outside 0..63", node.at)
    return _in_range(OPERATORS[op](a, b), node.at)


def _in_range(value: int, at: int) -> int:
    if not LIMIT_LOW <= value < LIMIT_HIGH:
        raise Fault(f"the result {value} does not fit 64 bits", at)
    return value
