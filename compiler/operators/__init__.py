"""The operators that graphs may use, one record each (:class:`compiler.operators.record.Operator`).

A folder has the records of a family; a new module in one is imported automatically. Checks, inference, the
reference run and docs/operators.md follow from the records.
"""

from __future__ import annotations

import importlib
import pkgutil

from .record import OPERATORS, Attribute, Call, Input, Operator, Rule, call_of, is_known

__all__ = ["OPERATORS", "Attribute", "Call", "Input", "Operator", "Rule", "added", "call_of", "is_known"]


def _load() -> None:
    """Import every module in the order of the names: the records in them register themselves."""
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        importlib.import_module(module.name)


_load()
_OURS = frozenset(OPERATORS)


def added() -> list[str]:
    """Return the names of the operators that were registered later, by users."""
    return sorted(OPERATORS.keys() - _OURS)
