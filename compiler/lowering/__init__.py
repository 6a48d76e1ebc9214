"""Lowerings: how each operator becomes the code of a phase. A folder has the lowerings of a family.

The functions with the decorator ``lowering`` (record.py) register themselves; a new module in a folder is
imported automatically.
"""

from __future__ import annotations

import importlib
import pkgutil

from .record import LOWERINGS, Lowering, Work

__all__ = ["LOWERINGS", "Lowering", "Work", "added"]


def _load() -> None:
    """Import every module, in the order of their names: the lowerings in them register themselves."""
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        importlib.import_module(module.name)


_load()
_OURS = frozenset(LOWERINGS)


def added() -> list[str]:
    """Operators whose lowerings were registered from outside this package, as by a user's own file."""
    return sorted(LOWERINGS.keys() - _OURS)
