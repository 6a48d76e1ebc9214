"""Finds and renames labels, buffers, symbols and macros."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from asm.output import image_of
from asm.syntax.source import NAME
from tx8isa.errors import Tx8Error
from tx8isa.riscv.registers import REGISTERS

from .memory import Memory
from .text import Reading, Word, read

NAMES = ("label", "symbol", "name")
"""The kinds of words that the text can define."""


class Place(NamedTuple):
    """Start and end of a word in a file; lines and columns count from 0."""

    file: str
    line: int
    start: int
    end: int


def definition(reading: Reading, line: int, column: int) -> Place | None:
    """Find the definition of the word under the cursor; None for words of the language and unknown ones."""
    word = reading.word_at(line, column)
    if word is None:
        return None
    if word.kind == "label" and word.text[0].isdigit():
        return _numeric_label(reading, line, word)
    if word.kind == "macro":
        return _macro(reading, word.text)
    symbol = reading.assembly.program.symbols.get(word.text) if word.kind in NAMES else None
    if symbol is None or not symbol.where:
        return None
    file, _, number = symbol.where.rpartition(":")
    return _word_in(reading, file, int(number) - 1, word.text)


def _word_in(reading: Reading, file: str, line: int, text: str) -> Place:
    """Find a word in a line; returns the beginning of the line for a line of another file."""
    words = reading.words(line) if file == reading.name else []
    start = next((word.start for word in words if word.text == text), 0)
    return Place(file, line, start, start + len(text))


def _numeric_label(reading: Reading, line: int, word: Word) -> Place | None:
    """Find the label of ``1f`` or ``1b``: the next one below, or the nearest one above or in this line."""
    number = word.text.rstrip("fb")
    if number == word.text:
        return Place(reading.name, line, word.start, word.end)
    found = [
        Place(reading.name, at, other.start, other.end)
        for at, other in reading.all_words()
        if other.kind == "label" and other.text == number
    ]
    here = (line, word.start)
    if word.text.endswith("f"):
        return next((place for place in found if place[1:3] > here), None)
    return next((place for place in reversed(found) if place[1:3] < here), None)


def _macro(reading: Reading, name: str) -> Place | None:
    """Find the line that begins the definition of a macro."""
    for number, line in enumerate(reading.lines):
        words = reading.words(number) if ".macro" in line.lower() else []
        for head, found in pairwise(words):
            if head.text.lower() == ".macro" and found.text.lower() == name.lower():
                return Place(reading.name, number, found.start, found.end)
    return None


# --- renaming -----------------------------------------------------------------------------


def renamed(
    reading: Reading, line: int, column: int, new: str, memory: Memory, folders: Sequence[str | Path] = ()
) -> list[Place]:
    """Find all places of the name under the cursor, to replace it by ``new``.

    Tx8Error for a word that this text does not define, for an invalid or used new name, and for a new name
    that would change the program.
    """
    old = renamable(reading, line, column).text
    _check_new(reading, new)
    places = list(_uses(reading, old))
    after = read(_replaced(reading, places, new), reading.name, memory, folders)
    if _meaning(reading, old, new) != _meaning(after, new, new):
        raise Tx8Error(f"renaming {old} to {new} would change the program: choose another name")
    return places


def renamable(reading: Reading, line: int, column: int) -> Word:
    """Return the name under the cursor; Tx8Error when this text does not define it."""
    word = reading.word_at(line, column)
    can = "labels, buffers and symbols of this file can be renamed"
    if word is None:
        raise Tx8Error(f"{reading.name}:{line + 1}:{column + 1}: there is no word here; {can}")
    where = f"{reading.name}:{line + 1}:{word.start + 1}"
    if word.kind not in NAMES:
        kind = {"engine": "an instruction", "core": "an instruction", "directive": "a directive"}
        raise Tx8Error(f"{where}: {word.text} is {kind.get(word.kind, f'a {word.kind}')}; {can}")
    if word.text[0].isdigit():
        raise Tx8Error(f"{where}: {word.text} is a numeric label; {can}")
    symbol = reading.assembly.program.symbols.get(word.text)
    if symbol is None or not symbol.where:
        raise Tx8Error(f"{where}: {word.text} is not defined; {can}")
    file = symbol.where.rpartition(":")[0]
    if file != reading.name:
        raise Tx8Error(f"{where}: {word.text} is defined in {file}; {can}")
    return word


def _check_new(reading: Reading, new: str) -> None:
    """Raise Tx8Error for a new name that is invalid or used."""
    if not NAME.fullmatch(new) or new == ".":
        raise Tx8Error(f"new name {new!r}: expected letters, digits, _ . $, and no digit first")
    if new in REGISTERS:
        raise Tx8Error(f"new name {new}: it is a register")
    taken = reading.assembly.program.symbols.get(new)
    if taken is not None:
        where = f"defined at {taken.where}" if taken.where else "used"
        raise Tx8Error(f"new name {new}: it is already {where}")


def _uses(reading: Reading, name: str) -> Iterator[Place]:
    for number, line in enumerate(reading.lines):
        if name in line:
            for word in reading.words(number):
                if word.text == name and word.kind in NAMES:
                    yield Place(reading.name, number, word.start, word.end)


def _replaced(reading: Reading, places: Sequence[Place], new: str) -> str:
    lines = [*reading.written]
    for place in reversed(places):
        line = lines[place.line]
        lines[place.line] = line[: place.start] + new + line[place.end :]
    return "\n".join(lines)


def _meaning(reading: Reading, old: str, new: str) -> object:
    """Return what renaming must preserve: the image with ``new`` for ``old``, or the mistakes without
    columns."""
    mistakes = [told for told in reading.told if told.kind == "error"]
    if mistakes:
        word = re.compile(rf"(?<![\w.$]){re.escape(old)}(?![\w.$])")
        return [(told.file, told.line, word.sub(lambda _: new, told.message)) for told in mistakes]
    image = image_of(reading.assembly)
    named = {new if name == old else name: symbol for name, symbol in image.symbols.items()}
    buffers = [replace(buffer, name=new if buffer.name == old else buffer.name) for buffer in image.buffers]
    return (
        image.entry,
        image.segments,
        image.tile_entries,
        named,
        buffers,
        image.lines,
        image.nodes,
        image.live,
    )
