"""The records of all instructions, one module per family, a folder per unit; a new module is found by itself.

What they are written in is in ``families``, ``records`` and ``riscv``.
"""

from __future__ import annotations

import importlib
import pkgutil


def load() -> None:
    """Import every family: its records register themselves."""
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        importlib.import_module(module.name)
