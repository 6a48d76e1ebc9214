"""Statements: assignments, choices and calls of plain functions, as LLVM text without loops.

A name that is assigned in only one branch gets its value where the branches meet; only registers are kept in
memory.
"""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import FunctionType
from typing import Any, NamedTuple, cast

from emulator.native.direct.expressions import Environment, Expressions
from emulator.native.direct.values import Known, Operand, Untranslatable, Value
from emulator.native.inline import definition

_DEEPEST = 8
"""The most nested calls: the limit ends a recursion."""


class _Call(NamedTuple):
    """A plain function that is being written into its caller."""

    end: str
    returns: list[tuple[Operand, str]]


@cache
def parsed(source: str) -> list[ast.stmt]:
    """Parse the statements of a text."""
    return ast.parse(source).body


@cache
def imported(function: Callable[..., Any]) -> ast.FunctionDef:
    """Return the definition of a plain function as it was imported; Untranslatable without one."""
    plain = isinstance(function, FunctionType) and not function.__closure__
    tree = definition(cast(FunctionType, function)) if plain else None
    if tree is None:
        raise Untranslatable(f"a call of {function!r}")
    return tree


class Statements(Expressions):
    """Writes statements. ``break`` and ``continue`` end the block that is being written."""

    access = "volatile "

    def __init__(self) -> None:
        super().__init__()
        self._depth = 0

    @abstractmethod
    def leave(self, names: Environment) -> None:
        """Write a ``break``."""

    @abstractmethod
    def go_on(self, names: Environment) -> None:
        """Write a ``continue``."""

    def run(
        self,
        body: Sequence[ast.stmt],
        names: Environment,
        scope: Mapping[str, Any],
        call: _Call | None = None,
    ) -> Environment | None:
        """Write statements; return the names after them, or None if control never arrives there."""
        for statement in body:
            found = self._statement(statement, names, scope, call)
            if found is None:
                return None
            names = found
        return names

    def _statement(
        self, node: ast.stmt, names: Environment, scope: Mapping[str, Any], call: _Call | None
    ) -> Environment | None:
        if isinstance(node, ast.If):
            return self._if(node, names, scope, call)
        if isinstance(node, ast.Break | ast.Continue):
            (self.leave if isinstance(node, ast.Break) else self.go_on)(names)
            return None
        if isinstance(node, ast.Return) and call is not None:
            value = 0 if node.value is None else self.evaluate(node.value, names, scope)
            call.returns.append((value, self.writer.label))
            self.writer.jump(call.end)
            return None
        if isinstance(node, ast.Expr):
            if not isinstance(node.value, ast.Constant):
                self.evaluate(node.value, names, scope)
            return names
        if isinstance(node, ast.Pass):
            return names
        return self._assign(node, names, scope)

    def _assign(self, node: ast.stmt, names: Environment, scope: Mapping[str, Any]) -> Environment:
        if isinstance(node, ast.AugAssign):
            target: ast.expr = node.target
            left, right = self.number(target, names, scope), self.number(node.value, names, scope)
            value: Known = self.combine(type(node.op), left, right)
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            value = self.evaluate(node.value, names, scope)
        else:
            raise Untranslatable(f"{type(node).__name__} is not translated")
        if isinstance(target, ast.Subscript):
            self.store(target, value, names, scope)
            return names
        if not isinstance(target, ast.Name):
            raise Untranslatable("an assignment to several names")
        return {**names, target.id: value}

    def _if(
        self, node: ast.If, names: Environment, scope: Mapping[str, Any], call: _Call | None
    ) -> Environment | None:
        condition = self.condition(node.test, names, scope)
        if not isinstance(condition, Value):
            return self.run(node.body if condition else node.orelse, names, scope, call)
        writer = self.writer
        end = writer.new_label("join")
        yes = writer.new_label("then")
        no = writer.new_label("else") if node.orelse else end
        before = writer.label
        writer.branch(condition, yes, no)
        ways = []
        if not node.orelse:
            ways.append((names, before))
        for label, body in ((yes, node.body), (no, node.orelse)):
            if body:
                writer.start(label)
                found = self.run(body, dict(names), scope, call)
                if found is not None:
                    ways.append((found, writer.label))
                    writer.jump(end)
        if not ways:
            return None
        writer.start(end)
        return self._meet(ways)

    def _meet(self, ways: list[tuple[Environment, str]]) -> Environment:
        """Join the environments of several branches that meet here."""
        first = ways[0][0]
        shared = [name for name in first if all(name in names for names, _ in ways)]
        return {name: self.writer.phi([(names[name], label) for names, label in ways]) for name in shared}

    def inline(self, function: Any, arguments: list[Operand]) -> Operand:
        tree = imported(function)
        if self._depth == _DEEPEST:
            raise Untranslatable(f"calls too deep, in {function.__name__}")
        self._depth += 1
        names = dict(zip((a.arg for a in tree.args.args), arguments, strict=True))
        call = _Call(self.writer.new_label("return"), [])
        after = self.run(tree.body, names, function.__globals__, call)
        self._depth -= 1
        if after is not None:
            call.returns.append((0, self.writer.label))
            self.writer.jump(call.end)
        self.writer.start(call.end)
        return self.writer.phi(call.returns)
