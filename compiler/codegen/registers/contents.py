"""The contents of the kernel core's registers, for reuse."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from compiler.codegen.emitter import Emitter
from compiler.codegen.expr import Key, Variable
from compiler.codegen.tree import LineRange

from .names import ORDER


class RegisterContents:
    """Tracks the values that registers hold. A label that is reached from elsewhere discards all known
    contents."""

    def __init__(self, out: Emitter) -> None:
        self._out = out
        self._labels = out.labels
        self._places: dict[Key, str] = {}
        """Registers by their contents, the least recently used first."""
        self._lines: dict[str, int] = {}
        """For each register the line that computes its content."""
        self.reused: set[int] = set()
        """Lines whose results were found later."""

    def _current(self) -> dict[Key, str]:
        if self._labels != self._out.labels:
            self.clear()
        return self._places

    def clear(self) -> None:
        """Forget everything."""
        self._labels = self._out.labels
        self._places.clear()

    def find(self, key: Key) -> str | None:
        """The register that holds a value."""
        places = self._current()
        register = places.pop(key, None)
        if register is not None:
            places[key] = register
            self.reused.add(self._lines[register])
        return register

    def holds(self, key: Key) -> bool:
        """True if a register holds a value."""
        return key in self._current()

    def note(self, register: str, key: Key) -> None:
        """Record a value that has just been computed into a register."""
        if register in ORDER:
            self._current()[key] = register
            self._lines[register] = self._out.count - 1

    def lines_inserted(self, line: int, count: int) -> None:
        """``count`` lines have been inserted before a line."""
        self.reused = {each + count if each >= line else each for each in self.reused}
        self._lines = {name: at + count if at >= line else at for name, at in self._lines.items()}

    def drop(self, register: str) -> None:
        """Forget the content of a register, which is about to change."""
        self._places = {key: place for key, place in self._places.items() if place != register}

    def forget(self, variable: Variable) -> None:
        """Forget a variable that changes, and values computed from it."""
        self._places = {key: place for key, place in self._places.items() if variable not in key.variables}

    def least_needed(self, free: Sequence[str]) -> int:
        """Take a register that holds nothing, or else the least recently used value; returns its number."""
        held = list(self._current().values())
        at = next((at for at, register in enumerate(free) if register not in held), None)
        if at is None:
            at = min(range(len(free)), key=lambda number: held.index(free[number]))
            self.drop(free[at])
        return at

    def label(self, name: str, unless: Collection[str] = ()) -> None:
        """A label. The register contents known here stay valid after it, except some."""
        places = {key: place for key, place in self._current().items() if place not in unless}
        self._out.label(name)
        self._labels, self._places = self._out.labels, places

    def state(self) -> dict[Key, str]:
        """The present register contents."""
        return dict(self._current())

    def join(self, name: str, other: Mapping[Key, str]) -> None:
        """A label that is also reached from a place where registers held ``other``."""
        places = {key: place for key, place in self._current().items() if other.get(key) == place}
        self._out.label(name)
        self._labels, self._places = self._out.labels, places


def own_lines(contents: RegisterContents | None, lines: LineRange) -> range:
    """The lines of an instruction that nothing else needs: its own, and those of operands that are not reused
    later."""
    reused = contents is not None and not contents.reused.isdisjoint(range(*lines))
    return range(lines.end - 1 if reused else lines.first, lines.end)
