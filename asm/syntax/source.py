"""Lines of a program, their origins, and their statements; the files that a program includes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from zlib import crc32

from asm.diagnostics import Diagnostic, Fault, character_notes, shortened
from tx8isa.tools.files import Bytes

_BLOCK_COMMENT = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|\'(?:\\.|[^\'\\\n])\'|#[^\n]*|//[^\n]*|/\*.*?\*/|/\*.*', re.DOTALL
)
_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"?|\'(?:\\.|[^\'\\])\'?|#|//|;|[^"\'#/;]+|/')
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_ODD_BLANK = re.compile(r"[^\S\x00-\x7f]")
NAME = re.compile(r"[A-Za-z_.$][\w.$]*")
"""The name of a symbol, macro or buffer."""
SECTION_NAME = re.compile(r"[\w.$-]+")
SPECIAL = re.compile(r"[#/;\"']")


def lines_of(text: str) -> list[str]:
    """The lines of a program, without block comments; any line ends."""
    return _without_block_comments(text.replace("\r\n", "\n")).split("\n")


_BLOCK_WORD = re.compile(r"\.(?:if|else|macro|rep|irp|irep|end[imr])", re.IGNORECASE)


_WIDEST = 1000


def divided(source: Source) -> Source:
    """Return the source with one line for each statement, where ``;`` puts a block such as .if to .endif on
    one line."""
    if not any(";" in line and _BLOCK_WORD.search(line) for line in source.lines):
        return source
    lines, numbers = list[str](), list[int]()
    for index, line in enumerate(source.lines):
        parts = statements(line) if ";" in line and _BLOCK_WORD.search(line) else []
        indented = len(line) <= _WIDEST  # so that columns stay; many long lines would fill the memory
        pieces = (
            [" " * start * indented + line[start:end] for start, end in parts] if len(parts) > 1 else [line]
        )
        lines += pieces
        numbers += [source.first + index] * len(pieces)
    return replace(source, lines=lines, numbers=numbers)


def _without_block_comments(text: str) -> str:
    """``/* ... */`` replaced by blanks, so that every other character keeps its place."""
    if "/*" not in text:
        return text
    return _BLOCK_COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m[0]) if m[0].startswith("/*") else m[0], text)


def open_comment(text: str) -> tuple[int, int] | None:
    """Index of the line, and offset in it, of a ``/*`` that no ``*/`` follows."""
    text = text.replace("\r\n", "\n")
    for match in _BLOCK_COMMENT.finditer(text) if "/*" in text else ():
        if match[0].startswith("/*") and not (match[0].endswith("*/") and len(match[0]) > 3):
            start = match.start()
            return text.count("\n", 0, start), start - text.rfind("\n", 0, start) - 1
    return None


def half_character(line: str) -> int | None:
    """Offset of a lone surrogate, which no file can hold but a text in Python can."""
    found = _SURROGATE.search(line)
    return found and found.start()


def odd_blank(line: str) -> int | None:
    """Offset of a blank beyond ASCII, such as U+00A0, outside strings and comments."""
    for piece in _PIECE.finditer(line) if not line.isascii() else ():
        if piece[0] in ("#", "//"):
            break
        if piece[0][0] not in "\"'" and (found := _ODD_BLANK.search(piece[0])):
            return piece.start() + found.start()
    return None


def statements(line: str) -> list[tuple[int, int]]:
    """[start, end) of each statement of a line, without comments."""
    if not SPECIAL.search(line):
        return [(0, len(line))]
    found, start = [], 0
    for piece in _PIECE.finditer(line):
        if piece[0] == ";":
            found.append((start, piece.start()))
            start = piece.end()
        elif piece[0] in ("#", "//"):
            found.append((start, piece.start()))
            return found
    found.append((start, len(line)))
    return found


@dataclass(eq=False)
class Source:
    """A file, or the lines that a macro or a repetition makes.

    ``first`` is the line number of ``lines[0]``; ``numbers`` has those of all lines, unless they are
    consecutive. ``file`` and ``line`` (-1: its own) are written to the line table; without a file there is no
    row. ``notes`` name the expansions and files that led here.
    """

    name: str
    lines: list[str]
    first: int = 1
    file: str | None = None
    line: int = -1
    notes: tuple[str, ...] = ()
    depth: int = 0
    macro: bool = False
    numbers: Sequence[int] = ()
    expanded: bool = False
    """True when a macro or a repetition made the lines."""
    conditions: list[tuple[int, bool]] = field(default_factory=list)
    """(line of the .if, whether its .else was seen) of the open conditionals."""

    def number(self, index: int) -> int:
        """The number of a line, which may be the index after the last one."""
        return self.numbers[index] if index < len(self.numbers) else self.first + index

    def where(self, index: int) -> str:
        return f"{self.name}:{self.number(index)}"

    def row_line(self, index: int) -> int:
        return self.line if self.line >= 0 else self.number(index)

    def body(self, begin: int, end: int) -> Source:
        """The lines from ``begin`` to ``end``, for an expansion."""
        return Source(
            self.name,
            self.lines[begin:end],
            self.number(begin),
            numbers=self.numbers[begin:end],
            macro=self.macro,
        )

    def diagnostic(self, index: int, fault: Fault, start: int, helped: bool = True) -> Diagnostic:
        """The fault as a report; ``start`` is the column offset when the fault has none.

        ``helped``: with advice, even if finding it takes long.
        """
        line = self.lines[index] if index < len(self.lines) else ""
        at = start if fault.at is None else fault.at
        message = shortened(fault.message)
        text = fault.help if isinstance(fault.help, str) else fault.help() if helped else ""
        help = (f"help: {shortened(text)}",) if text else ()
        notes = (*help, *character_notes(message), *self.notes)
        return Diagnostic(self.name, self.number(index), at + 1, message, line, notes)


def checksum(data: Bytes) -> str:
    """The checksum of a file as the directive ``.checksum`` has it: its CRC-32, 8 hexadecimal digits.

    It guards against accidents, like that of an image; constants may have gigabytes.
    """
    return f"{crc32(data):08x}"


class IncludedFiles:
    """Files in the folder of the one that names them, or in one of ``folders``; each is read once.

    ``given`` holds the bytes of files that need not exist, by the name under which the program includes them.
    """

    def __init__(self, folders: Sequence[str | Path] = (), given: Mapping[str, Bytes] | None = None) -> None:
        self._folders = [Path(folder) for folder in folders]
        self._given = given or {}
        self._read: dict[Path, Bytes] = {}

    def paths(self) -> list[Path]:
        """The files that were read."""
        return list(self._read)

    def find(self, name: str, beside: Path) -> tuple[Path, Bytes]:
        """Path and bytes of a file that a file in the folder ``beside`` names; Fault if it does not exist."""
        if name in self._given:
            return Path(name), self._given[name]
        folders = [beside, *self._folders]
        path = next((folder / name for folder in folders if (folder / name).is_file()), None)
        if path is None:
            searched = ", ".join(str(folder) for folder in folders)
            raise Fault(f"file {name} not found in {searched}", None, "name its folder with -I")
        if path not in self._read:
            try:
                self._read[path] = path.read_bytes()
            except OSError as error:
                raise Fault(f"cannot read {path}: {error.strerror}") from None
        return path, self._read[path]
