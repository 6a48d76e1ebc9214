"""A plain function to relocatable machine code, without Numba."""

from __future__ import annotations

from collections.abc import Callable

import llvmlite.binding as llvm

from emulator.native.llvm_module import emit_object

from .functions import Functions


def compile_directly(function: Callable[..., int], arguments: int, compact: bool = False) -> bytes:
    """Return the object of ``function``; Untranslatable when it uses anything unknown here.

    ``compact`` as in ``native.compile_kernel``.
    """
    module = llvm.parse_assembly(Functions().module(function, arguments))
    module.name = "tx8"
    return emit_object(module, compact)
