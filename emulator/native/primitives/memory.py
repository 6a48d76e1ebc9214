"""Memory and calls as primitives: arrays over raw addresses, and calls through a kernel's address.

This is the definition; the machine version is in ``machine/memory.py``. An address is an unchecked integer,
so ranges are checked before a kernel opens a view. Reading an integer view gives a Python int (machine: the
element's own unsigned type, see the rules in ``emulator.native``); storing keeps the low bits.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from . import interpreted

Array = npt.NDArray[Any]


class Words(np.ndarray):
    """An array whose integer elements behave like machine words: read as int, stored modulo the width."""

    def __getitem__(self, index: Any) -> Any:
        element = super().__getitem__(index)
        return int(element) if isinstance(element, np.integer) else element

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(value, int | np.integer):
            value = _wrap(int(value), self.dtype)
        super().__setitem__(index, value)


def _wrap(value: int, dtype: np.dtype[Any]) -> int:
    bits = 8 * dtype.itemsize
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype.kind == "i" and value >> (bits - 1) else value


def _bytes(address: int, size: int) -> Array:
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


def view_u8(address: int, n: int) -> Array:
    """``n`` unsigned bytes at ``address``."""
    return _bytes(address, n).view(Words)


def view_u16(address: int, n: int) -> Array:
    """``n`` unsigned 16-bit words at ``address``."""
    return _bytes(address, 2 * n).view(np.uint16).view(Words)


def view_u32(address: int, n: int) -> Array:
    """``n`` unsigned 32-bit words at ``address``."""
    return _bytes(address, 4 * n).view(np.uint32).view(Words)


def view_u64(address: int, n: int) -> Array:
    """``n`` unsigned 64-bit words at ``address``."""
    return _bytes(address, 8 * n).view(np.uint64).view(Words)


def view_i64(address: int, n: int) -> Array:
    """``n`` signed 64-bit words at ``address``."""
    return _bytes(address, 8 * n).view(np.int64).view(Words)


def view_f32(address: int, n: int) -> Array:
    """``n`` binary32 numbers at ``address``."""
    return _bytes(address, 4 * n).view(np.float32)


def view_f64(address: int, n: int) -> Array:
    """``n`` binary64 numbers at ``address``."""
    return _bytes(address, 8 * n).view(np.float64)


def get(table: int, at: int) -> int:
    """Signed 64-bit word ``at`` of the table at an address.

    Compiled code passes addresses instead of arrays, because an array is seven arguments in machine code.
    """
    return ctypes.c_int64.from_address(table + 8 * at).value


def put(table: int, at: int, value: int) -> None:
    """Set word ``at`` of the table at an address."""
    ctypes.c_int64.from_address(table + 8 * at).value = value


def copy_bytes(target: int, source: int, size: int) -> None:
    """Copy ``size`` bytes between addresses, as if all were read before any is written."""
    ctypes.memmove(target, source, size)


def call_loop(address: int, state: int) -> int:
    """Call the one-argument kernel at ``address``, the loop of the kernel core, from another kernel."""
    return interpreted.call(address, state)


def call_kernel(address: int, fields: int, state: int) -> int:
    """Call the two-argument kernel at ``address`` from inside another kernel."""
    return interpreted.call(address, fields, state)
