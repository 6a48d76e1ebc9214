"""Integer division and multiples, rounded up."""

from __future__ import annotations


def ceil_div(left: int, right: int) -> int:
    """left / right rounded up."""
    return -(-left // right)


def round_up(value: int, step: int) -> int:
    """The smallest multiple of ``step`` that is not below ``value``."""
    return ceil_div(value, step) * step
