"""Loads relocatable machine code at a callable address, with llvmlite alone."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import llvmlite.binding as llvm

from .target import target


class LoadedCode(NamedTuple):
    """A kernel that runs in this process: its name, its object and the address of its C function."""

    name: str
    kernel: bytes
    address: int
    engine: Any
    """Owns the memory in which the code is."""


ENTRY = "tx8_entry"
"""Name of the C function of every object."""

loaded: list[LoadedCode] = []
"""All code that ``load_object`` has loaded: profilers find its functions here."""


@cache
def initialize() -> None:
    """Prepare LLVM to produce and load code for this host."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


def load_object(kernel: bytes, name: str) -> int:
    """Return the address of the C function ``ENTRY`` of an object; ``name`` is the kernel's in messages.

    Each object gets a separate engine, because all of them define ``ENTRY``.
    """
    initialize()
    processor, features = target()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=processor, features=features, opt=0, jit=True
    )
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(kernel))
    engine.finalize_object()
    address = engine.get_function_address(ENTRY)
    if not address:
        raise RuntimeError(f"kernel {name}: its object has no function '{ENTRY}'")
    loaded.append(LoadedCode(name, kernel, int(address), engine))
    return int(address)
