"""Where a run is interrupted, so that its state can be saved and it can go on later.

Instructions are found by marks in copies of the decoded words: "no instruction here". The program in memory
stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .code import Code
from .predecode import NOTHING

UNLIMITED = 1 << 62
"""A number of instructions that no tile executes."""


@dataclass(frozen=True)
class Pause:
    """When to interrupt: a tile has executed so many instructions, or comes to one of these addresses.

    Then every tile that still has a part in the round stops at that number or address too, or where its time
    slice ends; nothing else of the round is done. So the rest is the same as if nothing had happened.
    """

    instructions: int = UNLIMITED
    """At least 1."""
    addresses: frozenset[int] = frozenset()


class Marks:
    """The programs of tiles with marks at some addresses; tiles with the same program share its copy."""

    def __init__(self, addresses: Iterable[int]) -> None:
        self.addresses = frozenset(addresses)
        self._marked: dict[int, tuple[Code, Code]] = {}
        """By identity of the program: itself, which keeps that identity taken, and its copy."""
        self._plain: dict[int, Code] = {}

    def marked(self, code: Code) -> Code:
        """The program with marks; itself when there are none to make."""
        if not self.addresses or id(code) in self._plain:
            return code
        if id(code) not in self._marked:
            words = code.words.copy()
            places = [at - code.base >> 2 for at in self.addresses if at % 4 == 0]
            words[[place for place in places if 0 <= place < words.size]] = NOTHING
            copy = Code(code.base, code.text, words, code.spans)
            self._marked[id(code)], self._plain[id(copy)] = (code, copy), code
        return self._marked[id(code)][1]

    def plain(self, code: Code) -> Code:
        """The program without the marks."""
        return self._plain.get(id(code), code)
