"""Activations written in simpler operators: GELU, Sigmoid, SiLU, Mish, HardSigmoid, HardSwish."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

from compiler.graph import Node

from .engine import Replacement, Rewrite, RewrittenGraph, replacement

_DEEPEST = 4
"""Nested products are multiplied out to this depth."""

Product = tuple[float, list[str]]
"""A number and the values that it is multiplied with."""


def _factors(graph: RewrittenGraph, name: str, depth: int = 0) -> Iterator[Product]:
    """Yield all decompositions of a value into factors; divisions by numbers count as factors.

    A product that other nodes read too is a single factor, unless it is the first.
    """
    number = graph.number(name)
    node = graph.producer(name, "Mul", "Div") if depth == 0 else graph.sole_producer(name, "Mul", "Div")
    if number is not None:
        yield number, []
    elif node is None or depth == _DEEPEST or not _keeps_shape(graph, node):
        yield 1.0, [name]
    else:
        divisor = graph.number(node.inputs[1])
        if node.op == "Mul":
            for left, right in product(*(list(_factors(graph, x, depth + 1)) for x in node.inputs)):
                yield left[0] * right[0], [*left[1], *right[1]]
        elif divisor:
            yield from ((scale / divisor, rest) for scale, rest in _factors(graph, node.inputs[0], depth + 1))
        if depth:
            yield 1.0, [name]


def _keeps_shape(graph: RewrittenGraph, node: Node) -> bool:
    """Return True if every factor of a product is a number or has the product's shape."""
    shape = graph.shape(node.outputs[0])
    return all(graph.shape(name) == shape or graph.number(name) is not None for name in node.inputs)


def _near(found: float, wanted: float) -> bool:
    return abs(found - wanted) <= 1e-4 * abs(wanted)


def _is_multiple(graph: RewrittenGraph, name: str, x: str, factor: float) -> bool:
    """Return True if a value is ``factor`` times x."""
    return any(_near(scale, factor) and rest == [x] for scale, rest in _factors(graph, name, 1))


def _one_plus(graph: RewrittenGraph, name: str) -> str | None:
    """Return y, if the value is 1 + y."""
    node = graph.sole_producer(name, "Add")
    found = graph.with_number(node) if node is not None else None
    return found[0] if found is not None and found[1] == 1.0 else None


def _gelu(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """x/2 (1 + erf(x/sqrt 2)) or x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), factors in any order."""
    for scale, factors in _factors(graph, node.outputs[0]):
        if len(factors) != 2 or not _near(scale, 0.5):
            continue
        for x, gate in (factors, factors[::-1]):
            inner = _one_plus(graph, gate)
            approximate = None if inner is None else _gate(graph, inner, x)
            if approximate is not None:
                build = graph.builder(node)
                return replacement(build, build("Gelu", x, approximate=approximate))
    return None


def _gate(graph: RewrittenGraph, name: str, x: str) -> str | None:
    """Return the attribute ``approximate`` of the GELU that the function ``name`` of x belongs to."""
    node = graph.sole_producer(name, "Erf", "Tanh")
    if node is None:
        return None
    if node.op == "Erf":
        return "none" if _is_multiple(graph, node.inputs[0], x, math.sqrt(0.5)) else None
    for scale, factors in _factors(graph, node.inputs[0], 1):
        if _near(scale, math.sqrt(2.0 / math.pi)) and _is_cubic(graph, factors, x):
            return "tanh"
    return None


def _is_cubic(graph: RewrittenGraph, factors: list[str], x: str) -> bool:
    """Return True if the product is x + 0.044715 x^3, or x (1 + 0.044715 x^2)."""
    if len(factors) == 2:
        for other, inner in (factors, factors[::-1]):
            square = _one_plus(graph, inner)
            if other == x and square is not None and _is_power(graph, square, x, 2):
                return True
        return False
    total = graph.sole_producer(factors[0], "Add") if len(factors) == 1 else None
    if total is None or x not in total.inputs:
        return False
    return _is_power(graph, total.inputs[1 - total.inputs.index(x)], x, 3)


def _is_power(graph: RewrittenGraph, name: str, x: str, exponent: int) -> bool:
    """Return True if a value is 0.044715 x**exponent."""
    for scale, factors in _factors(graph, name, 1):
        degrees = [_degree(graph, factor, x) for factor in factors]
        if _near(scale, 0.044715) and 0 not in degrees and sum(degrees) == exponent:
            return True
    return False


def _degree(graph: RewrittenGraph, name: str, x: str) -> int:
    """Return n if a value is x**n, else 0."""
    if name == x:
        return 1
    node = graph.producer(name, "Pow", "Mul")
    if node is None or node.inputs[0] != x:
        return 0
    if node.op == "Mul":
        return 2 if node.inputs[1] == x else 0
    return {2.0: 2, 3.0: 3}.get(graph.number(node.inputs[1]) or 0.0, 0)


def _sigmoid(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """1 / (1 + exp(-x)), as JAX writes it."""
    total = graph.sole_producer(node.inputs[1], "Add") if graph.number(node.inputs[0]) == 1.0 else None
    found = graph.with_number(total) if total is not None else None
    power = graph.sole_producer(found[0], "Exp") if found is not None and found[1] == 1.0 else None
    negated = graph.sole_producer(power.inputs[0], "Neg") if power is not None else None
    if negated is None or graph.shape(negated.inputs[0]) != graph.shape(node.outputs[0]):
        return None
    build = graph.builder(node)
    return replacement(build, build("Sigmoid", negated.inputs[0]))


def _gated(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """x sigmoid(a x), x tanh(softplus(x)), x HardSigmoid(x)."""
    for x, gate in (node.inputs, node.inputs[::-1]):
        if graph.shape(x) != graph.shape(gate) or x == gate:
            continue
        found = _swish(graph, x, gate) or _mish(graph, x, gate) or _hard_swish(graph, x, gate)
        if found is not None:
            op, attrs = found
            build = graph.builder(node)
            return replacement(build, build(op, x, **attrs))
    return None


Found = tuple[str, dict[str, float]]


def _swish(graph: RewrittenGraph, x: str, gate: str) -> Found | None:
    node = graph.sole_producer(gate, "Sigmoid")
    if node is None:
        return None
    if node.inputs[0] == x:
        return "Swish", {"alpha": 1.0}
    scaled = graph.sole_producer(node.inputs[0], "Mul")
    found = graph.with_number(scaled) if scaled is not None else None
    return ("Swish", {"alpha": found[1]}) if found is not None and found[0] == x else None


def _mish(graph: RewrittenGraph, x: str, gate: str) -> Found | None:
    tanh = graph.sole_producer(gate, "Tanh")
    softplus = graph.sole_producer(tanh.inputs[0], "Softplus") if tanh is not None else None
    return ("Mish", {}) if softplus is not None and softplus.inputs[0] == x else None


def _hard_swish(graph: RewrittenGraph, x: str, gate: str) -> Found | None:
    node = graph.sole_producer(gate, "HardSigmoid")
    if node is None or node.inputs[0] != x:
        return None
    call = graph.call(node)
    fits = _near(call.number("alpha"), 1 / 6) and call.number("beta") == 0.5
    return ("HardSwish", {}) if fits else None


def _clipped(graph: RewrittenGraph, name: str) -> str | None:
    """Return x, if the value is Clip(x + 3, 0, 6)."""
    node = graph.sole_producer(name, "Clip")
    if node is None or len(node.inputs) != 3:
        return None
    shifted = graph.sole_producer(node.inputs[0], "Add")
    inner = graph.with_number(shifted) if shifted is not None else None
    limits = [graph.number(limit) if limit else None for limit in node.inputs[1:]]
    return inner[0] if inner is not None and inner[1] == 3.0 and limits == [0.0, 6.0] else None


def _hard(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """Clip(x + 3, 0, 6) / 6, and x times this."""
    for scale, factors in _factors(graph, node.outputs[0]):
        if not _near(scale, 1 / 6):
            continue
        for at, gate in enumerate(factors):
            x, rest = _clipped(graph, gate), factors[:at] + factors[at + 1 :]
            if x is not None and rest in ([], [x]):
                build = graph.builder(node)
                return replacement(
                    build, build("HardSwish", x) if rest else build("HardSigmoid", x, alpha=1 / 6, beta=0.5)
                )
    return None


REWRITES = (
    Rewrite("gelu", ("Mul", "Div"), _gelu),
    Rewrite("hard-sigmoid", ("Mul", "Div"), _hard),
    Rewrite("sigmoid", ("Div",), _sigmoid),
    Rewrite("gated", ("Mul",), _gated),
)
