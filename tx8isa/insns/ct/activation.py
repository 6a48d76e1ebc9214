"""CT activation functions, opcodes 105..110 (docs/isa.md, Functions)."""

from __future__ import annotations

from tx8isa.families.vector import unary
from tx8isa.numbers.elementary import sigmoid as sigmoid_of
from tx8isa.numbers.elementary import softplus as softplus_of
from tx8isa.numbers.elementary import tanh as tanh_of
from tx8isa.numbers.exact import at_zero, nowhere, where_hundredth
from tx8isa.records.record import Work

_EVIDENCE = "spec; special values proposed"

SATRELU_LIMIT = 6.0  # no operand carries it; proposed
LEAKY_SLOPE = 0.01  # no operand carries it; proposed


@unary(105, _EVIDENCE, exact=at_zero, work=Work.TRANSCENDENTAL)
def tanh(x: float) -> float:
    """Hyperbolic tangent."""
    return tanh_of(x)


@unary(106, _EVIDENCE, exact=at_zero, work=Work.TRANSCENDENTAL)
def sigmoid(x: float) -> float:
    """1 / (1 + e**-x)."""
    return sigmoid_of(x)


@unary(107, _EVIDENCE, single=True)
def relu(x: float) -> float:
    """x above zero, otherwise +0; NaN gives +0."""
    return x if x > 0.0 else 0.0


@unary(108, _EVIDENCE + "; limit 6.0 proposed", single=True)
def satrelu(x: float) -> float:
    """ReLU with the upper bound 6."""
    positive = x if x > 0.0 else 0.0
    return positive if positive < SATRELU_LIMIT else SATRELU_LIMIT


@unary(109, _EVIDENCE + "; slope 0.01 proposed", exact=where_hundredth)
def leakyrelu(x: float) -> float:
    """x from zero up, 0.01 x below it."""
    return LEAKY_SLOPE * x if x < 0.0 else x


@unary(110, _EVIDENCE, exact=nowhere, work=Work.TRANSCENDENTAL)
def softplus(x: float) -> float:
    """ln(1 + e**x); x itself above 20."""
    return softplus_of(x)
