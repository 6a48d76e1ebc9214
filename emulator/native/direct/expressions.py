"""Expressions of plain functions, and of the kernel core's own source, as LLVM text.

Known values are calculated by Python while the text is written. So if the operands of an instruction are
known, little is left of the source that executes it. The rest follows the rules of ``emulator.native``.
"""

from __future__ import annotations

import ast
import builtins
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from emulator.native.primitives.memory import call_kernel

from .operators import ARITHMETIC, FLOAT, INTEGER, PYTHON, RELATION, harmless
from .values import Kind, Known, Operand, State, Untranslatable, Value, View, Writer, kind_of, same, typed
from .values import spelled as text_of
from .vocabulary import EMITTERS, PURE, as_kind, convert_to_integer, integer, to_double

Environment = dict[str, Operand]


class Expressions(ABC):
    """Writes expressions; ``scope`` holds the globals of the source at hand."""

    access = ""
    """LLVM's attribute of loads and stores in views: ``volatile `` if LLVM must not move them."""

    def __init__(self) -> None:
        self.writer = Writer()

    @abstractmethod
    def load_word(self, place: int) -> Known:
        """Return the word at a position of the state."""

    @abstractmethod
    def store_word(self, place: int, value: Known) -> None:
        """Change the word at a position of the state."""

    @abstractmethod
    def call_kernel(self, address: Known, fields: Known, state: Known) -> Known:
        """Call a compiled function, which may read and change the state."""

    @abstractmethod
    def inline(self, function: Any, arguments: list[Operand]) -> Operand:
        """Return the result of a plain function whose source is written here."""

    def evaluate(self, node: ast.expr, names: Environment, scope: Mapping[str, Any]) -> Any:
        """Return the value of an expression; Untranslatable when it uses anything unknown here."""
        method = _BY_NODE.get(type(node))
        if method is None:
            raise Untranslatable(f"{type(node).__name__} is not translated")
        return getattr(self, method)(node, names, scope)

    def number(self, node: ast.expr, names: Environment, scope: Mapping[str, Any]) -> Known:
        value = self.evaluate(node, names, scope)
        kind_of(value)
        return value  # type: ignore[no-any-return]

    def condition(self, node: ast.expr, names: Environment, scope: Mapping[str, Any]) -> Known:
        """Return the truth of an expression."""
        value = self.number(node, names, scope)
        if isinstance(value, Value):
            return value if value.kind == "b" else self._compare(ast.NotEq, value, 0)
        return bool(value)

    def _constant(self, node: ast.Constant, names: Environment, scope: Mapping[str, Any]) -> Known:
        if not isinstance(node.value, bool | int | float | np.float32):
            raise Untranslatable(f"the constant {node.value!r}")
        return node.value

    def _name(self, node: ast.Name, names: Environment, scope: Mapping[str, Any]) -> Any:
        if node.id in names:
            return names[node.id]
        if node.id in scope:
            return scope[node.id]
        if hasattr(builtins, node.id):
            return getattr(builtins, node.id)
        raise Untranslatable(f"'{node.id}' has no value here")

    def _attribute(self, node: ast.Attribute, names: Environment, scope: Mapping[str, Any]) -> int:
        value = getattr(self.evaluate(node.value, names, scope), node.attr, None)
        if not isinstance(value, int):
            raise Untranslatable(f"'.{node.attr}' is no integer constant")
        return value

    # -- calculation -----------------------------------------------------------------------------------

    def _unary(self, node: ast.UnaryOp, names: Environment, scope: Mapping[str, Any]) -> Known:
        if isinstance(node.op, ast.Not):
            truth = self.condition(node.operand, names, scope)
            return self._emit("b", f"xor {typed(truth)}, true") if isinstance(truth, Value) else not truth
        value = self.number(node.operand, names, scope)
        if isinstance(node.op, ast.USub):
            if not isinstance(value, Value):
                return -value
            if value.kind in ("d", "f"):
                return self._emit(value.kind, f"fneg {typed(value)}")
            return self._emit("i", f"sub i64 0, {text_of(integer(self.writer, value))}")
        if isinstance(node.op, ast.Invert):
            if isinstance(value, int):
                return ~value
            value = self._word(value)
            return self._emit(kind_of(value), f"xor {typed(value)}, -1")
        raise Untranslatable("a unary plus")

    def _binary(self, node: ast.BinOp, names: Environment, scope: Mapping[str, Any]) -> Known:
        left, right = self.number(node.left, names, scope), self.number(node.right, names, scope)
        return self.combine(type(node.op), left, right)

    def combine(self, op: type[ast.operator], left: Known, right: Known) -> Known:
        """Return ``left op right``."""
        if not isinstance(left, Value) and not isinstance(right, Value) and op in PYTHON:
            with np.errstate(all="ignore"):
                return PYTHON[op](left, right)  # type: ignore[no-any-return]
        kinds = {kind_of(left), kind_of(right)}
        if kinds in ({"d", "i"}, {"d", "u"}):
            left, right = to_double(self.writer, left), to_double(self.writer, right)
            kinds = {"d"}
        if kinds in ({"d"}, {"f"}):
            if op not in FLOAT:
                raise Untranslatable(f"{op.__name__} of numbers with a fraction")
            return self._emit(kinds.pop(), f"{FLOAT[op]} {typed(left)}, {text_of(right)}")
        if "n" in kinds and op in ARITHMETIC:
            raise Untranslatable("arithmetic on a value from a narrow view")
        left, right = (self._word(value) for value in (left, right))
        if op in INTEGER:
            return self._emit(_common(left, right), f"{INTEGER[op]} {typed(left)}, {text_of(right)}")
        if op in (ast.LShift, ast.RShift):
            kind = kind_of(left)
            name = "shl" if op is ast.LShift else "ashr" if kind == "i" else "lshr"
            return self._emit(kind, f"{name} {typed(left)}, {text_of(right)}")
        if op in (ast.FloorDiv, ast.Mod):
            return self._divide(op is ast.FloorDiv, left, right)
        raise Untranslatable(f"{op.__name__} of integers")

    def _word(self, value: Known) -> Known:
        """Return a truth value or a narrow element as a word."""
        value = integer(self.writer, value)
        return as_kind("u", value) if kind_of(value) == "n" else value

    def _divide(self, quotient: bool, left: Known, right: Known) -> Known:
        """Return quotient or remainder, rounded down as in Python; LLVM's rounds toward zero."""
        operands = f"{typed(left)}, {text_of(right)}"
        if _common(left, right) == "u":
            return self._emit("u", f"{'udiv' if quotient else 'urem'} {operands}")
        toward_zero = self._emit("i", f"sdiv {operands}")
        rest = self._emit("i", f"srem {operands}")
        signs = self._emit("i", f"xor i64 {rest.name}, {text_of(right)}")
        apart = self._emit("b", f"icmp slt i64 {signs.name}, 0")
        inexact = self._emit("b", f"icmp ne i64 {rest.name}, 0")
        down = self._emit("b", f"and i1 {apart.name}, {inexact.name}")
        if quotient:
            lower = self._emit("i", f"sext i1 {down.name} to i64")
            return self._emit("i", f"add i64 {toward_zero.name}, {lower.name}")
        step = self._emit("i", f"select i1 {down.name}, {typed(right)}, i64 0")
        return self._emit("i", f"add i64 {rest.name}, {step.name}")

    def _compare_chain(self, node: ast.Compare, names: Environment, scope: Mapping[str, Any]) -> Known:
        left = self.number(node.left, names, scope)
        result: Known = True
        for op, item in zip(node.ops, node.comparators, strict=True):
            if isinstance(op, ast.In):
                return self._among(left, self.evaluate(item, names, scope))
            right = self.number(item, names, scope)
            result = self._both(result, self._compare(type(op), left, right))
            left = right
        return result

    def _among(self, value: Known, items: tuple[Known, ...]) -> Known:
        """Return True if a value equals one of the items."""
        found: Known = False
        for equal in [self._compare(ast.Eq, value, item) for item in items]:
            if isinstance(found, Value) and isinstance(equal, Value):
                found = self._emit("b", f"or {typed(found)}, {text_of(equal)}")
            elif found is not True and equal is not False:
                found = equal
        return found

    def _compare(self, op: type[ast.cmpop], left: Known, right: Known) -> Known:
        if op not in RELATION:
            raise Untranslatable(f"the comparison {op.__name__}")
        if not isinstance(left, Value) and not isinstance(right, Value):
            return PYTHON[op](left, right)  # type: ignore[no-any-return]
        relation, kinds = RELATION[op], {kind_of(left), kind_of(right)}
        if kinds in ({"d"}, {"f"}):
            ordered = "une" if relation == "ne" else f"o{relation}"
            return self._emit("b", f"fcmp {ordered} {typed(left)}, {text_of(right)}")
        if kinds != {"b"} or relation not in ("eq", "ne"):
            left, right = integer(self.writer, left), integer(self.writer, right)
        if relation not in ("eq", "ne"):
            left, right = (as_kind("i", v) if kind_of(v) == "n" else v for v in (left, right))
            unsigned = _common(left, right) == "u"
            if not unsigned and "u" in (kind_of(left), kind_of(right)):
                raise Untranslatable("a signed number compared with an unsigned one")
            relation = f"{'u' if unsigned else 's'}{relation}"
        return self._emit("b", f"icmp {relation} {typed(left)}, {text_of(right)}")

    def _both(self, left: Known, right: Known) -> Known:
        if not isinstance(left, Value):
            return right if left else False
        return self._emit("b", f"and {typed(left)}, {text_of(right)}")

    # -- choices ---------------------------------------------------------------------------------------

    def _logic(self, node: ast.BoolOp, names: Environment, scope: Mapping[str, Any]) -> Known:
        """Write ``and`` or ``or``; operands are computed only if needed, or if harmless."""
        decided, name = isinstance(node.op, ast.Or), "or" if isinstance(node.op, ast.Or) else "and"
        result: Known = not decided
        ways: list[tuple[Operand, str]] = []
        end = self.writer.new_label("logic")
        for item in node.values:
            if isinstance(result, Value) and not harmless(item, scope):
                more = self.writer.new_label("more")
                ways.append((decided, self.writer.label))
                yes, no = (end, more) if decided else (more, end)
                self.writer.branch(result, yes, no)
                self.writer.start(more)
                result = not decided
            value = self.condition(item, names, scope)
            if isinstance(value, Value) and isinstance(result, Value):
                result = self._emit("b", f"{name} {typed(result)}, {text_of(value)}")
            elif isinstance(value, Value):
                result = value
            elif value == decided:
                result = decided
                break
        if not ways:
            return result
        ways.append((result, self.writer.label))
        self.writer.jump(end)
        self.writer.start(end)
        return self.writer.phi(ways)  # type: ignore[return-value]

    def _choice(self, node: ast.IfExp, names: Environment, scope: Mapping[str, Any]) -> Any:
        condition = self.condition(node.test, names, scope)
        if not isinstance(condition, Value):
            return self.evaluate(node.body if condition else node.orelse, names, scope)
        arms = (node.body, node.orelse)
        if not any(isinstance(arm, ast.Tuple) for arm in arms) and all(harmless(a, scope) for a in arms):
            yes, no = self.number(node.body, names, scope), self.number(node.orelse, names, scope)
            if same(yes, 1) and same(no, 0):
                return integer(self.writer, condition)
            if kind_of(yes) != kind_of(no):
                yes, no = ((self._word(v) if kind_of(v) == "n" else v) for v in (yes, no))
            kinds = {kind_of(yes), kind_of(no)}
            if len(kinds) > 1 and kinds != {"i", "u"}:
                raise Untranslatable("a choice between two kinds")
            kind = _common(yes, no) if kinds <= {"i", "u"} else kind_of(yes)
            return self._emit(kind, f"select {typed(condition)}, {typed(yes)}, {typed(no)}")
        labels = [self.writer.new_label(hint) for hint in ("yes", "no", "chosen")]
        self.writer.branch(condition, labels[0], labels[1])
        ways: list[tuple[Operand, str]] = []
        for label, arm in zip(labels, arms, strict=False):
            self.writer.start(label)
            ways.append((self.evaluate(arm, names, scope), self.writer.label))
            self.writer.jump(labels[2])
        self.writer.start(labels[2])
        return self._meeting(ways)

    def _meeting(self, ways: list[tuple[Any, str]]) -> Any:
        """Return the value, or the tuple of values, that comes from one of several blocks."""
        if not all(type(value) is tuple for value, _ in ways):
            return self.writer.phi(ways)
        labels = [label for _, label in ways]
        items = zip(*(value for value, _ in ways), strict=True)
        return tuple(self.writer.phi(list(zip(item, labels, strict=True))) for item in items)

    def _tuple(self, node: ast.Tuple, names: Environment, scope: Mapping[str, Any]) -> tuple[Operand, ...]:
        return tuple(self.evaluate(item, names, scope) for item in node.elts)

    # -- memory and calls ------------------------------------------------------------------------------

    def _element(self, node: ast.Subscript, names: Environment, scope: Mapping[str, Any]) -> Known:
        view, index = self.evaluate(node.value, names, scope), self.number(node.slice, names, scope)
        if type(view) is tuple:
            return self.item(view, index)
        if isinstance(view, State):
            return self.load_word(known_integer(index))
        pointer = self._pointer(view, index)
        raw = self._emit(view.kind, f"load {self.access}{view.element}, ptr {pointer}, align 1")
        return (
            raw
            if view.bits == 64 or view.kind == "f"
            else self._emit("n", f"zext i{view.bits} {raw.name} to i64")
        )

    def store(
        self, target: ast.Subscript, value: Known, names: Environment, scope: Mapping[str, Any]
    ) -> None:
        """``view[index] = value``."""
        view, index = self.evaluate(target.value, names, scope), self.number(target.slice, names, scope)
        if isinstance(view, State):
            self.store_word(known_integer(index), integer(self.writer, value))
            return
        pointer = self._pointer(view, index)
        value = self._as_element(view, value)
        self.writer.line(f"store {self.access}{view.element} {text_of(value)}, ptr {pointer}, align 1")

    def _as_element(self, view: View, value: Known) -> Known:
        """Return a value as an element of the view holds it."""
        if view.kind not in ("d", "f"):
            value = integer(self.writer, value)
            return value if view.bits == 64 else self._emit("i", f"trunc {typed(value)} to {view.element}")
        if view.kind == "f" and isinstance(value, float) and float(np.float32(value)) == value:
            value = np.float32(value)
        if kind_of(value) != view.kind:
            raise Untranslatable(f"a number of kind {kind_of(value)} in a view of kind {view.kind}")
        return value

    def item(self, items: tuple[Operand, ...], index: Known) -> Known:
        """Return an item of a tuple."""
        return items[known_integer(index)]  # type: ignore[return-value]

    def _pointer(self, view: object, index: Known) -> str:
        if not isinstance(view, View):
            raise Untranslatable("an index into something that is no view")
        pointer = self._emit("i", f"inttoptr {typed(view.address)} to ptr").name
        if index == 0:
            return pointer
        return self._emit("i", f"getelementptr {view.element}, ptr {pointer}, {typed(index)}").name

    def _call(self, node: ast.Call, names: Environment, scope: Mapping[str, Any]) -> Any:
        function = self.evaluate(node.func, names, scope)
        arguments = [self.evaluate(argument, names, scope) for argument in node.args]
        if function is call_kernel:
            return self.call_kernel(*arguments)
        known = not any(isinstance(a, Value | View | State) for a in arguments)
        if known and (function in PURE or function in (int, float, np.float64)):
            return function(*arguments)
        if function is int:
            return convert_to_integer(self.writer, *arguments)
        emit = EMITTERS.get(function)
        if emit is not None:
            return emit(self.writer, *arguments)
        return self.inline(function, arguments)

    def _emit(self, kind: Kind, text: str) -> Value:
        return self.writer.make(kind, text)


def _common(left: Known, right: Known) -> Kind:
    """Return unsigned if both are; a known number that is not negative adapts to the other one."""
    kinds = [kind_of(v) for v in (left, right) if isinstance(v, Value) or (isinstance(v, int) and v < 0)]
    return "u" if kinds and all(kind == "u" for kind in kinds) else "i"


def known_integer(value: Known) -> int:
    """Return an index, which must be known."""
    if not isinstance(value, int):
        raise Untranslatable("an index that depends on data")
    return value


_BY_NODE: dict[type[ast.expr], str] = {
    ast.Constant: "_constant",
    ast.Name: "_name",
    ast.Attribute: "_attribute",
    ast.UnaryOp: "_unary",
    ast.BinOp: "_binary",
    ast.Compare: "_compare_chain",
    ast.BoolOp: "_logic",
    ast.IfExp: "_choice",
    ast.Tuple: "_tuple",
    ast.Subscript: "_element",
    ast.Call: "_call",
}
