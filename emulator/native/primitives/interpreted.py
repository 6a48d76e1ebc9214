"""Kernels as plain Python functions with pseudo addresses, and calls from Python in both modes.

Without the JIT every kernel is a Python function. Its "address" is a negative number, which no function of a
process has. So tables of addresses, indirect calls and coverage work the same way in both modes; 0 marks an
empty slot.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np

Kernel = Callable[..., int]

_functions: dict[int, Kernel] = {}
_addresses: dict[int, int] = {}
_entries: dict[tuple[int, int], Callable[..., int]] = {}


def register(function: Kernel) -> int:
    """Return a pseudo address for ``function``; the same function keeps its address."""
    address = _addresses.get(id(function))
    if address is None:
        address = -1 - len(_functions)
        _functions[address] = function
        _addresses[id(function)] = address
    return address


def call(address: int, *arguments: int) -> int:
    """Call the kernel at a real or pseudo address with 64-bit integers; the GIL is free in machine code."""
    if address > 0:
        return _entry(address, len(arguments))(*arguments)
    function = _functions.get(address)
    if function is None:
        raise ValueError(f"no kernel at address {address}")
    with np.errstate(all="ignore"):
        return int(function(*arguments))


def _entry(address: int, arguments: int) -> Callable[..., int]:
    entry = _entries.get((address, arguments))
    if entry is None:
        prototype = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * arguments)
        entry = _entries[address, arguments] = prototype(address)
    return entry
