"""A call of a directive, and the tables of the functions that execute directives."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from asm.assembly import Assembly
from asm.diagnostics import Fault
from asm.instructions.operands import expression
from asm.place import Spot, SymbolEntry
from asm.syntax.expressions import evaluate, number_of, unescape
from asm.syntax.parse import Operands, String
from asm.syntax.source import NAME, Source
from tx8isa.tools.files import Bytes
from tx8isa.tools.suggestions import did_you_mean


@dataclass(frozen=True, slots=True)
class Call:
    """A directive in the text; its arguments begin at ``start``."""

    assembly: Assembly
    source: Source
    index: int
    name: str
    text: str
    start: int

    @property
    def arguments(self) -> str:
        return self.text[self.start :].strip()

    def operands(self, *, truth: bool = False) -> Operands:
        """Parse the arguments as expressions and strings; ``truth``: the directive only tests them for 0."""
        return self.assembly.operands(self.source, self.index, self.text, self.start, truth=truth)

    def fields(self) -> list[str]:
        """Split the arguments at commas, except those in strings and brackets."""
        return split_arguments(self.arguments)

    def included(self, name: str) -> tuple[Path, Bytes]:
        """Find and read an included file; returns path and bytes. Fault when there is none."""
        return self.assembly.included.find(name, Path(self.source.name).parent)

    def after_comma(self) -> Call:
        """The same call without its first argument."""
        return replace(self, start=self.text.index(",", self.start) + 1)

    @property
    def spot(self) -> Spot:
        return Spot(self.assembly.program, self.assembly.section.here)

    def numbers(self, least: int, most: int, *, truth: bool = False) -> list[int]:
        """Evaluate the arguments to numbers; Fault for a value that is not known yet."""
        operands = self.operands(truth=truth)
        if not least <= len(operands.items) <= most:
            wanted = f"{least}" if least == most else f"{least} to {most}"
            raise Fault(f"{self.name} takes {wanted} arguments, found {len(operands.items)}")
        spot = self.spot
        nodes = [expression(item.term, self.name) for item in operands.items]
        return [number_of(evaluate(node, operands.atoms, spot), node.at) for node in nodes]

    def string(self) -> str:
        """The one quoted argument."""
        match = _STRING.fullmatch(self.text, self.start)
        if match is None:
            raise Fault(f'{self.name} takes one string, as {self.name} "text"')
        return text_of(String(match[1], match.start(1) - 1))

    def symbol_names(self) -> list[str]:
        names = self.fields()
        for name in names:
            if not NAME.fullmatch(name):
                raise Fault(f"{self.name}: {name!r} is not a name" if name else f"{self.name} takes names")
        return names

    def declared(self, name: str) -> SymbolEntry:
        """The entry of a symbol that may be defined later."""
        entry = SymbolEntry(source=self.source, index=self.index)
        return self.assembly.program.symbols.setdefault(name, entry)


Handler = Callable[[Call], None]
BlockHandler = Callable[[Call], int]
HANDLERS: dict[str, Handler] = {}
BLOCKS: dict[str, BlockHandler] = {}
"""Directives that use several lines; each returns the index of the last one."""

_STRING = re.compile(r'\s*"((?:[^"\\]|\\.)*)"\s*')
_ARGUMENT = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:\\.|[^\'\\])\'|[(\[]|[)\]]|,|[^"\'(\[)\],]+|.')


def split_arguments(text: str) -> list[str]:
    """Split ``a, f(b, c), "d,e"`` into its three arguments; none for a blank text."""
    if not text.strip():
        return []
    parts, depth = [""], 0
    for token in _ARGUMENT.findall(text):
        depth += (token in "([") - (token in ")]")
        if token == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += token
    return [part.strip() for part in parts]


def text_of(string: String) -> str:
    """A string's characters."""
    return unescape(string.body, string.at + 1).decode("utf-8", "surrogateescape")


def handler(*names: str) -> Callable[[Handler], Handler]:
    """Register the decorated function for these directives."""

    def register(function: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(names, function))
        return function

    return register


def block(*names: str) -> Callable[[BlockHandler], BlockHandler]:
    """Register the decorated function for these directives, which use several lines."""

    def register(function: BlockHandler) -> BlockHandler:
        BLOCKS.update(dict.fromkeys(names, function))
        return function

    return register


def directive(
    assembly: Assembly, source: Source, index: int, name: str, text: str, start: int, at: int
) -> int:
    """Execute a directive; returns the index of the last line it used."""
    call = Call(assembly, source, index, name, text, start)
    try:
        if name in BLOCKS:
            return BLOCKS[name](call)
        if name not in HANDLERS:
            raise Fault(f"unknown directive {name}", at, did_you_mean(name, [*HANDLERS, *BLOCKS]))
        HANDLERS[name](call)
    except Fault as fault:
        fault.at = at if fault.at is None else fault.at
        raise
    return index
