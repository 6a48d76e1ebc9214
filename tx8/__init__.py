"""tx8 from Python: compile or assemble a program, run it on the emulated chip, inspect the run.

    program = tx8.compile("model.onnx", dtype="fp16")
    run = program.run(image)
    run["probabilities"], run.cycles, run.stats

docs/python.md is the tour. tx8 is built on the packages ``compiler``, ``asm``, ``emulator`` and ``tx8isa``,
which are imported on first use, so that ``import tx8`` is fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tx8_entry.surroundings import refusal

if TYPE_CHECKING:
    from tx8isa.errors import Tx8Error as Error

    from .builder import GraphBuilder, Value
    from .kernel import Kernel, Launch, c_kernel
    from .program import Program, assemble, assemble_file, compile, compile_entries, load
    from .run import Run
    from .session import Session
    from .triton.kernel import Addresses, TritonKernel, triton_kernel

__all__ = [
    "Addresses",
    "Error",
    "GraphBuilder",
    "Kernel",
    "Launch",
    "Program",
    "Run",
    "Session",
    "TritonKernel",
    "Value",
    "assemble",
    "assemble_file",
    "c_kernel",
    "compile",
    "compile_entries",
    "load",
    "triton_kernel",
]

if (_reason := refusal()) is not None:
    raise ImportError(_reason)

_HOMES = {
    "Addresses": ("tx8.triton.kernel", "Addresses"),
    "Error": ("tx8isa.errors", "Tx8Error"),
    "GraphBuilder": ("tx8.builder", "GraphBuilder"),
    "Value": ("tx8.builder", "Value"),
    "Kernel": ("tx8.kernel", "Kernel"),
    "Launch": ("tx8.kernel", "Launch"),
    "Program": ("tx8.program", "Program"),
    "Run": ("tx8.run", "Run"),
    "Session": ("tx8.session", "Session"),
    "TritonKernel": ("tx8.triton.kernel", "TritonKernel"),
    "assemble": ("tx8.program", "assemble"),
    "assemble_file": ("tx8.program", "assemble_file"),
    "c_kernel": ("tx8.kernel", "c_kernel"),
    "compile": ("tx8.program", "compile"),
    "compile_entries": ("tx8.program", "compile_entries"),
    "load": ("tx8.program", "load"),
    "triton_kernel": ("tx8.triton.kernel", "triton_kernel"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _HOMES[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted(__all__)
