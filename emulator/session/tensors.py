"""Buffers of a program, whose bytes in DDR are found once."""

from __future__ import annotations

import numpy as np

from asm.image import Buffer
from emulator.memory.areas import Bytes
from emulator.memory.buffers import Array, check_array, is_plain, packed, travel_dtype, unpacked
from emulator.memory.resetting import Area
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import Layout
from tx8isa.numbers.packing import storage_dtype


class BoundTensor:
    """A buffer at ``offset`` in DDR, ``size`` bytes of ``area``."""

    def __init__(self, buffer: Buffer, area: Area, offset: int, size: int) -> None:
        self.buffer, self.offset, self.size = buffer, offset, size
        self.data: Bytes = area.data[offset : offset + size]
        self._area, self._view, self._travels = area, _plain_view(buffer, self.data), travel_dtype(buffer)

    def check(self, array: Array) -> None:
        """Raise InputError unless an array has the shape and dtype of the buffer."""
        check_array(self.buffer, array)

    def fill(self, array: Array) -> None:
        """Write a checked array; InputError for an integer that the format does not hold."""
        self._area.mark(self.offset, self.size)
        if self._view is None:
            self.data[:] = packed(self.buffer, array)
        elif self._view.dtype == array.dtype:
            self._view[...] = array
        else:
            with np.errstate(over="ignore"):  # a number too large for its format becomes an infinity
                np.copyto(self._view, array, casting="unsafe")

    def read(self, into: Array | None = None) -> Array:
        """Return the buffer's array; written into a checked one, if given."""
        if self._view is None:
            found = self.array_of(self.data)
            if into is None:
                return found
            into[...] = found
            return into
        if into is None:
            into = np.empty(self.buffer.shape, self._travels)
        np.copyto(into, self._view, casting="unsafe")
        return into

    def bytes_of(self, array: Array) -> Bytes:
        """Return the buffer's bytes for an array; InputError for one that does not fit."""
        return packed(self.buffer, array)

    def array_of(self, data: Bytes) -> Array:
        """Return the array of the buffer's bytes."""
        return unpacked(self.buffer, data)


def _plain_view(buffer: Buffer, data: Bytes) -> Array | None:
    """Return the bytes as an array that takes plain copies; None if the format needs a conversion."""
    fmt, travels = Format.parse(buffer.format), travel_dtype(buffer)
    stored = storage_dtype(fmt)
    floats = travels.kind == "f" and (stored.kind == "f" or fmt is Format.BF16)
    if not is_plain(fmt, Layout.parse(buffer.layout)) or not (stored == travels or floats):
        return None
    return data.view(stored).reshape(buffer.shape)
