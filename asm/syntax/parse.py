"""The shape of a statement's operands, parsed with ``grammar.lark``; its atoms stay in the text."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from asm.diagnostics import Fault

from .expressions import Atom, Binary, Function, Node, Paren, Unary

if TYPE_CHECKING:
    from lark import Lark

ATOM = re.compile(
    r"((?<![\w.$@])(?!(?<=%)[a-z_]+\s*\()(?:\d[\d.]*+[eE][+-]\d++|[\w.$]++)(?!\s*=(?!=))|'(?:\\.[0-7]*|[^'\\])'?)"
)
"""A number, name or character constant; not the name of an operand (``n=``) nor of a function (``%hi(``)."""


@dataclass(frozen=True, slots=True)
class RegisterOffset:
    """``offset(register)``."""

    offset: Node
    base: Node
    at: int


@dataclass(frozen=True, slots=True)
class Lanes:
    """``[1, 2, 8, 64]``."""

    parts: tuple[Node, ...]
    at: int


@dataclass(frozen=True, slots=True)
class String:
    """The inside of a quoted string, escapes as written."""

    body: str
    at: int


Term = Node | RegisterOffset | Lanes | String


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand; ``name`` is empty for a positional one."""

    name: str
    term: Term
    at: int


@dataclass(frozen=True, slots=True)
class Operands:
    """The operands of a statement and the text they were parsed from."""

    text: str
    start: int
    items: tuple[Operand, ...]
    atoms: tuple[str, ...]

    def offset_in(self, text: str, start: int, at: int) -> int:
        """The offset, in operands of the same shape at ``start`` of a text, of our part at ``at``."""
        end_here, end_there = self.start, start
        for here, there in zip(
            ATOM.finditer(self.text, self.start), ATOM.finditer(text, start), strict=False
        ):
            if here.end() > at:
                return there.start() if here.start() <= at else end_there + at - end_here
            end_here, end_there = here.end(), there.end()
        return end_there + at - end_here


def nodes(term: Term) -> tuple[Node, ...]:
    """The expressions of an operand."""
    if isinstance(term, Lanes):
        return term.parts
    if isinstance(term, RegisterOffset):
        return term.offset, term.base
    return () if isinstance(term, String) else (term,)


_NAMED = re.compile(r"\s*(?:([A-Za-z_][\w.$]*)\s*=\s*)?")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"\s*')
_TERM = re.compile(r"\s*(-?)\s*([\w.$]+)\s*")


def parse_operands(text: str, start: int = 0, slow: Callable[[int], None] | None = None) -> Operands:
    """Parse ``text`` from ``start``; positions count from the beginning of ``text``.

    ``slow`` receives the number of characters that need the grammar, which takes some microseconds for each.

    Strings, sums of atoms, offsets of a base and operands in brackets are parsed here. Most programs contain
    nothing else, and do not wait for the import of Lark.
    """
    plain = _Plain(text, start).operands()
    if plain is not None:
        return plain
    if slow is not None:
        slow(len(text) - start)
    return parse_with_grammar(text, start)


class _Plain:
    """Parses operands without the grammar where that is possible."""

    def __init__(self, text: str, start: int) -> None:
        self.text, self.start, self.at = text, start, start
        self.atoms: list[str] = []

    def operands(self) -> Operands | None:
        """The operands; None when they need the grammar."""
        text, items = self.text, list[Operand]()
        if not text[self.start :].strip():
            return Operands(text, self.start, (), ())
        while True:
            item = self._operand()
            if item is None:
                return None
            items.append(item)
            if self.at == len(text):
                found = tuple(ATOM.findall(text, self.start))
                return Operands(text, self.start, tuple(items), found) if found == tuple(self.atoms) else None
            if not self._skip(","):
                return None

    def _skip(self, character: str) -> bool:
        """Skip a character that comes next, and the blanks after it."""
        if not self.text.startswith(character, self.at):
            return False
        rest = self.text[self.at + 1 :]
        self.at = len(self.text) - len(rest.lstrip())
        return True

    def _operand(self) -> Operand | None:
        match = _NAMED.match(self.text, self.at)
        assert match is not None  # it may be empty
        begin = self.at = match.end()
        if self.text.startswith('"', begin):
            term: Term | None = self._string()
        else:
            term = self._lanes() if self.text.startswith("[", begin) else self._value()
        name = match[1] or ""
        return None if term is None else Operand(name, term, match.start(1) if name else begin)

    def _string(self) -> String | None:
        """Parse a quoted string; words in it that look like atoms count as atoms, as everywhere in the
        text."""
        start, match = self.at, _STRING.match(self.text, self.at)
        if match is None:
            return None
        self.atoms += ATOM.findall(self.text, match.start(1), match.end(1))
        self.at = match.end()
        return String(match[1], start)

    def _value(self) -> Term | None:
        """A sum, perhaps with a base after it."""
        start = self.at
        offset = self._sum()
        if offset is None or not self._skip("("):
            return offset
        base = self._sum()
        return None if base is None or not self._skip(")") else RegisterOffset(offset, base, start)

    def _lanes(self) -> Lanes | None:
        start = self.at
        self._skip("[")
        parts: list[Node] = []
        while True:
            part = self._sum()
            if part is None:
                return None
            parts.append(part)
            if not self._skip(","):
                break
        return Lanes(tuple(parts), start) if self._skip("]") else None

    def _sum(self) -> Node | None:
        """Parse atoms, each perhaps with a minus, with plus or minus signs between them."""
        node = self._term()
        while node is not None and self.text.startswith(("+", "-"), self.at):
            at = self.at
            self.at += 1
            right = self._term()
            node = None if right is None else Binary(self.text[at], node, right, at)
        return node

    def _term(self) -> Node | None:
        match = _TERM.match(self.text, self.at)
        if match is None:
            return None
        self.at = match.end()
        atom = Atom(len(self.atoms), match.start(2))
        self.atoms.append(match[2])
        return Unary("-", atom, match.start(1)) if match[1] else atom


@lru_cache(maxsize=256)  # repetitions bring the same line again and again
def parse_with_grammar(text: str, start: int = 0) -> Operands:
    """Parse operands with Lark, which takes every text; the result equals that of ``parse_operands``."""
    from lark.exceptions import UnexpectedCharacters, UnexpectedInput

    matches = list(ATOM.finditer(text, start))
    try:
        tree = _parser().parse(" " * start + text[start:])
    except UnexpectedInput as error:
        at = (
            error.pos_in_stream if error.pos_in_stream is not None and error.pos_in_stream >= 0 else len(text)
        )
        found = getattr(error, "token", None)
        if isinstance(error, UnexpectedCharacters):
            message = f"unexpected character {text[at]!r}"
        elif not found:
            at, message = len(text.rstrip()), "the operands end too early"
        else:
            message = f"unexpected '{found}'"
        raise Fault(message, at, "operands are separated by commas") from None
    items = _Builder({match.start(): index for index, match in enumerate(matches)}).operands(tree)
    return Operands(text, start, items, tuple(match[0] for match in matches))


@cache
def _parser() -> Lark:
    from .tables import parser

    return parser()


def _first(node: Node) -> str:
    """The unary operator with which an expression begins; empty without one."""
    while isinstance(node, Binary):
        node = node.left
    return node.op if isinstance(node, Unary) else ""


class _Builder:
    """Lark's tree to our nodes. ``indices``: number of the atom that starts at an offset."""

    def __init__(self, indices: dict[int, int]) -> None:
        self.indices = indices

    def operands(self, tree: Any) -> tuple[Operand, ...]:
        return tuple(self._operand(child) for child in tree.children)

    def _operand(self, tree: Any) -> Operand:
        at = tree.meta.start_pos
        if tree.data == "named":
            name, value = tree.children
            return Operand(str(name), self._term(value), at)
        return Operand("", self._term(tree), at)

    def _term(self, tree: Any) -> Term:
        at = tree.meta.start_pos
        if tree.data == "based":
            return RegisterOffset(self._node(tree.children[0]), self._node(tree.children[1]), at)
        if tree.data == "lanes":
            return Lanes(tuple(self._node(child) for child in tree.children), at)
        if tree.data == "string":
            return String("".join(str(part)[1:-1] for part in tree.children), at)  # neighbours are one
        return self._node(tree)

    def _node(self, tree: Any) -> Node:
        at, kind, children = tree.meta.start_pos, tree.data, tree.children
        if kind == "atom":
            if at not in self.indices:  # x %name(y): neither a remainder nor a function
                raise Fault(f"unexpected '{children[0]}('", at, "operands are separated by commas")
            return Atom(self.indices[at], at)
        if kind == "paren":
            return Paren(self._node(children[0]), at)
        if kind == "plt":
            return Function("plt", Atom(self.indices[at], at), at)
        if kind == "function":
            return Function(str(children[0])[1:], self._node(children[1]), at)
        if kind == "unary":
            return Unary(str(children[0]), self._node(children[1]), at)
        if kind == "binary":
            right, op = self._node(children[2]), children[1]
            if str(op) == "!" and _first(right) == "!":
                raise Fault("'! !' is '^' in GNU as", op.start_pos, "write parentheses, as a ! (!b)")
            return Binary(str(op), self._node(children[0]), right, op.start_pos)
        op = "||" if kind == "logical_or" else "&&"
        return Binary(op, self._node(children[0]), self._node(children[1]), at)
