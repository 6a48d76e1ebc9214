"""Einsum: products and sums over labelled axes, as transposes and matrix products; determinants."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from compiler.graph import FLOATS
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.expansion.parts import broadcast, permuted, reshaped, sliced
from compiler.operators.record import Attribute, Call, Input, Output, Types, rule
from compiler.operators.types import rank_within

#: Axes that ``...`` stands for are labelled from the last one on; digits are no labels of a user.
_ELLIPSIS = "0123456789"


@dataclass(frozen=True)
class _Equation:
    """The labels of every operand and of the result, one character an axis, and the size of each label."""

    terms: tuple[str, ...]
    result: str
    sizes: Mapping[str, int]


class _Mistake(Exception):
    """What is wrong with an equation."""


def _spread(term: str, rank: int) -> str:
    """A term with labels in the place of its ellipsis."""
    letters = term.replace("...", "")
    hidden = rank - len(letters)
    if not all(letter.isascii() and letter.isalpha() for letter in letters) or term.count("...") > 1:
        raise _Mistake(f"term '{term}'")
    if hidden < 0 or hidden > len(_ELLIPSIS) or (hidden and "..." not in term):
        raise _Mistake(f"term '{term}' for an operand of rank {rank}")
    return term.replace("...", _ELLIPSIS[:hidden][::-1])


def _sizes(terms: Sequence[str], call: Call) -> dict[str, int]:
    """The size of every label; one that ``...`` stands for may be 1 in some operands."""
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
    else:  # without a result: labels that occur once, in the order of the alphabet
        joined = "".join(terms)
        result = dots + "".join(sorted(label for label in set(joined) - {*dots} if joined.count(label) == 1))
    if len(set(result)) < len(result) or not set(result) <= set(sizes) or right.count("...") > 1:
        raise _Mistake(f"result '{right}'")
    return _Equation(terms, result, sizes)


def _diagonal(build: Builder, x: str, term: str) -> tuple[str, str]:
    """A label that an operand has twice names the diagonal of both axes."""
    while len(set(term)) < len(term):
        first = next(at for at, label in enumerate(term) if label in term[at + 1 :])
        second = term.index(term[first], first + 1)
        rest = [at for at in range(len(term)) if at not in (first, second)]
        x = permuted(build, x, *rest, first, second)
        *kept, size, _ = build.shape(x)
        flat = reshaped(build, x, *kept, size * size)
        x = sliced(build, flat, len(kept), 0, size * size, size + 1)
        term = "".join(term[at] for at in rest) + term[first]
    return x, term


def _summed(build: Builder, x: str, term: str, wanted: set[str]) -> tuple[str, str]:
    """Without the labels that nothing else has."""
    gone = tuple(at for at, label in enumerate(term) if label not in wanted)
    if not gone:
        return x, term
    return build("ReduceSum", x, axes=gone, keepdims=0), "".join(label for label in term if label in wanted)


def _ordered(build: Builder, x: str, term: str, labels: str, sizes: Mapping[str, int]) -> str:
    """The axes in another order, and those of size 1 that broadcast at their full size."""
    order = [term.index(label) for label in labels]
    x = x if order == sorted(order) else permuted(build, x, *order)
    return broadcast(build, x, tuple(sizes[label] for label in labels))


def _product(
    build: Builder, left: tuple[str, str], right: tuple[str, str], wanted: set[str], sizes: Mapping[str, int]
) -> tuple[str, str]:
    """Two operands become one by a product of matrices, summed over the labels that are not wanted."""
    (x, first), (y, second) = left, right
    both = [label for label in first if label in second]
    batch = "".join(label for label in both if label in wanted)
    summed = "".join(label for label in both if label not in wanted)
    rows = "".join(label for label in first if label not in second)
    columns = "".join(label for label in second if label not in first)
    b_, m, k, n = (math.prod(sizes[label] for label in group) for group in (batch, rows, summed, columns))
    x = reshaped(build, _ordered(build, x, first, batch + rows + summed, sizes), b_, m, k)
    y = reshaped(build, _ordered(build, y, second, batch + summed + columns, sizes), b_, k, n)
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

# --- determinants ----------------------------------------------------------------------------------------

MOST_ROWS = 64
"""Each step of the elimination is code of its own."""


def _det(build: Builder, call: Call) -> tuple[str, ...]:
    """Elimination with the largest element of the column as pivot."""
    *batch, rows, _ = call.shape(0)
    x = reshaped(build, call.name(0), math.prod(batch), rows, rows)
    result = build.constant(np.ones((math.prod(batch), 1, 1)), build.dtype(x))
    for size in range(rows, 1, -1):
        column = sliced(build, x, 2, 0, 1)
        at = build("TopIndices", build("Abs", column), axis=1, count=1)
        first = build("Equal", at, build.constant(np.array(0), "int64"))
        is_pivot = build("Equal", build.constant(np.arange(size).reshape(size, 1), "int64"), at)
        pivot_row = build("ReduceSum", build("Where", is_pivot, x, build.like(x, 0)), axes=(1,))
        pivot = sliced(build, pivot_row, 2, 0, 1)
        result = build("Mul", result, build("Where", first, pivot, build("Neg", pivot)))
        rest = sliced(build, build("Where", is_pivot, sliced(build, x, 1, 0, 1), x), 1, 1, size)
        divisor = build("Where", build("Equal", pivot, build.like(pivot, 0)), build.like(pivot, 1), pivot)
        factors = build("Div", sliced(build, rest, 2, 0, 1), divisor)
        x = build(
            "Sub",
            sliced(build, rest, 2, 1, size),
            build("Mul", factors, sliced(build, pivot_row, 2, 1, size)),
        )
    return (reshaped(build, build("Mul", result, x), *batch),)


@rule
def square_matrices(call: Call) -> str | None:
    """The last two axes must be equal, 1 to 64"""
    shape = call.shape(0)
    return None if shape[-1] == shape[-2] and 1 <= shape[-1] <= MOST_ROWS else f"shape {list(shape)}"


composite(
    name="Det",
    since=11,
    summary="Determinants of square matrices",
    inputs=(Input("X", Types("T", FLOATS)),),
    outputs=(Output("Y", Types("T", FLOATS)),),
    expansion=_det,
    rules=(rank_within("X", 2, None, "matrices"), square_matrices),
    precise=True,
)
