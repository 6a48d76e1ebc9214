"""Loads and stores of the kernel cores in the field.

A number that a core loads and stores unchanged keeps its element. Results that a core computes from elements
are unknown, but for places and truth values that it finds in them, if the graph only finds some. Only loads
and stores are observed. So an element that was loaded into a register, and not stored since, may be part of
any later number. All other numbers that a core stores are literals.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from emulator.core.accesses import MAINTENANCE
from emulator.memory import shadow_words as layout
from emulator.memory import state
from emulator.memory.areas import HostMemoryError, anonymous
from emulator.native.primitives.memory import view_i64
from emulator.tile.tile import Tile

from .memory import FieldMemory

_MOST_PLACE = 1 << 16
"""Exclusive bound of the integers that are places, or truth values; no float of 32 bits begins so low."""
_TRUE = 0x3F800000
"""The bits of 1 in FP32: a truth value as a factor."""


@dataclass
class _Loaded:
    """A number with elements that a register has loaded."""

    data: bytes
    taken: npt.NDArray[np.float32]
    stored: bool = False
    """True if it was stored unchanged."""


class CoreMoves:
    """Follows the loads and stores of one tile's core, which calls ``check`` before each of them."""

    finds = False
    """True if the core may find places in elements, by their real numbers."""

    def __init__(self, tile: Tile, spm: FieldMemory, ddr: FieldMemory, check: int) -> None:
        self._tile, self._spm, self._ddr = tile, spm, ddr
        self._registers: dict[int, _Loaded] = {}
        self._unseen = anonymous(8 * (max(spm.data.size, ddr.data.size) // layout.GRANULE + 1))
        if self._unseen is None:
            raise HostMemoryError("the host refuses address space for a proof; raise the memory limit")
        block = self._block = np.zeros(layout.TILE_WORDS, np.int64)
        # All shadows keep their initial value, so no access is ``known`` and each calls the check.
        block[[layout.T_SPM, layout.T_DDR]] = self._unseen.ctypes.data
        tile.words[state.SANITIZER], tile.words[state.CORE_CHECK] = block.ctypes.data, check

    def follow(self, what: int) -> bool:
        """Follow a load or store, as in ``core_checks.core_access``; False for an unknown number's store."""
        if what & MAINTENANCE:
            return True
        words, size = self._tile.words, what >> 1 & 127
        host = int(words[state.DETAIL])
        memory, place = self._spm, host - int(words[state.SPM])
        if not 0 <= place < memory.data.size:
            memory, place = self._ddr, host - int(words[state.DDR])
        word = int(view_i64(int(words[state.PLAIN]) + 8 * (what >> 8), 1)[0])
        if what & 1:
            return self._store(memory, place, size, word >> 24 & 255)
        self._load(memory, place, size, word >> 8 & 255)
        return True

    def _load(self, memory: FieldMemory, place: int, size: int, register: int) -> None:
        self._registers.pop(register, None)
        if memory.has_elements(place + np.arange(size)):
            taken = memory.taken(np.array([place]), size)
            assert taken is not None, "some byte has an element"
            self._registers[register] = _Loaded(memory.data[place : place + size].tobytes(), taken)

    def _store(self, memory: FieldMemory, place: int, size: int, register: int) -> bool:
        value = int(self._tile.words[register]) & (1 << 8 * size) - 1
        found = self.finds and size >= 4 and (value < _MOST_PLACE or value == _TRUE)
        loaded = self._loaded(memory, register, value.to_bytes(size, "little"), found)
        if loaded is not None:
            loaded.stored = True
            memory.put(np.array([place]), size, loaded.taken[:, :, :size])
            return True
        if found or all(each.stored for each in self._registers.values()):
            memory.clear(place, size)
            return not found
        memory.forget(place, size)
        return False

    def _loaded(self, memory: FieldMemory, register: int, data: bytes, found: bool) -> _Loaded | None:
        """The number that a register has loaded, or that it has from another one that has loaded its bytes.

        ``found``: it may be a place or a truth value, which only the numbers decide.
        """
        own = self._registers.get(register)
        if own is not None and own.data[: len(data)] == data:
            return None if found and memory.is_truth(own.taken) else own
        others = [each for each in self._registers.values() if each.data == data]
        equal = all(np.array_equal(each.taken, others[0].taken) for each in others)
        return others[0] if self.finds and not found and others and equal else None
