"""Loads relocatable machine code at a callable address, with llvmlite alone."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any, NamedTuple

import llvmlite.binding as llvm

from .store import Compiled
from .target import target


class LoadedCode(NamedTuple):
    """A kernel that runs in this process: its name, its object and the address of its C function."""

    name: str
    kernel: Compiled
    address: int
    engine: Any
    """Owns the memory in which the code is."""


loaded: list[LoadedCode] = []
"""All code that ``load_object`` has loaded: profilers find its functions here."""

_ALLOCATION = {"tx8_Allocate": "malloc", "tx8_Free": "free"}
"""Functions of Numba's run time that code without exceptions uses, by the names of ``build.own_name``.

A slice copied over itself needs them. Only a raised exception reaches the others, which abort.
"""


@cache
def initialize() -> None:
    """Prepare LLVM to produce and load code for this host."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@cache
def _libc(name: str) -> int:
    return ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value or 0


def load_object(kernel: Compiled, name: str) -> int:
    """Return the address of the kernel's C function; ``name`` is the kernel's name in messages.

    Each object gets a separate engine. Numba numbers its symbols per process, so two processes may use one
    name for different code.
    """
    initialize()
    for symbol in kernel.runtime:
        if llvm.address_of_symbol(symbol) is None:
            llvm.add_symbol(symbol, _libc(_ALLOCATION.get(symbol, "abort")))
    processor, features = target()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=processor, features=features, opt=0, jit=True
    )
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(kernel.code))
    engine.finalize_object()
    address = engine.get_function_address(kernel.entry)
    if not address:
        raise RuntimeError(f"the object has no function '{kernel.entry}'")
    loaded.append(LoadedCode(name, kernel, int(address), engine))
    return int(address)
