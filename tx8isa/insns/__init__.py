"""The instruction records, one module per family; a new module is found by itself."""

from __future__ import annotations

import importlib
import pkgutil


def load() -> None:
    """Import every family: its records register themselves."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
