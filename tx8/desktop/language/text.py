"""A text in an editor, its assembly, and its words with the kinds of the lexer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from asm.assembler import assemble_text
from asm.assembly import Assembly
from asm.diagnostics import AsmError, Diagnostic
from asm.output import code_sections
from asm.syntax.source import lines_of
from tx8.desktop.lexer import TOKENS, Tx8Lexer

from .memory import Memory, RecallingAssembler

_KINDS = {token: kind for kind, token in TOKENS.items()}


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a line, from column ``start`` to before ``end``; ``kind`` is one of the lexer's."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


@dataclass(frozen=True)
class Reading:
    """A text, its assembly, and the mistakes and warnings of it and of the files that it includes."""

    name: str
    text: str
    assembly: Assembly
    told: tuple[Diagnostic, ...]

    @cached_property
    def lines(self) -> list[str]:
        """The lines with blanks in place of block comments."""
        return lines_of(self.text)

    @cached_property
    def written(self) -> list[str]:
        """The lines as they are written; columns equal those of ``lines``."""
        return self.text.split("\n")

    def words(self, line: int) -> list[Word]:
        """The words of a line; lines count from 0."""
        return words_of(self.lines[line]) if line < len(self.lines) else []

    def word_at(self, line: int, column: int) -> Word | None:
        """The word under the cursor, or just before it."""
        found = [word for word in self.words(line) if word.start <= column <= word.end]
        return found[-1] if found else None

    def all_words(self) -> Iterator[tuple[int, Word]]:
        """Each word of the text with the number of its line."""
        for number, line in enumerate(self.lines):
            yield from ((number, word) for word in words_of(line))


def words_of(line: str) -> list[Word]:
    """The words of a line without its blanks, comments and strings."""
    tokens = Tx8Lexer().get_tokens_unprocessed(line)
    found = (Word(_KINDS.get(token, ""), text, at) for at, token, text in tokens)
    return [word for word in found if word.kind not in ("", "blank", "comment")]


def head_before(words: Sequence[Word], column: int) -> Word | None:
    """Return the mnemonic or directive of the statement at a column; None without one, or before it."""
    head = None
    for word in words:
        if word.start >= column:
            break
        if word.text == ";":
            head = None
        elif word.kind in ("engine", "core", "directive", "macro", "symbol"):
            head = word
    return head


def read(text: str, name: str, memory: Memory, folders: Sequence[str | Path] = ()) -> Reading:
    """Assemble a text as ``tx8as`` does; lines that the memory knows are not assembled again."""
    made: list[RecallingAssembler] = []

    def make(*arguments: object) -> RecallingAssembler:
        made.append(partial(RecallingAssembler, memory)(*arguments))  # type: ignore[arg-type]
        return made[-1]

    memory.trim(text.count("\n"))
    mistakes: tuple[Diagnostic, ...] = ()
    try:
        assembly = assemble_text(text, name, folders, {}, memory.machine, make=make)
        code_sections(assembly.program.sections.values(), name)
    except AsmError as error:
        mistakes = error.diagnostics
    assembly = made[-1].assembly
    return Reading(name, text, assembly, (*mistakes, *sorted(assembly.warnings.values())))
