"""The rule of instructions with three results: nobody says which one stays where they overlap (proposed)."""

from __future__ import annotations

from tx8isa.records.operands import linear, rule
from tx8isa.records.record import Rule


def results_apart(
    bits: str | int, n: str | int, bits1: str | int, n1: str | int, bits2: str | int, n2: str | int
) -> tuple[Rule, ...]:
    """Rules for ``dst``, ``dst1`` and ``dst2``; each has its bits per element and its number of elements."""
    first, second, third = ("dst", bits, n), ("dst1", bits1, n1), ("dst2", bits2, n2)
    return tuple(rule(*a, *b)(_apart) for a, b in ((first, second), (first, third), (second, third)))


def _apart(at: int, bits: int, n: int, other: int, other_bits: int, other_n: int) -> bool:
    """dst, dst1 and dst2 must not overlap"""
    return at + linear(bits, n) <= other or other + linear(other_bits, other_n) <= at
