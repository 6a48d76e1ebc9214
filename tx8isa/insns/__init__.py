"""The records of all instructions: one module per family, a folder per unit; ``load`` finds new modules.

Their building blocks are in ``families``, ``records`` and ``riscv``.
"""

from __future__ import annotations

import importlib
import pkgutil


def load() -> None:
    """Import every module here; each registers its records."""
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        importlib.import_module(module.name)
