"""An assembler that remembers lines of earlier texts, so that after an edit it assembles only changed lines.

The bytes of an instruction depend on its text and on its symbols. A known line is encoded again only if one
of its symbols has another value or distance. Directives, labels and macros are executed in every reading, so
each result equals that of ``Assembler``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from asm.assembler import Assembler, NumberedJump
from asm.assembly import PlainLine
from asm.compression import Compression
from asm.diagnostics import Fault
from asm.instructions.template import Template
from asm.place import LOCAL, Spot, SymbolEntry
from asm.syntax.expressions import Address, UnknownValue
from asm.syntax.parse import Operands, parse_with_grammar
from asm.syntax.source import IncludedFiles, Source, statements
from tx8isa.machine.description import Machine

Encoded = tuple[Template, bytes | None, NumberedJump | None]
_VALUES_MATTER = re.compile(r"[/%<>!]|==")
"""Operators and functions whose warnings or meaning depend on more than the values of symbols."""


@dataclass(frozen=True, slots=True)
class KnownLine:
    """A line that is one instruction: places of mnemonic and operands, template, operands, atoms."""

    at: int
    after: int
    template: Template
    operands: Operands
    atoms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KnownCode:
    """The code of an instruction, by the facts about its symbols."""

    names: tuple[str, ...]
    found: dict[tuple[object, ...], Encoded]


NOTHING = KnownCode((), {})


@dataclass
class Memory:
    """The results of earlier assemblies for one machine, by the text of lines."""

    machine: Machine | None = None
    templates: dict[str, Template] = field(default_factory=dict)
    shapes: dict[str, Operands] = field(default_factory=dict)
    plain: dict[str, PlainLine] = field(default_factory=dict)
    """The bytes of lines without symbols."""
    lines: dict[str, KnownLine] = field(default_factory=dict)
    codes: dict[tuple[Template, tuple[str, ...]], KnownCode] = field(default_factory=dict)
    size: int = 0
    """The number of encodings in ``codes``."""

    def __post_init__(self) -> None:
        """Load the grammar of operands now, so that the first mistake need not wait for it."""
        parse_with_grammar("dst=0")

    def trim(self, lines: int) -> None:
        """Clear the memory when it has many more entries than a text of ``lines`` lines needs."""
        if max(len(self.plain) + len(self.lines), self.size) > 8 * lines + 10_000:
            for known in (self.templates, self.shapes, self.plain, self.lines, self.codes):
                known.clear()
            self.size = 0


class _NotedSymbols(dict[str, SymbolEntry]):
    """The symbols of a program; ``noted`` collects every name that is looked up."""

    noted: set[str]

    def get(self, name: str, default: Any = None) -> Any:
        self.noted.add(name)
        return super().get(name, default)


class RecallingAssembler(Assembler):
    """An assembler that reads known lines from a memory and adds the others to it."""

    def __init__(
        self,
        memory: Memory,
        name: str,
        included: IncludedFiles | None = None,
        machine: Machine | None = None,
        compression: Compression | None = None,
    ) -> None:
        super().__init__(name, included, machine, compression)
        self._memory = memory
        self.templates, self.shapes, self.plain = memory.templates, memory.shapes, memory.plain
        self._symbols = self.assembly.program.symbols = _NotedSymbols()
        self._symbols.noted = set()
        self._last: tuple[Source, int, KnownLine] | None = None

    def _line(self, source: Source, index: int) -> int:
        line = source.lines[index]
        known = self._memory.lines.get(line)
        if known is not None:
            try:
                self._resolve(
                    source, index, known.at, known.after, known.template, known.operands, known.atoms
                )
            except (Fault, UnknownValue, RecursionError):
                pass  # assembled once more, to report the mistake
            else:
                return index
        before = len(self.assembly.errors) + len(self.assembly.warnings)
        self._last = None
        end = super()._line(source, index)
        if len(self.assembly.errors) + len(self.assembly.warnings) == before:
            self._learn(source, index)
        return end

    def _learn(self, source: Source, index: int) -> None:
        """Remember a line that is exactly one instruction, without label."""
        if self._last is None or self._last[0] is not source or self._last[1] != index:
            return
        known, line = self._last[2], source.lines[index]
        (_, end), *others = statements(line)
        if line[: known.at].strip() or any(line[a:b].strip() for a, b in others):
            return
        if any(LOCAL in atom for atom in known.atoms) or _VALUES_MATTER.search(line, known.after, end):
            return
        code = self._memory.codes.get((known.template, known.atoms))
        found = code.found.get(()) if code is not None else None
        if found is not None and found[1] is not None:
            self._memory.plain[line] = found[1], found[0]
        else:
            self._memory.lines[line] = known

    def _resolve(
        self,
        source: Source,
        index: int,
        at: int,
        after: int,
        template: Template,
        operands: Operands,
        atoms: Sequence[str],
    ) -> None:
        super()._resolve(source, index, at, after, template, operands, atoms)
        self._last = source, index, KnownLine(at, after, template, operands, tuple(atoms))

    def _encoded(self, template: Template, atoms: Sequence[str], spot: Spot) -> Encoded:
        key, symbols, here = (template, tuple(atoms)), self._symbols, spot.at
        known = self._memory.codes.get(key, NOTHING)
        if self.assembly.compression.on or any(LOCAL in atom for atom in atoms):
            return super()._encoded(template, atoms, spot)
        found = known.found.get(self._facts(known.names, here))
        if found is not None:
            return found
        symbols.noted = set()
        found = super()._encoded(template, atoms, spot)
        names = tuple(sorted(symbols.noted))
        facts = self._facts(names, here)
        if found[2] is None and _UNSETTLED not in facts:
            if names != known.names or known is NOTHING:
                known = self._memory.codes[key] = KnownCode(names, {})
            known.found[facts] = found
            self._memory.size += 1
        return found

    def _facts(self, names: tuple[str, ...], here: Address) -> tuple[object, ...]:
        return tuple([_fact(dict.get(self._symbols, name), here) for name in names])


_UNSETTLED = object()
"""Stands for a symbol whose value depends on other symbols."""


def _fact(symbol: SymbolEntry | None, here: Address) -> object:
    """Return the fact about a symbol on which a statement at ``here`` depends: value, or distance.

    A symbol in the statement's own section counts by its distance, because before the layout an expression
    can only use the distance of two places in a section.
    """
    if symbol is None:
        return None
    value = symbol.value
    if symbol.binding == "weak" or (value is None and symbol.node is not None):
        return _UNSETTLED
    if isinstance(value, Address) and value.section == here.section:
        return (value.offset - here.offset,)
    return value
