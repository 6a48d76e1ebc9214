"""The table through which compiled code reaches the engines' kernels, filled as programs need them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from emulator import kernels, native
from tx8isa.numbers.formats import Format
from tx8isa.records.meaning import Convolution, Matrix

from . import tables


class Slots:
    """Kernel and lookup-table addresses by slot; one for a whole chip, shared by its threads.

    ``ne_post``: the matrix engine applies bias, scale and activation (proposed).
    """

    def __init__(self, ne_post: bool = False) -> None:
        self.ne_post = ne_post
        self.words = np.zeros((len(tables.records()) * tables.SLOTS_PER_RECORD, 2), dtype=np.int64)
        self._lookup_tables: list[Any] = []  # kept alive: the words hold their addresses
        self._lock = threading.Lock()

    @property
    def address(self) -> int:
        return self.words.ctypes.data

    def fill(self, slot: int) -> None:
        """Compile (or load) the kernel of a slot."""
        with self._lock:
            if self.words[slot, 0]:
                return
            instruction, code, nearest, checked = tables.slot_parts(slot)
            fmt = Format(code) if instruction.formats else None
            lookup = kernels.make_table(instruction, fmt) if nearest and not checked else None
            if lookup is not None:
                self._lookup_tables.append(lookup)
                self.words[slot, 1] = lookup.ctypes.data
            self.words[slot, 0] = self.compile(slot)

    def compile(self, slot: int) -> int:
        """Return the address of the kernel of a slot, compiled if it is missing."""
        instruction, code, nearest, checked = tables.slot_parts(slot)
        fmt = Format(code) if instruction.formats else None
        name = kernels.kernel_name(instruction, fmt, nearest, checked)
        if isinstance(instruction.meaning, Matrix | Convolution):
            from emulator.kernels import ne

            kernel = ne.make_kernel(instruction, fmt, self.ne_post)
        else:
            kernel = kernels.make_kernel(instruction, fmt, nearest, checked)
        compact = kernels.is_compact(instruction)
        return native.compile_kernel(kernel, name, 2, compact=compact)

    def jobs(self, slots: Iterable[int]) -> list[Callable[[], object]]:
        """Return jobs that compile the kernels of slots, the longest first."""
        return [partial(self.compile, slot) for slot in sorted(slots, key=_takes_short)]


def _takes_short(slot: int) -> bool:
    """Return True if the kernel of a slot compiles fast; slow ones are started first, so that all end at the
    same time."""
    return not isinstance(tables.slot_parts(slot)[0].meaning, Matrix | Convolution)
