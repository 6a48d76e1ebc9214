"""CT relations, opcodes 30..77 (docs/isa.md, Relations)."""

from __future__ import annotations

from tx8isa.families.vector import relation

_EVIDENCE = "spec; FP16, BF16 and FP32 on the board; NaN, -0 and bits beyond the count proposed"


@relation(30, _EVIDENCE)
def eq(a: float, b: float) -> bool:
    """a equals b; both zeros are equal, NaN equals nothing."""
    return a == b


@relation(38, _EVIDENCE)
def ne(a: float, b: float) -> bool:
    """a differs from b; NaN differs from everything."""
    return a != b


@relation(46, _EVIDENCE)
def ge(a: float, b: float) -> bool:
    """a is greater than b or equal; never with a NaN."""
    return a >= b


@relation(54, _EVIDENCE)
def gt(a: float, b: float) -> bool:
    """a is greater than b; never with a NaN."""
    return a > b


@relation(62, _EVIDENCE)
def le(a: float, b: float) -> bool:
    """a is less than b or equal; never with a NaN."""
    return a <= b


@relation(70, _EVIDENCE)
def lt(a: float, b: float) -> bool:
    """a is less than b; never with a NaN."""
    return a < b
