"""Translates plain integer functions, such as the byte counts of extents, to C.

The C text computes the same for the values in legal instructions: 64-bit integers without division of a
negative number (C rounds it toward zero, Python down).
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from types import FunctionType
from typing import Any

Function = Callable[..., int]

_BINARY = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "/",
    ast.Mod: "%",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
}
_COMPARE = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_LOGIC = {ast.And: " && ", ast.Or: " || "}
_UNARY = {ast.USub: "-", ast.Invert: "~", ast.Not: "!"}
_MINMAX = {max: "tx8_max", min: "tx8_min"}
_KEYWORDS = ("register", "long", "short", "int", "char", "float", "double", "static", "union", "switch")


class Untranslatable(Exception):
    """A Python construct without a translation, which is a mistake in the project and not of its user."""


class Functions:
    """C definitions of Python functions. Each function is defined once, after the functions it calls."""

    def __init__(self) -> None:
        self.definitions: list[str] = []
        self._names: dict[Function, str] = {}

    def name(self, function: Function) -> str:
        """Return the C name of a function; the first call translates it."""
        if function not in self._names:
            if not isinstance(function, FunctionType):
                raise Untranslatable(f"{function!r} is not a plain function")
            module = function.__module__
            module = (module.partition(".insns.")[2] or module.rpartition(".")[2]).replace(".", "_")
            name = f"tx8_bytes_{module}_{function.__name__.strip('_')}"
            if name in self._names.values() or not name.isidentifier():
                raise Untranslatable(f"{module}.{function.__name__}: '{name}' is taken or no name")
            self._names[function] = name
            self.definitions.append(_Translation(self, function, name).text)
        return self._names[function]


class _Translation:
    """One function; ``text`` is its C definition."""

    def __init__(self, functions: Functions, function: FunctionType, name: str) -> None:
        self.functions = functions
        self.where = f"{function.__module__}.{function.__name__}"
        known = inspect.getclosurevars(function)
        self.names: dict[str, Any] = {**known.builtins, **known.globals, **known.nonlocals}
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
        if not isinstance(tree, ast.FunctionDef) or tree.args.defaults or tree.args.vararg:
            raise Untranslatable(f"{self.where}: expected a def with plain arguments")
        self.locals = {argument.arg for argument in tree.args.args}
        arguments = ", ".join(f"int64_t {_local(argument.arg)}" for argument in tree.args.args)
        body = self.block(tree.body, "    ")
        unused = self.locals - {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        silent = "".join(f"    (void){_local(name)};\n" for name in sorted(unused))
        self.text = f"static inline int64_t {name}({arguments}) {{\n{silent}{body}}}\n"

    def refuse(self, node: ast.AST) -> Untranslatable:
        return Untranslatable(f"{self.where}: {ast.unparse(node)}: no translation to C")

    def block(self, body: list[ast.stmt], indent: str) -> str:
        return "".join(self.statement(node, indent) for node in body)

    def statement(self, node: ast.stmt, indent: str) -> str:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return ""
        if isinstance(node, ast.Return) and node.value:
            return f"{indent}return {self.value(node.value)};\n"
        if isinstance(node, ast.Assign):
            pairs = self.assigned(node)
            return "".join(self.assignment(name, value, node, indent) for name, value in pairs)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and type(node.op) in _BINARY:
            operator = _BINARY[type(node.op)]
            return f"{indent}{_local(node.target.id)} {operator}= {self.value(node.value)};\n"
        if isinstance(node, ast.If):
            inner = indent + "    "
            text = f"{indent}if ({self.value(node.test)}) {{\n{self.block(node.body, inner)}{indent}}}"
            if node.orelse:
                text += f" else {{\n{self.block(node.orelse, inner)}{indent}}}"
            return text + "\n"
        if isinstance(node, ast.While) and not node.orelse:
            head = f"{indent}while ({self.value(node.test)}) {{\n"
            return f"{head}{self.block(node.body, indent + '    ')}{indent}}}\n"
        raise self.refuse(node)

    def assigned(self, node: ast.Assign) -> list[tuple[str, ast.expr]]:
        """Split an assignment into (name, value) pairs; with several names, no value may use one of them."""
        (target, *others), value = node.targets, node.value
        if isinstance(target, ast.Name) and not others:
            return [(target.id, value)]
        if others or not isinstance(target, ast.Tuple) or not isinstance(value, ast.Tuple):
            raise self.refuse(node)
        names = [part.id for part in target.elts if isinstance(part, ast.Name)]
        used = {part.id for part in ast.walk(value) if isinstance(part, ast.Name)}
        if len(names) != len(target.elts) or len(names) != len(value.elts) or used & set(names):
            raise self.refuse(node)
        return list(zip(names, value.elts, strict=True))

    def assignment(self, name: str, value: ast.expr, node: ast.Assign, indent: str) -> str:
        kind = "" if name in self.locals else "int64_t "
        if kind and indent != "    ":
            raise self.refuse(node)  # in C the variable would end with the block
        text = f"{indent}{kind}{_local(name)} = {self.value(value)};\n"
        self.locals.add(name)
        return text

    def value(self, node: ast.expr) -> str:
        """A C expression in parentheses where precedence could matter."""
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return str(int(node.value))
        if isinstance(node, ast.Name):
            return self.variable(node)
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            return f"({self.value(node.left)} {_BINARY[type(node.op)]} {self.value(node.right)})"
        if isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
            return f"{_UNARY[type(node.op)]}({self.value(node.operand)})"
        if isinstance(node, ast.BoolOp):
            return f"({_LOGIC[type(node.op)].join(self.value(part) for part in node.values)})"
        if isinstance(node, ast.IfExp):
            return f"({self.value(node.test)} ? {self.value(node.body)} : {self.value(node.orelse)})"
        if isinstance(node, ast.Compare) and all(type(op) in _COMPARE for op in node.ops):
            return self.comparison(node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            return self.call(node, node.func)
        raise self.refuse(node)

    def variable(self, node: ast.Name) -> str:
        if node.id in self.locals:
            return _local(node.id)
        constant = self.names.get(node.id)
        if not isinstance(constant, int):
            raise self.refuse(node)
        return str(int(constant))

    def comparison(self, node: ast.Compare) -> str:
        operands = [self.value(part) for part in (node.left, *node.comparators)]
        pairs = [
            f"{left} {_COMPARE[type(op)]} {right}"
            for left, op, right in zip(operands, node.ops, operands[1:], strict=False)
        ]
        return f"({' && '.join(pairs)})"

    def call(self, node: ast.Call, function: ast.Name) -> str:
        arguments = [self.value(argument) for argument in node.args]
        called = self.names.get(function.id)
        if called in _MINMAX:
            text = arguments[0]
            for argument in arguments[1:]:
                text = f"{_MINMAX[called]}({text}, {argument})"
            return text
        if not callable(called):
            raise self.refuse(node)
        return f"{self.functions.name(called)}({', '.join(arguments)})"


def _local(name: str) -> str:
    return f"{name}_" if name in _KEYWORDS else name
