"""Warns where GNU as and C read an expression differently: precedence, true, the sign of 64 bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from asm.diagnostics import Fault

from .expressions import (
    OPERATORS,
    RELATIONS,
    Atom,
    Binary,
    Function,
    Node,
    Paren,
    Scope,
    Unary,
    UnknownValue,
    Value,
    divide,
    evaluate,
)
from .parse import Operands, nodes

_C_ORDER = ("||", "&&", "|", "^", "&", "== != <>", "< > <= >=", "<< >>", "+ -", "* / %")
_C_RANK = {op: rank for rank, ops in enumerate(_C_ORDER) for op in ops.split()}
"""The precedence of C, the larger the tighter; C has no binary ``!``."""

_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "/": divide,
    "%": lambda a, b: a - divide(a, b) * b,
    ">>": lambda a, b: a >> b,
    **RELATIONS,
}
"""Operators whose result depends on whether the highest of 64 bits is a sign, on exact numbers."""


def doubtful(operands: Operands, atoms: Sequence[str], scope: Scope, truth: bool = False) -> Iterator[Fault]:
    """Warnings for the expressions of a statement of the shape of ``operands``, with these atoms.

    ``truth``: only whether a value is 0 matters.
    """
    for item in operands.items:
        if not isinstance(item.term, Atom):
            for node in nodes(item.term):
                yield from _Reading(atoms).doubts(node, truth)
                yield from _signs(node, atoms, scope)


def _order(node: Binary) -> Iterator[Fault]:
    """A warning for each operand without parentheses whose operator C applies after that of ``node``."""
    for side, operand in enumerate((node.left, node.right)):
        if not isinstance(operand, Binary) or "!" in (node.op, operand.op):
            continue
        if _C_RANK[operand.op] < _C_RANK[node.op] + side:
            message = f"'{operand.op}' is applied before '{node.op}', as in GNU as; C does it after"
            yield Fault(message, min(node.at, operand.at), "write parentheses")


class _Reading:
    """Looks for operators in one expression that C reads differently, whatever the values are."""

    def __init__(self, atoms: Sequence[str]) -> None:
        self._atoms = atoms
        self._kinds: dict[int, str] = {}

    def doubts(self, node: Node, truth: bool) -> Iterator[Fault]:
        """Yield warnings for a part of the expression; ``truth``: it only matters if its value is 0."""
        if isinstance(node, Paren):
            yield from self.doubts(node.inner, truth)
        elif isinstance(node, Function):
            yield from self.doubts(node.argument, False)
        elif isinstance(node, Unary):
            yield from self.doubts(node.operand, node.op == "!")
        elif isinstance(node, Binary):
            inner = self._truth_of_operands(node, truth)
            yield from self.doubts(node.left, inner)
            yield from self.doubts(node.right, inner)
            yield from _order(node)
            if node.op in RELATIONS and not truth:
                message = f"a true '{node.op}' is -1 here, as in GNU as; in C it is 1"
                yield Fault(message, node.at, f"write !!(a {node.op} b) for 1, or -!!(a {node.op} b) for -1")

    def _truth_of_operands(self, node: Binary, truth: bool) -> bool:
        """Return True if true may be -1 or 1 in the operands without changing the result."""
        if node.op in ("&&", "||"):
            return True
        sides = (node.left, node.right)
        if node.op in ("==", "!=", "<>"):
            zero = any(isinstance(side, Atom) and self._atoms[side.index] == "0" for side in sides)
            return zero or {self._kind(side) for side in sides} == {"comparison"}
        return truth and node.op in ("&", "|", "^") and self._kind(node) != "number"

    def _kind(self, node: Node) -> str:
        """``comparison``: 0 or -1 here, 0 or 1 in C. ``flag``: 0 or 1 in both. ``truth``: a mixture of both.

        If one of them is 0 in one reading, it is 0 in the other too; any other value is a ``number``.
        """
        if id(node) not in self._kinds:  # each part is asked for by all around it
            self._kinds[id(node)] = self._kind_of(node)
        return self._kinds[id(node)]

    def _kind_of(self, node: Node) -> str:
        if isinstance(node, Paren):
            return self._kind(node.inner)
        if isinstance(node, Unary) and node.op == "!":
            return "flag"
        if not isinstance(node, Binary):
            return "number"
        if node.op in RELATIONS or node.op in ("&&", "||"):
            return "comparison" if node.op in RELATIONS else "flag"
        kinds = {self._kind(node.left), self._kind(node.right)} if node.op in ("&", "|", "^") else {"number"}
        if "number" in kinds or (node.op == "^" and kinds not in ({"comparison"}, {"flag"})):
            return "number"
        return kinds.pop() if len(kinds) == 1 else "truth"


def _signs(node: Node, atoms: Sequence[str], scope: Scope) -> list[Fault]:
    """Warn of operators whose result differs because this assembler takes bit 63 as a sign, or does not."""
    found: list[Fault] = []

    def told(part: Binary, a: Value, b: Value) -> None:
        op = part.op
        if op not in _ARITHMETIC or not isinstance(a, int) or not isinstance(b, int):
            return
        if (op in "/%" and not b) or (op == ">>" and not 0 <= b <= 63):
            return
        here, exact = OPERATORS[op](a, b), int(_ARITHMETIC[op](a, b))
        if here != (-exact if op in RELATIONS else exact):
            message = f"{a} {op} {b} is {here} here, as in GNU as; on numbers of any size it is {exact}"
            help = "GNU as has 64 bits, with a sign in / % and comparisons, without one in >>"
            found.append(Fault(message, part.at, help))

    with suppress(Fault, UnknownValue):  # later text decides, or the statement itself is refused
        evaluate(node, atoms, scope, told)
    return found
