"""CT transcendental functions, opcodes 98..104 (docs/isa.md, Functions): within 1 ulp of the format."""

from __future__ import annotations

from tx8isa.families.vector import unary
from tx8isa.numbers.elementary import NEAR, cos_near, sin_near
from tx8isa.numbers.elementary import cos as cos_of
from tx8isa.numbers.elementary import exp as exp_of
from tx8isa.numbers.elementary import exp_low_precision as exp_low_precision_of
from tx8isa.numbers.elementary import ln as ln_of
from tx8isa.numbers.elementary import log2 as log2_of
from tx8isa.numbers.elementary import pow2 as pow2_of
from tx8isa.numbers.elementary import sin as sin_of
from tx8isa.numbers.exact import at_integers, at_one, at_powers_of_two, at_zero
from tx8isa.records.record import Work

_EVIDENCE = "spec; special values proposed"


@unary(98, _EVIDENCE, exact=at_powers_of_two, work=Work.TRANSCENDENTAL)
def log2(x: float) -> float:
    """Logarithm to base 2; -inf at zero, NaN below it."""
    return log2_of(x)


@unary(99, _EVIDENCE, exact=at_one, work=Work.TRANSCENDENTAL)
def ln(x: float) -> float:
    """Natural logarithm; -inf at zero, NaN below it."""
    return ln_of(x)


@unary(100, _EVIDENCE, binary32=True, exact=at_integers, work=Work.TRANSCENDENTAL)
def pow2(x: float) -> float:
    """2 to the power x."""
    return pow2_of(x)


@unary(101, _EVIDENCE, binary32=True, exact=at_zero, work=Work.EXPONENTIAL)
def exp(x: float) -> float:
    """e to the power x, the accurate form."""
    return exp_of(x)


@unary(102, _EVIDENCE + "; accuracy on the board", binary32=True, exact=at_zero, work=Work.EXPONENTIAL_LP)
def exp_lp(x: float) -> float:
    """e to the power x as pow2 of one FP32 product x * log2(e)."""
    return exp_low_precision_of(x)


@unary(103, _EVIDENCE, usual=sin_near, seldom=NEAR, exact=at_zero, work=Work.TRANSCENDENTAL)
def sin(x: float) -> float:
    """Sine of x radians, exact range reduction."""
    return sin_of(x)


@unary(104, _EVIDENCE, usual=cos_near, seldom=NEAR, exact=at_zero, work=Work.TRANSCENDENTAL)
def cos(x: float) -> float:
    """Cosine of x radians, exact range reduction."""
    return cos_of(x)
