"""Names, variables and calls of a function that is being written."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import Any, NamedTuple, Protocol

import numpy as np

from emulator.native.machine.primitive import Version
from emulator.native.primitives.memory import call_kernel
from emulator.native.primitives.names import PRIMITIVES

from . import words
from .expressions import Environment, Expressions
from .helpers import version_for
from .values import TYPES, Kind, Known, Operand, Untranslatable, Value, View, kind_of, typed
from .vocabulary import as_kind, integer


class Several(NamedTuple):
    """A tuple as an argument."""

    kinds: tuple[Kind, ...]


class Slot(NamedTuple):
    """A variable: the memory that holds a value, or the address of a view."""

    pointer: str
    holds: Kind | View

    @property
    def kind(self) -> Kind:
        return "i" if isinstance(self.holds, View) else self.holds


Result = Kind | tuple[Kind, ...]
"""The result of a function: one value, or several in a tuple."""


def type_of(result: Result) -> str:
    """Return the result in LLVM's types."""
    return TYPES[result] if isinstance(result, str) else f"{{ {', '.join(TYPES[kind] for kind in result)} }}"


class Written(NamedTuple):
    """A function of the module."""

    name: str
    result: Result

    def call(self, operands: str) -> str:
        """Return the instruction that calls it."""
        return f"call {type_of(self.result)} @{self.name}({operands})"


class Wider(Exception):
    """Raised when a variable or the result needs another kind than its first value has."""

    def __init__(self, name: str, kind: Kind) -> None:
        self.name, self.kind = name, kind


class Module(Protocol):
    """The functions of a module under construction, for functions that call them."""

    def write(self, function: Any, arguments: Sequence[Any]) -> Written:
        """Return the function for arguments of these kinds: kinds, views, or known objects."""

    def table(self, items: tuple[int, ...]) -> str:
        """Return the name of a table of words."""

    def primitive(self, name: str, version: Version) -> str:
        """Return the name of the function that is the machine's version of a primitive."""


class Values(Expressions):
    """Writes the expressions of a function, and its assignments to names.

    ``kinds`` are the kinds of variables whose first value has another kind.
    """

    def __init__(self, module: Module, kinds: Mapping[str, Kind]) -> None:
        super().__init__()
        self.module, self.kinds = module, kinds
        self.variables: list[str] = []
        """The lines that make room for the variables."""
        self.names: dict[str, Any] = {}

    def _name(self, node: ast.Name, names: Environment, scope: Mapping[str, Any]) -> Any:
        found = super()._name(node, names, scope)
        if type(found) is tuple and found and all(isinstance(item, Slot) for item in found):
            return tuple(map(self.load, found))
        return self.load(found) if isinstance(found, Slot) else found

    def load(self, slot: Slot) -> Any:
        """Return the value of a variable."""
        value = self._emit(slot.kind, f"load {TYPES[slot.kind]}, ptr {slot.pointer}")
        return View(slot.holds.bits, slot.holds.kind, value) if isinstance(slot.holds, View) else value

    def item(self, items: tuple[Operand, ...], index: Known) -> Known:
        if not isinstance(index, Value):
            return super().item(items, index)
        if not all(type(item) is int for item in items):
            return self._chosen(items, index)
        place = f"getelementptr i64, ptr {self.module.table(items)}, {typed(index)}"  # type: ignore[arg-type]
        return self._emit("i", f"load i64, ptr {self._emit('i', place).name}")

    def _chosen(self, items: tuple[Operand, ...], index: Value) -> Known:
        """Return one of a few values, compared one after the other."""
        found, *others = items
        for number, item in enumerate(others, 1):
            if kind_of(item) != kind_of(found):
                raise Untranslatable("an index into values of several kinds")
            here = self._emit("b", f"icmp eq {typed(index)}, {number}")
            found = self._emit(kind_of(item), f"select {typed(here)}, {typed(item)}, {typed(found)}")
        return found  # type: ignore[return-value]

    def _call(self, node: ast.Call, names: Environment, scope: Mapping[str, Any]) -> Any:
        function = self.evaluate(node.func, names, scope)
        if function in (min, max):
            return self._extreme(function is min, [self.number(a, names, scope) for a in node.args])
        if function is bool:
            return self.condition(node.args[0], names, scope)
        if function is len:
            return len(self.evaluate(node.args[0], names, scope))
        if function is abs:
            return self._magnitude(self.number(node.args[0], names, scope))
        return super()._call(node, names, scope)

    def _magnitude(self, value: Known) -> Known:
        kind = kind_of(value)
        if not isinstance(value, Value):
            return abs(value)  # type: ignore[return-value]
        if kind in ("d", "f"):
            name = "llvm.fabs.f64" if kind == "d" else "llvm.fabs.f32"
            return self._emit(kind, f"call {TYPES[kind]} @{name}({typed(value)})")
        value = integer(self.writer, value)
        return self._extreme(False, [value, self.combine(ast.Sub, 0, value)])

    def _extreme(self, least: bool, values: list[Known]) -> Known:
        best = values[0]
        for value in values[1:]:
            less = self._compare(ast.Lt if least else ast.Gt, value, best)
            kind = kind_of(value) if isinstance(value, Value) else kind_of(best)
            best = self._emit(kind, f"select {typed(less)}, {typed(value)}, {typed(best)}")
        return best

    def inline(self, function: Any, arguments: list[Operand]) -> Any:
        """Call a function of the module; LLVM decides what is inlined where."""
        emit = words.WORDS.get(function)
        if emit is not None:
            return emit(self.writer, *arguments)
        if function in PRIMITIVES:
            return self._machine(PRIMITIVES[function], arguments)  # type: ignore[arg-type]
        missing = function.__code__.co_argcount - len(arguments) if isinstance(function, FunctionType) else 0
        arguments = [*arguments, *(function.__defaults__ or ())[-missing:]] if missing else arguments
        kinds: list[Any] = []
        passed: list[Known] = []
        for argument in arguments:
            given, values = _passed(argument)
            kinds.append(given)
            passed += values
        written = self.module.write(function, kinds)
        operands = ", ".join(map(typed, passed))
        if isinstance(written.result, str):
            return self._emit(written.result, written.call(operands))
        found, form = self._emit("i", written.call(operands)).name, type_of(written.result)
        parts = enumerate(written.result)
        return tuple(self._emit(kind, f"extractvalue {form} {found}, {number}") for number, kind in parts)

    def _machine(self, name: str, arguments: list[Known]) -> Known:
        """Call the machine's version of a primitive."""
        version = version_for(name, [kind_of(argument) for argument in arguments])
        pairs = zip(version.parameters, arguments, strict=True)
        words = [integer(self.writer, value) if kind == "i" else value for kind, value in pairs]
        call = f"@{self.module.primitive(name, version)}({', '.join(map(typed, words))})"
        if version.result:
            return self._emit(version.result, f"call {TYPES[version.result]} {call}")
        self.writer.line(f"call void {call}")
        return 0

    def call_kernel(self, address: Known, fields: Known, state: Known) -> Known:
        emit = words.WORDS[call_kernel]
        return emit(self.writer, address, fields, state)  # type: ignore[no-any-return]

    def load_word(self, place: int) -> Known:
        raise Untranslatable("a function has no registers of a tile")

    def store_word(self, place: int, value: Known) -> None:
        raise Untranslatable("a function has no registers of a tile")

    def assign_name(self, name: str, value: Any) -> None:
        """Store a value, or the address of a view, in a variable; the items of a tuple in several."""
        if isinstance(value, tuple) and not isinstance(value, Value | View):
            for number, item in enumerate(value):
                self.assign_name(f"{name}.{number}", item)
            self.names[name] = tuple(self.names[f"{name}.{number}"] for number in range(len(value)))
            return
        holds = value if isinstance(value, View) else self.kinds.get(name, kind_of(value))
        slot: Any = self.names.get(name)
        if slot is None:
            slot = self.names[name] = self.variable(name, holds)
        if not isinstance(slot, Slot) or isinstance(slot.holds, View) != isinstance(value, View):
            raise Untranslatable(f"'{name}' is not always a number")
        if isinstance(value, View):
            self.writer.line(f"store {typed(value.address)}, ptr {slot.pointer}")
        else:
            self.writer.line(f"store {typed(self.converted(slot.kind, value, name))}, ptr {slot.pointer}")

    def variable(self, name: str, holds: Kind | View) -> Slot:
        """Make room for a variable."""
        slot = Slot(f"%m.{name}", holds)
        self.variables.append(f"  {slot.pointer} = alloca {TYPES[slot.kind]}")
        return slot

    def converted(self, kind: Kind, value: Known, name: str) -> Known:
        """Return a value as one of another kind, if that is the same number."""
        found = kind_of(value)
        if found == kind:
            return value
        if kind in ("i", "u") and found == "b":
            return integer(self.writer, value)
        if kind in ("i", "u") and found == "n":
            return as_kind(kind, value)
        if isinstance(value, int) and kind == "u" and value >= 0:
            return value
        if (kind, found) in (("b", "i"), ("b", "u"), ("i", "u"), ("n", "i"), ("n", "u")):
            raise Wider(name, found)
        raise Untranslatable(f"'{name}' is of kind {kind} and {found}")


def _passed(argument: Any) -> tuple[Any, list[Known]]:
    """Return the kind of one argument of a function, and the values passed to it."""
    if isinstance(argument, View):
        return View(argument.bits, argument.kind, 0), [argument.address]
    if isinstance(argument, bool | int | float | np.float32 | Value):
        return kind_of(argument), [argument]
    if type(argument) is tuple and any(isinstance(item, Value) for item in argument):
        return Several(tuple(kind_of(item) for item in argument)), list(argument)
    return argument, []
