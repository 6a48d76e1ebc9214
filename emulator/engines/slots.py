"""The table through which compiled code reaches the engines' kernels, filled as programs need them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from emulator import kernels, native
from emulator.native import ahead
from tx8isa.numbers.formats import Format
from tx8isa.records.meaning import Convolution, Matrix

from . import tables


class Slots:
    """Kernel and lookup-table addresses by slot; one for a whole chip, shared by its threads.

    ``ne_post``: bias, scale and activation of the matrix engine take part (proposed).
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

    def compile(self, slot: int, missing: Callable[[], None] | None = None) -> int:
        """Address of the kernel of a slot; ``missing`` as in ``native.compile_kernel``."""
        instruction, code, nearest, checked = tables.slot_parts(slot)
        fmt = Format(code) if instruction.formats else None
        name = kernels.kernel_name(instruction, fmt, nearest, checked)
        if isinstance(instruction.meaning, Matrix | Convolution):
            from emulator.kernels import ne

            kernel = ne.make_kernel(instruction, fmt, self.ne_post)
        else:
            kernel = kernels.make_kernel(instruction, fmt, nearest, checked)
        return native.compile_kernel(kernel, name, 2, directly=True, missing=missing)

    def prepare(self, slots: Iterable[int]) -> None:
        """Make the kernels ready that a program is expected to need.

        If the cache lacks one, all that it lacks are compiled side by side, where that is possible.
        """
        wanted = sorted((slot for slot in slots if not self.words[slot, 0]), key=_takes_short)
        if len(wanted) < 2 or not ahead.possible():
            return
        with suppress(_Missing):
            for slot in wanted:
                self.compile(slot, _raise_missing)
            return
        if native.on_compile:
            native.on_compile(f"{len(wanted)} kernels, side by side", None)
        ahead.run_all([partial(self.compile, slot) for slot in wanted])


def _takes_short(slot: int) -> bool:
    """Whether the kernel of a slot is compiled fast; the others, begun first, end with them."""
    return not isinstance(tables.slot_parts(slot)[0].meaning, Matrix | Convolution)


class _Missing(Exception):
    """The cache lacks a kernel."""


def _raise_missing() -> None:
    raise _Missing
