"""Translates frequent parts of a program to machine code.

The compiled loop of ``core`` executes a program word by word. The loops around the places where a tile spends
its time (where its quanta end) are translated. The source by which the kernel core executes a word is
specialised for that word and compiled by LLVM. So an instruction is described once, in its record, and its
kind is handled once, in ``core/loop.py``. This package knows no single instruction.

Registers, memory, counts and stops are the same as without translation. The words of a program do not change.
A copy of them, which the loop reads, has the addresses of translations at their entrances.
"""

from __future__ import annotations

import os
import threading
from functools import cached_property
from typing import TYPE_CHECKING, Any

from emulator import native
from emulator.core.predecode import PARCEL, TRANSLATED, Words
from emulator.memory import state

if TYPE_CHECKING:
    from .region import Layout

EARNED = 4
"""Instructions that may be translated for each quantum that ended outside translations.

Translating them takes about as long as such a quantum.
"""
ENOUGH = 64
"""Instructions that suffice to translate the first part of a larger loop."""
LARGEST_PROGRAM = 1 << 21
"""Parcels, including gaps between segments. Larger programs are interpreted, because their analysis takes too
long."""

FIXED = (
    state.SPM_BYTES,
    state.DDR,
    state.CODE_BASE,
    state.CODE_WORDS,
    state.CORE_SPM,
    state.CORE_SPM_STRONG,
    state.CORE_DDR,
    state.CORE_DDR_UNCACHED,
    state.CORE_WINDOW,
    state.CORE_CHECK,
    state.DDR_MARKS,
)
"""Words of the state that are the same in all tiles of a chip, and never change."""
_OF_A_CHIP = (state.DDR, state.DDR_MARKS)
"""The words among these that differ between chips with the same program."""


def enabled() -> bool:
    """Return True if programs are translated: only to machine code, and not with ``TX8_TRANSLATE=0``."""
    return native.jit_enabled() and os.environ.get("TX8_TRANSLATE") != "0"


class Translation:
    """The translated parts of one program text, which all tiles that run it share."""

    def __init__(self, words: Words) -> None:
        self.words = words
        self.dispatch = words
        """The words that the loop reads: ``words``, or a copy with entrances."""
        self.several_chips = False
        """True if tiles of several chips run it."""
        self.covered: set[int] = set()
        self._quanta = 0
        self._functions: list[Any] = []
        self._lock = threading.Lock()

    @cached_property
    def layout(self) -> Layout:
        """The parts of the program that can be translated."""
        from .instructions import translates
        from .region import find_layout

        return find_layout(self.words, translates)

    def quantum_ended(self, tile: Words) -> None:
        """Record the position of a tile, given by the words of its state, and perhaps translate the code
        there."""
        index = int(tile[state.PC] - tile[state.CODE_BASE]) // PARCEL
        wanted = index not in self.covered and self.words.size <= LARGEST_PROGRAM
        if wanted and self._lock.acquire(blocking=False):
            try:
                self._note(index, tile)
            finally:
                self._lock.release()
        tile[state.CODE] = self.dispatch.ctypes.data

    def _note(self, index: int, tile: Words) -> None:
        from .region import nearest, region_at

        self._quanta += 1
        link = (int(tile[state.X + 1]) - int(tile[state.CODE_BASE])) // PARCEL
        blocks = region_at(self.layout, index, link)
        size, earned = sum(len(block) for block in blocks.values()), EARNED * self._quanta
        if size and (size <= earned or earned >= ENOUGH):
            self._quanta = 0
            self.translate(nearest(blocks, earned), tile)

    def translate(self, blocks: dict[int, list[int]], tile: Words) -> None:
        """Translate blocks and let the loop enter them."""
        from .instructions import Region
        from .machine_code import MachineCode

        places = (place for place in FIXED if not (self.several_chips and place in _OF_A_CHIP))
        known = {place: int(tile[place]) for place in places}
        function = MachineCode(Region(self.layout, blocks, known).text())
        self._functions.append(function)
        if self.dispatch is self.words:
            self.dispatch = self.words.copy()
        for first in blocks:
            if self.dispatch[first] == self.words[first]:
                self.dispatch[first] = TRANSLATED | function.address << 8
        self.covered.update(index for block in blocks.values() for index in block)
