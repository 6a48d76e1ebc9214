"""A machine at the ends of its figures' ranges, for bounds on the time that programs take.

``least`` takes the largest rates and the smallest times, so programs are fastest; ``most`` takes the
opposite. A figure without a range keeps its value.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET

from .figures import Coefficient

_Table = TypeVar("_Table", bound=msgspec.Struct)


class End(StrEnum):
    """The end of the figures' ranges that a simulation uses."""

    LEAST = "least"
    """The values at which programs are fastest."""
    MIDDLE = "middle"
    """The values of the description."""
    MOST = "most"
    """The values at which programs are slowest."""


def at_end(record: _Table, end: End) -> _Table:
    """Copy a machine, or one of its tables, with figures set to an end of their ranges."""
    if isinstance(record, Coefficient):
        return msgspec.structs.replace(record, value=value_at(record, end), least=UNSET, most=UNSET)
    changed: dict[str, Any] = {
        name: at_end(child, end)
        for name in record.__struct_fields__
        if isinstance(child := getattr(record, name), msgspec.Struct)
    }
    return msgspec.structs.replace(record, **changed)


def value_at(figure: Coefficient, end: End) -> float:
    """Return the value of a figure at an end."""
    if end is End.MIDDLE:
        return figure.value
    found = figure.most if figure.quickens == (end is End.LEAST) else figure.least
    return figure.value if found is UNSET else found


def figures(record: msgspec.Struct, key: str = "") -> Iterator[tuple[str, Coefficient]]:
    """Yield every figure of a table with its key."""
    for name in record.__struct_fields__:
        child = getattr(record, name)
        path = f"{key}.{name}" if key else name
        if isinstance(child, Coefficient):
            yield path, child
        elif isinstance(child, msgspec.Struct):
            yield from figures(child, path)
