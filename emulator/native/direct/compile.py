"""A plain function to relocatable machine code, without Numba."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import llvmlite.binding as llvm

from emulator.native.loader import initialize
from emulator.native.store import Compiled
from emulator.native.target import target

from .functions import ENTRY, Functions

FEW = 50
"""LLVM's threshold for inlining in compact code; otherwise it is 225."""


def compile_directly(function: Callable[..., int], arguments: int, compact: bool = False) -> Compiled:
    """Return machine code of ``function``; Untranslatable when it uses anything unknown here.

    ``compact`` as in ``native.compile_kernel``.
    """
    module = llvm.parse_assembly(Functions().module(function, arguments))
    module.name = "tx8"
    tuning = llvm.create_pipeline_tuning_options(speed_level=2 if compact else 3)
    if compact:
        tuning.inlining_threshold, tuning.loop_unrolling = FEW, False
    builder = llvm.create_pass_builder(_machine(), tuning)
    builder.getModulePassManager().run(module, builder)
    return Compiled(ENTRY, (), bytes(_machine().emit_object(module)))


@cache
def _machine() -> Any:
    initialize()
    name, features = target()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=name, features=features, opt=3, reloc="default", codemodel="jitdefault", jit=True
    )
