"""What the assembler says about a mistake: place, message, source line, caret, notes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tx8isa.errors import Tx8Error

MOST_SHOWN = 100
"""Diagnostics that are printed; the rest is a number."""


class Fault(Exception):
    """A mistake in the statement at hand. ``at``: offset in the statement's text, None for all of it."""

    def __init__(self, message: str, at: int | None = None, help: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.at = at
        self.help = help


@dataclass(frozen=True, slots=True, order=True)
class Diagnostic:
    """One mistake. ``line`` and ``column`` count from 1; ``notes`` are ready lines, ``note: ...``."""

    file: str
    line: int
    column: int
    message: str
    source: str = ""
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.file}:{self.line}:{self.column}: error: {self.message}"]
        if self.source.strip():
            before = self.source[: self.column - 1]
            blank = "".join("\t" if c == "\t" else " " for c in before)
            lines += [f"    {self.source}", f"    {blank}^"]
        return "\n".join((*lines, *(f"    {note}" for note in self.notes)))


class AsmError(Tx8Error):
    """A program that is not assembled. ``diagnostics`` holds every mistake, in the order of the text."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__(self._text())

    def _text(self) -> str:
        shown = self.diagnostics[:MOST_SHOWN]
        parts = [str(diagnostic) for diagnostic in shown]
        rest = len(self.diagnostics) - len(shown)
        if rest:
            parts.append(f"{rest} more errors; {len(self.diagnostics)} in all")
        return "\n".join(parts)
