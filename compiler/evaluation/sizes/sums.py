"""Sums of dimensions, such as the length that a state has after a step: ``past + new``.

A sum has a name among the sizes as a dimension has one, so that extents are products with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from asm.image import SUM

__all__ = ["SUM", "sum_of"]


def sum_of(text: str, sizes: Mapping[str, Any]) -> Any:
    """The sum that a text names, of dimensions and numbers; KeyError for an unknown dimension."""
    found: Any = 0
    for part in text.split(SUM):
        found = (int(part) if part.isdigit() and part not in sizes else sizes[part]) + found
    return found
