"""An LLVM module of one kernel to relocatable machine code, optimised in one way for all engines."""

from __future__ import annotations

from functools import cache
from typing import Any

import llvmlite.binding as llvm

from .loader import initialize
from .target import target

FEW = 50
"""LLVM's threshold for inlining in compact code; otherwise it is 225."""


def emit_object(module: Any, compact: bool) -> bytes:
    """Optimise a module and return its ELF object; ``compact`` as in ``native.compile_kernel``."""
    tuning = llvm.create_pipeline_tuning_options(speed_level=2 if compact else 3)
    if compact:
        tuning.inlining_threshold, tuning.loop_unrolling = FEW, False
    builder = llvm.create_pass_builder(_machine(), tuning)
    builder.getModulePassManager().run(module, builder)
    return bytes(_machine().emit_object(module))


@cache
def _machine() -> Any:
    initialize()
    name, features = target()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=name, features=features, opt=3, reloc="default", codemodel="jitdefault", jit=True
    )
