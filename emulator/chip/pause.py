"""Interrupting a run at an instruction, so that its state can be saved or a debugger can look at it.

Instructions are found by marks in copies of the decoded words: "no instruction here". The program in memory
is unchanged, and runs at full speed between the marks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from emulator.core.code import Code
from emulator.core.predecode import NOTHING, Words

UNLIMITED = 1 << 62
"""More instructions than any tile executes."""
_OPERATION = 0xFF
"""Bits of a decoded word that name the operation."""


@dataclass(frozen=True)
class Pause:
    """The point to interrupt at: a number of instructions of a tile, or an address that it reaches.

    Every other tile of the round stops at that number, at a marked address, or at the end of its quantum; the
    round is not ended. So the rest of the run is the same as without the interruption.
    """

    instructions: int = UNLIMITED
    """The number of instructions, at least 1."""
    addresses: frozenset[int] = frozenset()


class Marks:
    """The programs of tiles with marks at some addresses; tiles with the same program share its copy.

    Whole kinds of instructions can be hidden too: their operation then means "no instruction here", and the
    rest of the word is unchanged.
    """

    def __init__(self, addresses: Iterable[int] = ()) -> None:
        self.addresses = set(addresses)
        self._hidden: list[int] = []
        self._marked: dict[int, tuple[Code, Code]] = {}
        """By identity of a program: the program, so that the identity is not reused, and its copy."""
        self._plain: dict[int, Code] = {}

    def marked(self, code: Code) -> Code:
        """Return a copy of the program with the marks; the program itself if there are none."""
        if not (self.addresses or self._hidden) or id(code) in self._plain:
            return code
        if id(code) not in self._marked:
            words = code.words.copy()
            words[np.isin(words & _OPERATION, self._hidden)] &= ~_OPERATION
            for address in self.addresses:
                _mark(code, words, address)
            copy = Code(code.base, code.text, words, code.spans)
            self._marked[id(code)], self._plain[id(copy)] = (code, copy), code
        return self._marked[id(code)][1]

    def plain(self, code: Code) -> Code:
        """Return the program without the marks."""
        return self._plain.get(id(code), code)

    def set(self, address: int) -> None:
        """Mark an address."""
        self.addresses.add(address)
        for code, copy in self._marked.values():
            _mark(code, copy.words, address)

    def clear(self, address: int) -> None:
        """Remove a mark, if it is there."""
        self.addresses.discard(address)
        for code, copy in self._marked.values():
            at = code.index(address)
            if at is not None:
                word = int(code.words[at])
                copy.words[at] = word & ~_OPERATION if word & _OPERATION in self._hidden else word

    def hide(self, operations: Iterable[int]) -> None:
        """Hide these operations, and no others."""
        hidden = sorted(operations)
        if hidden != self._hidden:
            self._hidden = hidden
            self.forget()

    def forget(self) -> None:
        """Forget the copies; ``marked`` makes new ones."""
        self._marked.clear()
        self._plain.clear()


def _mark(code: Code, words: Words, address: int) -> None:
    at = code.index(address)
    if at is not None:
        words[at] = NOTHING
