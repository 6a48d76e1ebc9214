"""Writes small functions as expressions into the functions that would call them.

Compiling a function takes Numba a tenth of a second however small it is, and the kernel core alone has a
hundred functions. A body that is one returned expression, or a chain of ``if ...: return ...``, is written
into its caller instead.
"""

from __future__ import annotations

import ast
import builtins
import copy
import inspect
import linecache
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FunctionType
from typing import Any, cast

from .bytecode import references

_FUTURE = annotations.compiler_flag
"""The flag of ``from __future__ import annotations``, which a function keeps from its module."""


class Names:
    """The globals of a generated function: every object used gets one name."""

    def __init__(self) -> None:
        self.scope: dict[str, Any] = {}
        self._by_identity: dict[int, str] = {}

    def name(self, value: Any) -> str:
        """Return the name of an object, chosen at first use."""
        known = self._by_identity.get(id(value))
        if known is None:
            hint = getattr(value, "__name__", "constant").rpartition(".")[2]
            known = self._by_identity[id(value)] = f"{hint}_{len(self.scope)}"
            self.scope[known] = value
        return known

    def call(self, function: Callable[..., Any], arguments: Sequence[str]) -> str:
        """Return source of ``function(*arguments)``; arguments are source text free of side effects."""
        body = _returned(function)
        if body is None:
            return f"{self.name(function)}({', '.join(arguments)})"
        parameters = inspect.signature(function).parameters
        replaced = dict(zip(parameters, arguments, strict=True))
        expression = _Substitute(replaced, function, self).visit(copy.deepcopy(body))
        return f"({ast.unparse(ast.fix_missing_locations(expression))})"

    def function(self, source: str, name: str) -> Callable[..., Any]:
        """Return the function ``name`` that ``source`` defines, with these globals."""
        exec(source, self.scope)
        made: Callable[..., Any] = self.scope.pop(name)
        _generated[made.__code__] = source
        return made


class _Substitute(ast.NodeTransformer):
    def __init__(self, replaced: dict[str, str], function: Any, names: Names) -> None:
        self.replaced = replaced
        self.globals = function.__globals__
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.replaced:
            return ast.parse(self.replaced[node.id], mode="eval").body
        if node.id in self.globals:
            return ast.Name(self.names.name(self.globals[node.id]))
        if hasattr(builtins, node.id):
            return node
        raise NameError(f"'{node.id}' is not defined where a body is inlined")


def _returned(function: Any) -> ast.expr | None:
    """Return the expression that a function returns, or None if its body has other statements."""
    if function.__closure__ or not inspect.isfunction(function):
        return None
    tree = definition(function)
    if tree is None:
        return None
    statements = tree.body
    if ast.get_docstring(tree) is not None:
        statements = statements[1:]
    return _choice(statements)


_generated: dict[CodeType, str] = {}
"""The texts of functions that no file holds."""


def with_constants(
    function: FunctionType, change: Callable[[Any], Any], scope: dict[str, Any]
) -> FunctionType:
    """Copy a function with other constants and globals; ``definition`` also finds the copy's text."""
    code = function.__code__
    copied = code.replace(co_consts=tuple(map(change, code.co_consts)))
    if copied != code:
        _changed[copied] = function, change
    return FunctionType(copied, scope, function.__name__)


_changed: dict[CodeType, tuple[FunctionType, Callable[[Any], Any]]] = {}
"""The functions that ``with_constants`` copied, by the code of the copy."""


class _Constants(ast.NodeTransformer):
    def __init__(self, change: Callable[[Any], Any]) -> None:
        self.change = change

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        return ast.Constant(self.change(node.value))


def definition(function: FunctionType) -> ast.FunctionDef | None:
    """Return the text of a function; None for other objects, or if this process imported another text.

    The text is read from the file, which may have been edited since then and have other lines there.
    """
    known = function.__code__
    if known in _changed:
        original, change = _changed[known]
        found = definition(original)
        return found and cast(ast.FunctionDef, _Constants(change).visit(copy.deepcopy(found)))
    if known in _generated:
        return cast(ast.FunctionDef, ast.parse(_generated[known]).body[0])
    tree = _in_file(known.co_filename).get(known.co_firstlineno)
    if tree is None:
        return None
    inside = ast.FunctionDef("", _parameters(known.co_freevars), [_without_decorators(tree)], [], lineno=1)
    module = ast.fix_missing_locations(ast.Module([inside] if known.co_freevars else inside.body, []))
    compiled = compile(module, "", "exec", known.co_flags & _FUTURE, dont_inherit=True)
    same = any(
        references(code.replace(co_flags=known.co_flags)) == references(known) for code in _codes(compiled)
    )
    return tree if same else None


def _in_file(name: str) -> dict[int, ast.FunctionDef]:
    """Return the definitions of a file by the line where each begins, decorators included."""
    linecache.checkcache(name)
    lines = tuple(linecache.getlines(name))
    known = _files.get(name)
    if known is None or known[0] != lines:
        found = [node for node in ast.walk(_parsed("".join(lines))) if isinstance(node, ast.FunctionDef)]
        known = (
            lines,
            {min(node.lineno, *(d.lineno for d in node.decorator_list), 1 << 62): node for node in found},
        )
        _files[name] = known
    return known[1]


_files: dict[str, tuple[tuple[str, ...], dict[int, ast.FunctionDef]]] = {}
"""Lines and definitions of the files that were read."""


def _parsed(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except SyntaxError:
        return ast.Module([], [])


def _parameters(names: Sequence[str]) -> ast.arguments:
    return ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of every function inside."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def _without_decorators(tree: ast.FunctionDef) -> ast.FunctionDef:
    bare = copy.copy(tree)
    bare.decorator_list = []
    return bare


def _choice(statements: Sequence[ast.stmt]) -> ast.expr | None:
    first = statements[0]
    if isinstance(first, ast.Return):
        return first.value
    if isinstance(first, ast.If) and not first.orelse and len(statements) > 1:
        then, otherwise = _choice(first.body), _choice(statements[1:])
        if then is not None and otherwise is not None:
            return ast.IfExp(first.test, then, otherwise)
    return None
