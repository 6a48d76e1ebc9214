"""Where the compiled loop gives control back: breakpoints, and instructions that watchpoints look at.

The loop runs over a copy of the decoded words in which these are "no instruction here": the whole word for a
breakpoint, only the operation for what watchpoints look at. The program in memory stays as it is, and between
them the loop runs at full speed.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from tx8isa import rv

from ..code import Code
from ..predecode import ENGINE, FIRST_SCALAR, NOTHING, Words


@cache
def operations(kind: rv.Kind) -> dict[int, rv.Scalar]:
    """The records of a kind, by their operation in a decoded word."""
    records = enumerate(rv.scalar_instructions())
    return {FIRST_SCALAR + number: record for number, record in records if record.kind == kind}


class Marks:
    """The breakpoints, and copies of the programs' words with the marks in them."""

    def __init__(self) -> None:
        self.addresses: set[int] = set()
        self._hidden: list[int] = []
        self._copies: dict[int, tuple[Code, Words]] = {}
        """By identity: programs differ between tiles after a fence.i."""

    def words(self, code: Code) -> Words:
        """The words that a tile runs."""
        found = self._copies.get(id(code))
        if found is None:
            words = code.words.copy()
            if self._hidden:
                words[np.isin(words & 0xFF, self._hidden)] &= ~0xFF
            found = self._copies[id(code)] = code, words
            for address in self.addresses:
                self._mark(found[0], found[1], address)
        return found[1]

    def set(self, address: int) -> None:
        """Set a breakpoint."""
        self.addresses.add(address)
        for code, words in self._copies.values():
            self._mark(code, words, address)

    def clear(self, address: int) -> None:
        """Remove one, if it is there."""
        self.addresses.discard(address)
        for code, words in self._copies.values():
            at = address - code.base >> 2
            if 0 <= at < words.size:
                word = int(code.words[at])
                words[at] = word & ~0xFF if word & 0xFF in self._hidden else word

    def hide(self, *, loads: bool, stores: bool) -> None:
        """Give control back at loads, at stores, and with either of them at engine instructions."""
        hidden = [*(operations("load") if loads else ()), *(operations("store") if stores else ())]
        hidden += [ENGINE] if hidden else []
        if hidden != self._hidden:
            self._hidden = hidden
            self._copies.clear()

    def _mark(self, code: Code, words: Words, address: int) -> None:
        at = address - code.base >> 2
        if 0 <= at < words.size:
            words[at] = NOTHING
