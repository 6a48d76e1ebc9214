"""Refuses typed code whose numbers would differ from plain Python's, or that raises.

Numba promotes silently. Binary32 with binary64 or an integer becomes binary64, two narrow unsigned words
become one unsigned 64-bit word, and an integer variable that is also assigned a float becomes a float. In
plain Python the same lines have another meaning, so they are errors here.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

from numba.core import ir
from numba.core import types as numba_types

from emulator.native.bytecode import KernelError

types: Any = numba_types

_ARITHMETIC = frozenset(
    getattr(operator, prefix + name)
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod")
    for prefix in ("", "i")
)


def check_types(compiled: list[Any], kernel: str) -> None:
    """Raise KernelError for the first line that breaks a rule; ``compiled`` are one function's overloads."""
    for result in compiled:
        annotation = result.type_annotation
        for statement in _statements(annotation.blocks):
            problem = _problem(statement, annotation.typemap)
            if problem:
                raise KernelError(f"kernel {kernel}: {annotation.filename}:{statement.loc.line}: {problem}")


def _statements(blocks: dict[int, Any]) -> Iterator[Any]:
    for block in blocks.values():
        yield from block.body


def _problem(statement: Any, typemap: dict[str, Any]) -> str | None:
    if isinstance(statement, ir.Raise | ir.StaticRaise | ir.DynamicRaise):
        return "a kernel cannot raise; check before it is called"
    if not isinstance(statement, ir.Assign):
        return None
    value, target = statement.value, typemap[statement.target.name]
    if isinstance(target, types.UnicodeType):
        return "a kernel has no strings"
    if isinstance(value, ir.Var):  # the rest of a phi node
        return _converted(typemap[value.name], target)
    if not isinstance(value, ir.Expr):
        return None
    if value.op in ("binop", "inplace_binop") and value.fn in _ARITHMETIC:
        return _mixed(typemap[value.lhs.name], typemap[value.rhs.name])
    if value.op == "cast":  # a returned value
        return _converted(typemap[value.value.name], target)
    return None


def _converted(source: Any, target: Any) -> str | None:
    source, target = (types.unliteral(t) for t in (source, target))
    if isinstance(target, types.Float) and source != target:
        return f"a variable or result is {source} on one path and {target} on another"
    return None


def _mixed(left: Any, right: Any) -> str | None:
    left, right = (types.unliteral(t) for t in (left, right))
    for side in (left, right):
        if isinstance(side, types.Integer) and side.bitwidth < 64:
            return f"arithmetic on {side}; wrap values from a view in s64() or u64()"
    if types.float32 in (left, right) and left != right:
        return f"arithmetic between {left} and {right}; wrap constants in single()"
    return None
