"""Sums of dimensions, such as the length of a state after a step: ``past + new``.

A sum has a name among the sizes, like a dimension, so that extents are products with it.
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
