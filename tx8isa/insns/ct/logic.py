"""CT logic on truth values, opcodes 78..87, and on bit vectors, 88..97 (docs/isa.md, Logic)."""

from __future__ import annotations

from tx8isa.families.vector import bitwise, truth

_TRUTH = "spec; truth values on the board; NaN as true proposed"
_BITS = "spec; board; bits beyond the count proposed"


@truth(78, _TRUTH)
def not_(x: float) -> bool:
    """x is false, that is a zero of either sign."""
    return x == 0.0


@truth(79, _TRUTH)
def and_(a: float, b: float) -> bool:
    """Both a and b are true (not zero)."""
    return (a != 0.0) & (b != 0.0)


@truth(80, _TRUTH)
def or_(a: float, b: float) -> bool:
    """One or both of a and b are true (not zero)."""
    return (a != 0.0) | (b != 0.0)


@truth(81, _TRUTH)
def xor(a: float, b: float) -> bool:
    """Exactly one of a and b is true (not zero)."""
    return (a != 0.0) != (b != 0.0)


@bitwise(88, "not", _BITS)
def bits_not(a: int) -> int:
    """The complement of a."""
    return ~a


@bitwise(89, "and", _BITS)
def bits_and(a: int, b: int) -> int:
    """a and b."""
    return a & b


@bitwise(90, "or", _BITS)
def bits_or(a: int, b: int) -> int:
    """a or b."""
    return a | b


@bitwise(91, "xor", _BITS)
def bits_xor(a: int, b: int) -> int:
    """a exclusive-or b."""
    return a ^ b
