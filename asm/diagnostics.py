"""Mistakes and doubts about a program as messages: place, text, source line, caret, notes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tx8isa.errors import Tx8Error

MOST_SHOWN = 100
"""Diagnostics that are printed; the others are only counted."""

MOST_COUNTED = 1000
"""The assembly ends after this many mistakes."""


class Fault(Exception):
    """A mistake in the current statement. ``at``: offset in the statement's text, None for all of it.

    ``help``: advice; a function if finding it takes long, called only for faults that are shown.
    """

    def __init__(self, message: str, at: int | None = None, help: str | Callable[[], str] = "") -> None:
        super().__init__(message)
        self.message = message
        self.at = at
        self.help = help


@dataclass(frozen=True, slots=True, order=True)
class Diagnostic:
    """A mistake or a warning; ``line`` and ``column`` count from 1; ``notes`` are finished lines."""

    file: str
    line: int
    column: int
    message: str
    source: str = ""
    notes: tuple[str, ...] = ()
    kind: str = "error"

    def __str__(self) -> str:
        lines = [self.head]
        if self.source.strip():
            source, before = _window(self.source, self.column - 1)
            blank = "".join("\t" if c == "\t" else " " for c in before)
            lines += [f"    {source}", f"    {blank}^"]
        return "\n".join((*lines, *(f"    {note}" for note in self.notes)))

    @property
    def head(self) -> str:
        """The first line: place, kind, message."""
        return f"{self.file}:{self.line}:{self.column}: {self.kind}: {self.message}"


_WIDEST, _AROUND = 200, 80
"""Of a longer line, only the part around the mistake is shown."""
_LONGEST_MESSAGE = 1000


def _window(source: str, at: int) -> tuple[str, str]:
    """Return the part of a line that is shown, and its text before offset ``at``."""
    if len(source) <= _WIDEST:
        return source, source[:at]
    start, end = max(0, at - _AROUND), at + _AROUND
    before = ("... " if start else "") + source[start:at]
    return before + source[at:end] + (" ..." if end < len(source) else ""), before


def shortened(message: str) -> str:
    """Shorten a very long word that the message quotes, in its middle."""
    if len(message) <= _LONGEST_MESSAGE:
        return message
    return f"{message[:_AROUND]} ... {message[-_AROUND:]}"


def character_notes(message: str) -> tuple[str, ...]:
    """Name the characters of a message that look like others, such as a Cyrillic letter or a dash."""
    from unicodedata import name  # few mistakes need it

    odd = [character for character in dict.fromkeys(message) if not character.isascii()][:3]
    shown = (f"{character!r} is U+{ord(character):04X} {name(character, '')}".rstrip() for character in odd)
    return (f"note: {', '.join(shown)}",) if odd else ()


class AsmWarning(UserWarning):
    """A warning: a statement that is allowed and probably not meant."""


class AsmError(Tx8Error):
    """A program that cannot be assembled; ``diagnostics`` holds every mistake, in the order of the text."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__(listed(self.diagnostics))


def listed(diagnostics: Sequence[Diagnostic]) -> str:
    """Format the first ``MOST_SHOWN`` diagnostics and count the others."""
    shown = diagnostics[:MOST_SHOWN]
    parts = [str(diagnostic) for diagnostic in shown]
    rest = len(diagnostics) - len(shown)
    if rest:
        end = "; the rest was not read" if len(diagnostics) >= MOST_COUNTED else " in all"
        parts.append(f"{rest} more {shown[0].kind}s; {len(diagnostics)}{end}")
    return "\n".join(parts)
