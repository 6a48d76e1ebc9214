"""Python's operators, for known values and as LLVM instructions; tests that expressions cannot trap."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from .vocabulary import PURE

PYTHON: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
INTEGER = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
}
ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)
FLOAT = {ast.Add: "fadd", ast.Sub: "fsub", ast.Mult: "fmul", ast.Div: "fdiv"}
RELATION = {ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge"}
_CALCULATES = (
    ast.BinOp,
    ast.UnaryOp,
    ast.BoolOp,
    ast.Compare,
    ast.Name,
    ast.Constant,
    ast.operator,
    ast.unaryop,
    ast.boolop,
    ast.cmpop,
    ast.expr_context,
)


def harmless(node: ast.expr, scope: Mapping[str, Any]) -> bool:
    """Return True if an expression cannot trap, so it may be computed even where its value is unused."""
    if not hasattr(node, "_called"):
        node._called = _called(node)  # type: ignore[attr-defined]
    called: list[str] | None = node._called  # type: ignore[attr-defined]
    return called is not None and all(scope.get(name) in PURE for name in called)


def _called(node: ast.expr) -> list[str] | None:
    """Return the names that an expression calls; None if it does more than calculate and call.

    It does not include the meaning of the names, because functions made by one maker share their text.
    """
    names = []
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Name):
            names.append(part.func.id)
        elif not isinstance(part, _CALCULATES) or isinstance(part, ast.FloorDiv | ast.Mod):
            return None
    return names
