"""Whole functions as LLVM text: the function asked for, and all that it calls.

Each function is written once for the kinds of its arguments. Functions given as arguments, or kept in a
closure, are known when it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from emulator.native.inline import definition
from emulator.native.keys import describe
from emulator.native.loader import ENTRY
from emulator.native.machine.primitive import Version

from . import vocabulary, words
from .calls import Wider, Written
from .function import Function
from .helpers import helper
from .values import Kind, Untranslatable


class Functions:
    """The functions of a module, written when they are first called."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._written: dict[Any, Written | None] = {}
        self._declared = _by_name(vocabulary.DECLARATIONS + words.DECLARATIONS)
        self._primitives: dict[Version, str] = {}
        self._meanings: dict[FunctionType, str] = {}

    def module(self, function: Callable[..., int], arguments: int) -> str:
        """Return the module whose ``ENTRY`` takes this many words and does what ``function`` does."""
        inner = self.write(function, ["i"] * arguments)
        operands = ", ".join(f"i64 %a{number}" for number in range(arguments))
        end = ["  %wide = zext i1 %found to i64", "  ret i64 %wide"]
        entry = [
            f"define i64 @{ENTRY}({operands}) nounwind {{",
            f"  %found = {inner.call(operands)}",
            *(end if inner.result == "b" else ["  ret i64 %found"]),
            "}",
        ]
        return "\n".join([*self.texts, *entry, *self._declared.values()])

    def write(self, function: Any, arguments: Sequence[Any]) -> Written:
        """Return the function for arguments of these kinds: kinds, views, or known objects."""
        key = tuple(map(self._meaning, (function, *arguments)))
        if key not in self._written:
            self._written[key] = None
            self._written[key] = self._write(function, arguments)
        found = self._written[key]
        if found is None:
            raise Untranslatable(f"'{function.__qualname__}' calls itself; use a loop")
        return found

    def _meaning(self, given: Any) -> Any:
        """Return the key of a function; closures made twice from the same parts have one key."""
        if not isinstance(given, FunctionType):
            return given
        if given not in self._meanings:
            self._meanings[given] = describe(given, given.__qualname__)
        return self._meanings[given]

    def _write(self, function: Any, arguments: Sequence[Any]) -> Written:
        tree = definition(function) if isinstance(function, FunctionType) else None
        if tree is None:
            raise Untranslatable(f"the text of {function!r} is not known")
        name = f"{function.__name__}.{len(self._written)}"
        kinds: dict[str, Kind] = {}
        while True:
            writing = Function(self, function, kinds)
            try:
                writing.write(tree, arguments)
            except Wider as wider:
                kinds[wider.name] = wider.kind
            else:
                self.texts.append(writing.text(name))
                return Written(name, writing.result)

    def primitive(self, name: str, version: Version) -> str:
        """Return the name of the function that is the machine's version of a primitive."""
        if version not in self._primitives:
            self._primitives[version] = f"{name}.{version.parameters}"
            text, declared = helper(self._primitives[version], version)
            self.texts.append(text)
            self._declared |= {other: line for other, line in declared.items() if other not in self._declared}
        return self._primitives[version]

    def table(self, items: tuple[int, ...]) -> str:
        """Return the name of a table of words."""
        name = f"@table{len(self.texts)}"
        words = ", ".join(f"i64 {item}" for item in items)
        self.texts.append(f"{name} = internal unnamed_addr constant [{len(items)} x i64] [{words}]")
        return name


def _by_name(declarations: str) -> dict[str, str]:
    """Return declarations, one a line, by the names that they declare."""
    lines = [line for line in declarations.splitlines() if line]
    return {line.partition("@")[2].partition("(")[0]: line for line in lines}
