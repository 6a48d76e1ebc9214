"""Statements of a function: assignments, choices, loops and results, as LLVM text.

A variable is in the function's memory until LLVM moves it to a register.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import Any

from .calls import Module, Result, Several, Slot, Values, type_of
from .values import TYPES, Kind, Known, Untranslatable, Value, View, kind_of, spelled, typed
from .vocabulary import integer

RESULT = "return"
"""The name of a function's result among its variables."""


class Function(Values):
    """Writes one function."""

    def __init__(self, module: Module, function: FunctionType, kinds: Mapping[str, Kind]) -> None:
        super().__init__(module, kinds)
        self.result: Result = kinds.get(RESULT, "i")
        self._returns = RESULT in kinds
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        self._scope = {**function.__globals__, **{name: cell.cell_contents for name, cell in cells}}
        self._parameters: list[str] = []
        self._loops: list[tuple[str, str]] = []

    def write(self, tree: ast.FunctionDef, arguments: Sequence[Any]) -> None:
        """Write the body for arguments of these kinds."""
        for parameter, given in zip((a.arg for a in tree.args.args), arguments, strict=True):
            self._receive(parameter, given)
        if self._block(tree.body):
            self._return(0)

    def _receive(self, parameter: str, given: Any) -> None:
        """Store an argument in its variable, or bind its name to the known object."""
        if isinstance(given, Several):
            items = [self._incoming(f"{parameter}.{number}", kind) for number, kind in enumerate(given.kinds)]
            self.assign_name(parameter, tuple(items))
        elif isinstance(given, View):
            self.assign_name(parameter, View(given.bits, given.kind, self._incoming(parameter, "i")))
        elif isinstance(given, str):
            self.assign_name(parameter, self._incoming(parameter, given))  # type: ignore[arg-type]
        else:
            self.names[parameter] = given

    def _incoming(self, name: str, kind: Kind) -> Value:
        self._parameters.append(f"{TYPES[kind]} %p.{name}")
        return Value(kind, f"%p.{name}")

    def text(self, name: str) -> str:
        """Return the function under a name."""
        head = f"define internal {type_of(self.result)} @{name}({', '.join(self._parameters)}) nounwind {{"
        return "\n".join([head, "entry:", *self.variables, *self.writer.lines, "}"])

    # -- statements ------------------------------------------------------------------------------------

    def _block(self, body: Sequence[ast.stmt]) -> bool:
        """Write statements; return True if control reaches their end."""
        return all(self._statement(statement) for statement in body)

    def _statement(self, node: ast.stmt) -> bool:
        if isinstance(node, ast.If):
            return self._if(node)
        if isinstance(node, ast.While):
            return self._while(node)
        if isinstance(node, ast.For):
            return self._for(node)
        if isinstance(node, ast.Break | ast.Continue):
            self.writer.jump(self._loops[-1][isinstance(node, ast.Continue)])
            return False
        if isinstance(node, ast.Return):
            self._return(0 if node.value is None else self._evaluate(node.value))
            return False
        if isinstance(node, ast.Expr):
            if not isinstance(node.value, ast.Constant):
                self._evaluate(node.value)
        elif isinstance(node, ast.AugAssign):
            left, right = self._evaluate(node.target), self._evaluate(node.value)
            self._assign(node.target, self.combine(type(node.op), left, right))
        elif isinstance(node, ast.Assign):
            value = self._evaluate(node.value)
            for target in node.targets:
                self._assign(target, value)
        elif not isinstance(node, ast.Pass):
            raise Untranslatable(f"{type(node).__name__} is not translated")
        return True

    def _evaluate(self, node: ast.expr) -> Any:
        return self.evaluate(node, self.names, self._scope)

    def _assign(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Subscript):
            self.store(target, value, self.names, self._scope)
        elif isinstance(target, ast.Tuple) and isinstance(value, tuple):
            for part, item in zip(target.elts, value, strict=True):
                self._assign(part, item)
        elif isinstance(target, ast.Name):
            self.assign_name(target.id, value)
        else:
            raise Untranslatable("an assignment to something else than names and elements")

    def _return(self, value: Any) -> None:
        if isinstance(value, tuple) and not isinstance(value, Value):
            self._return_several(value)
            return
        if not self._returns:
            self.result, self._returns = kind_of(value), True
        if not isinstance(self.result, str):
            raise Untranslatable("a function that gives one value or several")
        self.writer.line(f"ret {typed(self.converted(self.result, value, RESULT))}")

    def _return_several(self, values: tuple[Known, ...]) -> None:
        kinds = tuple(self.kinds.get(f"{RESULT}.{at}", kind_of(value)) for at, value in enumerate(values))
        if not self._returns:
            self.result, self._returns = kinds, True
        if len(self.result) != len(kinds):
            raise Untranslatable("a function that gives several values, not always as many")
        made = "undef"
        for number, (kind, value) in enumerate(zip(self.result, values, strict=True)):
            item = typed(self.converted(kind, value, f"{RESULT}.{number}"))  # type: ignore[arg-type]
            text = f"insertvalue {type_of(self.result)} {made}, {item}, {number}"
            made = self._emit("i", text).name
        self.writer.line(f"ret {type_of(self.result)} {made}")

    # -- control ---------------------------------------------------------------------------------------

    def _if(self, node: ast.If) -> bool:
        condition = self.condition(node.test, self.names, self._scope)
        if not isinstance(condition, Value):
            return self._block(node.body if condition else node.orelse)
        yes, no, end = (self.writer.new_label(hint) for hint in ("then", "else", "join"))
        self.writer.branch(condition, yes, no if node.orelse else end)
        reached = not node.orelse
        for label, body in ((yes, node.body), (no, node.orelse)):
            if body:
                self.writer.start(label)
                if self._block(body):
                    self.writer.jump(end)
                    reached = True
        if reached:
            self.writer.start(end)
        return reached

    def _while(self, node: ast.While) -> bool:
        head, body, end = (self.writer.new_label(hint) for hint in ("while", "body", "end"))
        self.writer.jump(head)
        self.writer.start(head)
        condition = self.condition(node.test, self.names, self._scope)
        if isinstance(condition, Value):
            self.writer.branch(condition, body, end)
        elif condition:
            self.writer.jump(body)
        else:
            raise Untranslatable("a loop that never begins")
        self._turn(node.body, body, end, head)
        if not isinstance(condition, Value) and not _breaks(node.body):
            return False
        self.writer.start(end)
        return True

    def _turn(self, statements: Sequence[ast.stmt], body: str, end: str, following: str) -> None:
        """Write the body of a loop, which continues at ``following`` and is left at ``end``."""
        self.writer.start(body)
        self._loops.append((end, following))
        if self._block(statements):
            self.writer.jump(following)
        self._loops.pop()

    def _for(self, node: ast.For) -> bool:
        first, end_value, step = self._bounds(node.iter)
        if not isinstance(node.target, ast.Name) or node.orelse:
            raise Untranslatable("a loop over something else than one number")
        kind = self._counted(node.target.id, first, end_value)
        head, body, following, end = (self.writer.new_label(hint) for hint in ("for", "body", "next", "end"))
        counter = self.variable(head, kind)
        self.writer.line(f"store {typed(first)}, ptr {counter.pointer}")
        self.writer.jump(head)
        self.writer.start(head)
        now = self.load(counter)
        self.writer.branch(self._goes_on(now, end_value, step), body, end)
        self.writer.start(body)
        self.assign_name(node.target.id, now)
        inside = self.writer.new_label("turn")
        self.writer.jump(inside)
        self._turn(node.body, inside, end, following)
        self.writer.start(following)
        more = self._emit(kind, f"add i64 {now.name}, {spelled(step)}")
        self.writer.line(f"store {typed(more)}, ptr {counter.pointer}")
        self.writer.jump(head)
        self.writer.start(end)
        return True

    def _counted(self, name: str, first: Known, end: Known) -> Kind:
        """Return the kind of a loop's numbers; known bounds adapt to the variable's present kind."""
        bounds = [bound for bound in (first, end) if isinstance(bound, Value)]
        slot = self.names.get(name)
        if not bounds and isinstance(slot, Slot) and slot.holds == "u":
            return "u"
        return "u" if any(bound.kind == "u" for bound in bounds) else "i"

    def _goes_on(self, now: Value, end: Known, step: Known) -> Known:
        """Return True if a loop has another turn."""
        sign = "u" if now.kind == "u" else "s"
        less, more = (f"icmp {sign}{relation} i64 {now.name}, {spelled(end)}" for relation in ("lt", "gt"))
        if isinstance(step, int):
            return self._emit("b", less if step > 0 else more)
        if kind_of(step) == "u":
            return self._emit("b", less)
        upward = self._emit("b", f"icmp sgt {typed(step)}, 0")
        ways = typed(self._emit("b", less)), typed(self._emit("b", more))
        return self._emit("b", f"select {typed(upward)}, {', '.join(ways)}")

    def _bounds(self, node: ast.expr) -> tuple[Known, Known, Known]:
        """Return first, end and step of a ``range``."""
        if not isinstance(node, ast.Call) or self._evaluate(node.func) is not range:
            raise Untranslatable("a loop over something else than a range")
        numbers = [integer(self.writer, self._evaluate(argument)) for argument in node.args]
        first, end = (0, numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[1])
        step = numbers[2] if len(numbers) > 2 else 1
        if step == 0:
            raise Untranslatable("a range whose numbers are all the same")
        return first, end, step


def _breaks(body: Sequence[ast.stmt]) -> bool:
    """Return True if a ``break`` of this loop is among its statements."""
    for statement in body:
        if isinstance(statement, ast.Break):
            return True
        if isinstance(statement, ast.If) and (_breaks(statement.body) or _breaks(statement.orelse)):
            return True
    return False
