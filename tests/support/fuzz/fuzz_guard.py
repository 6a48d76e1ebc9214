"""Memory of the emulator between protected pages: an access outside of it ends the process with a signal.

``install`` replaces the allocation of the emulator's memories and tables: SPM, DDR, scratch, program text and
its decoded words, the words, queues and registers of a tile. Each array ends at a protected page; an array of
whole pages begins at one, too.
"""

from __future__ import annotations

import ctypes
import mmap
import types
from typing import Any

import numpy as np

GUARD = 1 << 30
"""Protected bytes before and after; addresses that are wrong by less than this are detected."""
_PAGE = mmap.PAGESIZE
_NONE = 0
"""PROT_NONE, which the module mmap does not name."""
_FLAGS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int


def guarded(size: int) -> np.ndarray:
    """``size`` zero bytes."""
    inside = -(-size // _PAGE) * _PAGE
    area = np.frombuffer(mmap.mmap(-1, inside + 2 * GUARD, flags=_FLAGS), dtype=np.uint8)
    for at in (0, GUARD + inside):
        if _libc.mprotect(area.ctypes.data + at, GUARD, _NONE):
            raise OSError(ctypes.get_errno(), "mprotect")
    return area[GUARD + inside - size : GUARD + inside]


def zeros(shape: Any, dtype: Any = float) -> np.ndarray:
    """As ``numpy.zeros``."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return guarded(size).view(dtype).reshape(shape)


def adjacent(count: int, size: int, byte: int) -> list[np.ndarray]:
    """As ``areas.adjacent``, with pages of their own around each area."""
    areas = [guarded(size) for _ in range(count)]
    for area in areas:
        area[:] = byte
    return areas


def install() -> None:
    """Make every later ``System`` use such memory."""
    from emulator.chip import copies as dte
    from emulator.core import code
    from emulator.engines import slots
    from emulator.memory import areas as memory
    from emulator.tile import tile

    for module in (code, dte, memory):
        assert hasattr(module, "anonymous")
        module.anonymous = guarded  # type: ignore[attr-defined]
    assert hasattr(memory, "adjacent")
    memory.adjacent = adjacent
    numpy = types.SimpleNamespace(**{**vars(np), "zeros": zeros})
    for user in (tile, slots, memory):
        assert hasattr(user, "np")
        user.np = numpy  # type: ignore[attr-defined]
