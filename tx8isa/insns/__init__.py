"""The instruction records, one module per family; a new module is found by itself."""

from __future__ import annotations

import importlib
import pkgutil

_loaded = False


def load() -> None:
    """Import every family and prove the table; idempotent."""
    global _loaded
    if _loaded:
        return
    _loaded = True
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    from ..proof import prove
    from ..record import instructions

    prove(instructions())
