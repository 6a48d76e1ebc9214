"""Einsum: products and sums over labelled axes, as transposes and matrix products."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compiler.graph import FLOATS
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.expansion.parts import broadcast, permuted, reshaped, sliced
from compiler.operators.record import Attribute, Call, Input, Output, Types, rule

_ELLIPSIS = "0123456789"
"""Labels of the axes that an ellipsis covers, the last axis first; a user's labels are letters."""

_Labelled = tuple[str, str]
"""The name of a value, and the labels of its axes."""


@dataclass(frozen=True)
class _Equation:
    """The labels of the axes of every operand and of the result, and the size of each label."""

    terms: tuple[str, ...]
    result: str
    sizes: Mapping[str, int]


class _Mistake(Exception):
    """A mistake in an equation; the text describes it."""


def _spread(term: str, rank: int) -> str:
    """Replace the ellipsis of a term by labels."""
    letters = term.replace("...", "")
    hidden = rank - len(letters)
    if not all(letter.isascii() and letter.isalpha() for letter in letters) or term.count("...") > 1:
        raise _Mistake(f"term '{term}'")
    if hidden < 0 or hidden > len(_ELLIPSIS) or (hidden and "..." not in term):
        raise _Mistake(f"term '{term}' for an operand of rank {rank}")
    return term.replace("...", _ELLIPSIS[:hidden][::-1])


def _sizes(terms: Sequence[str], call: Call) -> dict[str, int]:
    """Return the size of every label. Axes of an ellipsis broadcast: their size may be 1 in some operands."""
    sizes: dict[str, int] = {}
    for at, term in enumerate(terms):
        for label, size in zip(term, call.shape(at), strict=True):
            known = sizes.setdefault(label, size)
            if known == 1 and label in _ELLIPSIS:
                sizes[label] = size
            elif size != known and (size != 1 or label not in _ELLIPSIS):
                raise _Mistake(f"label '{label}' of size {known} and {size}")
    return sizes


def _parsed(call: Call) -> _Equation:
    text = call.string("equation").replace(" ", "")
    left, arrow, right = text.partition("->")
    written = left.split(",")
    if len(written) != len(call.inputs):
        raise _Mistake(f"{len(written)} terms for {len(call.inputs)} operands")
    terms = tuple(_spread(term, call.tensor(at).rank) for at, term in enumerate(written))
    sizes = _sizes(terms, call)
    dots = "".join(sorted((label for label in sizes if label in _ELLIPSIS), reverse=True))
    if arrow:
        result = right.replace("...", dots)
    else:  # ONNX: the labels that occur once, in alphabetical order
        joined = "".join(terms)
        result = dots + "".join(sorted(label for label in set(joined) - {*dots} if joined.count(label) == 1))
    if len(set(result)) < len(result) or not set(result) <= set(sizes) or right.count("...") > 1:
        raise _Mistake(f"result '{right}'")
    return _Equation(terms, result, sizes)


def _diagonal(build: Builder, value: str, term: str) -> _Labelled:
    """Remove repeated labels of an operand: two axes of one label become their diagonal."""
    while len(set(term)) < len(term):
        first = next(at for at, label in enumerate(term) if label in term[at + 1 :])
        second = term.index(term[first], first + 1)
        rest = [at for at in range(len(term)) if at not in (first, second)]
        value = permuted(build, value, *rest, first, second)
        *kept, size, _ = build.shape(value)
        flat = reshaped(build, value, *kept, size * size)
        value = sliced(build, flat, len(kept), 0, size * size, size + 1)
        term = "".join(term[at] for at in rest) + term[first]
    return value, term


def _summed(build: Builder, value: str, term: str, wanted: set[str]) -> _Labelled:
    """Sum an operand over all but the wanted labels."""
    gone = tuple(at for at, label in enumerate(term) if label not in wanted)
    if not gone:
        return value, term
    return build("ReduceSum", value, axes=gone, keepdims=0), "".join(
        label for label in term if label in wanted
    )


def _ordered(build: Builder, value: str, term: str, labels: str, sizes: Mapping[str, int]) -> str:
    """Return an operand with its axes in the order of ``labels``; axes that broadcast get their full size."""
    order = [term.index(label) for label in labels]
    value = value if order == sorted(order) else permuted(build, value, *order)
    return broadcast(build, value, tuple(sizes[label] for label in labels))


def _product(
    build: Builder, left: _Labelled, right: _Labelled, wanted: set[str], sizes: Mapping[str, int]
) -> _Labelled:
    """Multiply two operands as matrices, summed over the common labels that are not wanted."""
    (x, first), (y, second) = left, right
    both = [label for label in first if label in second]
    batch = "".join(label for label in both if label in wanted)
    summed = "".join(label for label in both if label not in wanted)
    rows = "".join(label for label in first if label not in second)
    columns = "".join(label for label in second if label not in first)
    groups = (batch, rows, summed, columns)
    batches, m, k, n = (math.prod(sizes[label] for label in group) for group in groups)
    x = reshaped(build, _ordered(build, x, first, batch + rows + summed, sizes), batches, m, k)
    y = reshaped(build, _ordered(build, y, second, batch + summed + columns, sizes), batches, k, n)
    labels = batch + rows + columns
    return reshaped(build, build("MatMul", x, y), *(sizes[label] for label in labels)), labels


def _einsum(build: Builder, call: Call) -> tuple[str, ...]:
    equation = _parsed(call)
    parts = [_diagonal(build, call.name(at), term) for at, term in enumerate(equation.terms)]
    while True:
        for at, (x, term) in enumerate(parts):
            others = "".join(labels for where, (_, labels) in enumerate(parts) if where != at)
            parts[at] = _summed(build, x, term, {*others, *equation.result})
        if len(parts) == 1:
            break
        wanted = {*equation.result, *"".join(labels for _, labels in parts[2:])}
        parts = [_product(build, parts[0], parts[1], wanted, equation.sizes), *parts[2:]]
    name, labels = parts[0]
    return (build("Identity", _ordered(build, name, labels, equation.result, equation.sizes)),)


@rule
def equation_fits(call: Call) -> str | None:
    """equation must have one term of letters and at most one ellipsis per operand, a label per axis, sizes
    that agree, and a result of labels that occur"""
    try:
        _parsed(call)
    except _Mistake as mistake:
        return f"{mistake} in '{call.string('equation')}'"
    return None


_T = Types("T", (*FLOATS, "int32", "int64"))
composite(
    name="Einsum",
    since=12,
    summary="Products of elements of all operands, summed over the labels that the result lacks",
    inputs=(Input("Inputs", _T, variadic=True),),
    outputs=(Output("Output", _T),),
    expansion=_einsum,
    attributes=(Attribute("equation", "string", required=True),),
    rules=(equation_fits,),
)
