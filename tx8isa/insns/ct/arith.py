"""CT arithmetic, opcodes 0..29 (docs/isa.md, Arithmetic)."""

from __future__ import annotations

from tx8isa.families.vector import binary, unary
from tx8isa.numbers.elementary import rsqrt as rsqrt_of
from tx8isa.numbers.exact import at_powers_of_four, at_powers_of_two, at_squares
from tx8isa.numbers.formats import sum_error
from tx8isa.numbers.primitives import divide
from tx8isa.numbers.primitives import sqrt as square_root
from tx8isa.records.record import Work

_EVIDENCE = "spec; FP16, BF16 and FP32 on the board; special values proposed"


@unary(0, _EVIDENCE, single=True)
def abs_(x: float) -> float:
    """Absolute value: the sign bit cleared."""
    return abs(x)


@unary(1, _EVIDENCE, exact=at_powers_of_two, work=Work.DIVISION)
def recip(x: float) -> float:
    """Reciprocal 1/x; a signed infinity at a zero."""
    return divide(1.0, x)


@unary(2, _EVIDENCE, single=True)
def square(x: float) -> float:
    """x * x."""
    return x * x


@unary(3, _EVIDENCE, exact=at_squares, work=Work.DIVISION)
def sqrt(x: float) -> float:
    """Correctly rounded square root; NaN below zero."""
    return square_root(x)


@unary(4, _EVIDENCE, exact=at_powers_of_four, work=Work.DIVISION)
def rsqrt(x: float) -> float:
    """1/sqrt(x); +inf at +0, NaN below zero."""
    return rsqrt_of(x)


@unary(5, _EVIDENCE, single=True)
def neg(x: float) -> float:
    """0 - x, so a zero of either sign gives +0 (board)."""
    return 0.0 - x


@binary(6, _EVIDENCE, single=True)
def max_(a: float, b: float) -> float:
    """The larger of a and b; the other one when one is NaN; +0 is above -0."""
    if a != a:
        return b
    if b != b:
        return a
    if a == b:
        return a + b if a == 0.0 else a
    return a if a > b else b


@binary(10, _EVIDENCE, single=True)
def min_(a: float, b: float) -> float:
    """The smaller of a and b; the other one when one is NaN; -0 is below +0."""
    if a != a:
        return b
    if b != b:
        return a
    if a == b:
        return -(-a - b) if a == 0.0 else a
    return a if a < b else b


def _difference_error(a: float, b: float, total: float) -> float:
    return sum_error(a, -b, total)


def _product_error(a: float, b: float, product: float) -> float:
    """Operands have at most 24 significant bits: their product is exact in binary64."""
    return 0.0 * product


_SPLITTER = 134217729.0  # 2**27 + 1


def _quotient_error(a: float, b: float, quotient: float) -> float:
    """Sign of a/b - quotient, from the exact remainder: quotient * b as a two-part product."""
    shifted = quotient * _SPLITTER
    high = shifted - (shifted - quotient)
    low = quotient - high
    product = quotient * b  # b has 24 significant bits: high * b and low * b are exact
    remainder = (a - product) - ((high * b - product) + low * b)
    signed = remainder if b > 0.0 else -remainder
    return signed if signed == signed else 0.0  # NaN: a zero, an infinity or a NaN took part


def _sum_down(a: float, b: float) -> float:
    """a + b, but -0 where numbers of unlike sign cancel: the zero of ``rdn`` (IEEE 754)."""
    return -(-a - b)


def _difference_down(a: float, b: float) -> float:
    """a - b, but -0 where numbers of like sign cancel."""
    return -(b - a)


@binary(14, _EVIDENCE, error=sum_error, single=True, down=_sum_down)
def add(a: float, b: float) -> float:
    """Sum a + b, rounded by rnd."""
    return a + b


@binary(18, _EVIDENCE, error=_difference_error, single=True, down=_difference_down)
def sub(a: float, b: float) -> float:
    """Difference a - b, rounded by rnd."""
    return a - b


@binary(22, _EVIDENCE, error=_product_error, single=True)
def mul(a: float, b: float) -> float:
    """Product a * b, rounded by rnd."""
    return a * b


@binary(
    26,
    _EVIDENCE + "; native FP32 results near 1e-3 relative on the board",
    error=_quotient_error,
    work=Work.DIVISION,
)
def div(a: float, b: float) -> float:
    """Quotient a / b, rounded by rnd; x/0 is a signed infinity, 0/0 NaN."""
    return divide(a, b)
