"""The emulator: executes program images instruction by instruction, exact to the byte.

    emulator.load("prog.bin").run({"x": array}) -> {"y": array}

The names are imported on first use, so that ``tx8emu --help`` does not wait for NumPy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from emulator.tile.fault import Category, Fault

    from .memory.buffers import InputError
    from .program import Program, load

__all__ = ["Category", "Fault", "InputError", "Program", "load"]

_HOME = {
    "Category": "tile.fault",
    "Fault": "tile.fault",
    "InputError": "program",
    "Program": "program",
    "load": "program",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'emulator' has no attribute '{name}'")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
