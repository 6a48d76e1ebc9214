"""LLVM text to machine code in this process."""

from __future__ import annotations

from functools import cache
from typing import Any

import llvmlite.binding as llvm

from emulator.native.loader import initialize
from emulator.native.target import target

from .frame import ENTRY


class MachineCode:
    """A compiled function; it lives as long as this object."""

    def __init__(self, text: str) -> None:
        module = llvm.parse_assembly(text)
        _passes().run(module, _builder())
        self._engine: Any = llvm.create_mcjit_compiler(module, _create_machine())
        self._engine.finalize_object()
        self.address = int(self._engine.get_function_address(ENTRY))


def _create_machine() -> Any:
    initialize()
    name, features = target()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=name, features=features, opt=1, jit=True
    )


@cache
def _builder() -> Any:
    return llvm.create_pass_builder(_create_machine(), llvm.create_pipeline_tuning_options(speed_level=1))


@cache
def _passes() -> Any:
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    return passes
