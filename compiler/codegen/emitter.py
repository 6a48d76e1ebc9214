"""Assembly text, line by line."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tx8isa.tools.command_line import one_line


class Emitter:
    """Lines of one part of a program.

    A line that is an object becomes text when ``lines`` is read, since the search generates code for many
    candidates without reading its text.
    """

    def __init__(self) -> None:
        self._lines: list[object] = []
        self._written = 0
        """Lines that are text already."""
        self.instructions = 0
        """Number of instructions so far."""
        self.labels = 0
        """Number of labels so far."""

    @property
    def lines(self) -> list[str]:
        """The text so far; lines may be appended to it."""
        if self._written < len(self._lines):
            self._lines[self._written :] = map(str, self._lines[self._written :])
            self._written = len(self._lines)
        return self._lines  # type: ignore[return-value]  # all of them are text now

    @property
    def count(self) -> int:
        """Number of lines so far."""
        return len(self._lines)

    def label(self, name: str) -> None:
        self.labels += 1
        self._lines.append(f"{name}:")

    def comment(self, text: str) -> None:
        self._lines.append(f"        # {one_line(text)}")

    def directive(self, text: str) -> None:
        self._lines.append(f"        {text}")

    def instruction(self, mnemonic: str, *operands: str) -> None:
        self.add(ScalarLine(mnemonic, operands))

    def shorten(self, line: int, mnemonic: str, label: str, removed: int) -> None:
        """Give a branch another mnemonic and label, and empty the ``removed`` lines after it."""
        branch = self._lines[line]
        assert isinstance(branch, ScalarLine)
        self._lines[line] = ScalarLine(mnemonic, (*branch.operands[:-1], label))
        self._lines[line + 1 : line + 1 + removed] = [""] * removed

    def erase(self, first: int, end: int) -> None:
        """Empty the lines from ``first`` to before ``end``."""
        self._lines[first:end] = [""] * (end - first)

    def insert(self, line: int, other: Emitter) -> None:
        """Insert the lines of ``other`` before a line."""
        self._lines[line:line] = other._lines
        self._written = min(self._written, line)
        self.instructions += other.instructions
        self.labels += other.labels

    def since(self, line: int) -> list[object]:
        """The lines with numbers ``line`` and above."""
        return self._lines[line:]

    def add(self, line: object) -> None:
        """Append an instruction whose text is ``str(line)``."""
        self.instructions += 1
        self._lines.append(line)


class ScalarLine(NamedTuple):
    """The text of an instruction of the kernel core."""

    mnemonic: str
    operands: tuple[str, ...]

    def __str__(self) -> str:
        return instruction_text(self.mnemonic, ", ".join(self.operands))


def instruction_text(mnemonic: str, operands: str) -> str:
    """The line of an instruction."""
    return f"        {mnemonic:<23} {operands}".rstrip()


def decimal(value: float) -> str:
    """The shortest decimal text of a number, as FP32 if it is an FP32 number."""
    with np.errstate(over="ignore"):
        single = np.float32(value)
    text = str(single) if float(single) == value else repr(value)
    return text if set(text) & set(".ein") else f"{text}.0"
