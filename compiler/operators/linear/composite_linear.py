"""Einsum: products and sums over labelled axes, as transposes and matrix products; determinants."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from compiler.graph import FLOATS
from compiler.operators.expansion import Builder
from compiler.operators.parts import broadcast, cut, permuted, reshaped
from compiler.operators.record import Attribute, Call, Input, Output, Types, rule
from compiler.operators.shapes.composite_shapes import _operator, name_of
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


def _diagonal(b: Builder, x: str, term: str) -> tuple[str, str]:
    """A label that an operand has twice names the diagonal of both axes."""
    while len(set(term)) < len(term):
        first = next(at for at, label in enumerate(term) if label in term[at + 1 :])
        second = term.index(term[first], first + 1)
        rest = [at for at in range(len(term)) if at not in (first, second)]
        x = permuted(b, x, *rest, first, second)
        *kept, size, _ = b.shape(x)
        flat = reshaped(b, x, *kept, size * size)
        x = cut(b, flat, len(kept), 0, size * size, size + 1)
        term = "".join(term[at] for at in rest) + term[first]
    return x, term


def _summed(b: Builder, x: str, term: str, wanted: set[str]) -> tuple[str, str]:
    """Without the labels that nothing else has."""
    gone = tuple(at for at, label in enumerate(term) if label not in wanted)
    if not gone:
        return x, term
    return b("ReduceSum", x, axes=gone, keepdims=0), "".join(label for label in term if label in wanted)


def _ordered(b: Builder, x: str, term: str, labels: str, sizes: Mapping[str, int]) -> str:
    """The axes in another order, and those of size 1 that broadcast at their full size."""
    order = [term.index(label) for label in labels]
    x = x if order == sorted(order) else permuted(b, x, *order)
    return broadcast(b, x, tuple(sizes[label] for label in labels))


def _product(
    b: Builder, left: tuple[str, str], right: tuple[str, str], wanted: set[str], sizes: Mapping[str, int]
) -> tuple[str, str]:
    """Two operands become one by a product of matrices, summed over the labels that are not wanted."""
    (x, first), (y, second) = left, right
    both = [label for label in first if label in second]
    batch = "".join(label for label in both if label in wanted)
    summed = "".join(label for label in both if label not in wanted)
    rows = "".join(label for label in first if label not in second)
    columns = "".join(label for label in second if label not in first)
    b_, m, k, n = (math.prod(sizes[label] for label in group) for group in (batch, rows, summed, columns))
    x = reshaped(b, _ordered(b, x, first, batch + rows + summed, sizes), b_, m, k)
    y = reshaped(b, _ordered(b, y, second, batch + summed + columns, sizes), b_, k, n)
    labels = batch + rows + columns
    return reshaped(b, b("MatMul", x, y), *(sizes[label] for label in labels)), labels


def _einsum(b: Builder, call: Call) -> tuple[str, ...]:
    equation = _parsed(call)
    parts = [_diagonal(b, name_of(call, at), term) for at, term in enumerate(equation.terms)]
    while True:
        for at, (x, term) in enumerate(parts):
            others = "".join(labels for where, (_, labels) in enumerate(parts) if where != at)
            parts[at] = _summed(b, x, term, {*others, *equation.result})
        if len(parts) == 1:
            break
        wanted = {*equation.result, *"".join(labels for _, labels in parts[2:])}
        parts = [_product(b, parts[0], parts[1], wanted, equation.sizes), *parts[2:]]
    name, labels = parts[0]
    return (b("Identity", _ordered(b, name, labels, equation.result, equation.sizes)),)


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
_operator(
    "Einsum",
    12,
    "Products of elements of all operands, summed over the labels that the result lacks",
    (Input("Inputs", _T, variadic=True),),
    (Output("Output", _T),),
    _einsum,
    (Attribute("equation", "string", required=True),),
    (equation_fits,),
)

# --- determinants ----------------------------------------------------------------------------------------

MOST_ROWS = 64
"""Each step of the elimination is code of its own."""


def _det(b: Builder, call: Call) -> tuple[str, ...]:
    """Elimination with the largest element of the column as pivot."""
    *batch, rows, _ = call.shape(0)
    x = reshaped(b, name_of(call, 0), math.prod(batch), rows, rows)
    result = b.constant(np.ones((math.prod(batch), 1, 1)), b.dtype(x))
    for size in range(rows, 1, -1):
        column = cut(b, x, 2, 0, 1)
        at = b("TopIndices", b("Abs", column), axis=1, count=1)
        first = b("Equal", at, b.constant(np.array(0), "int64"))
        is_pivot = b("Equal", b.constant(np.arange(size).reshape(size, 1), "int64"), at)
        pivot_row = b("ReduceSum", b("Where", is_pivot, x, b.like(x, 0)), axes=(1,))
        pivot = cut(b, pivot_row, 2, 0, 1)
        result = b("Mul", result, b("Where", first, pivot, b("Neg", pivot)))
        rest = cut(b, b("Where", is_pivot, cut(b, x, 1, 0, 1), x), 1, 1, size)
        divisor = b("Where", b("Equal", pivot, b.like(pivot, 0)), b.like(pivot, 1), pivot)
        factors = b("Div", cut(b, rest, 2, 0, 1), divisor)
        x = b("Sub", cut(b, rest, 2, 1, size), b("Mul", factors, cut(b, pivot_row, 2, 1, size)))
    return (reshaped(b, b("Mul", result, x), *batch),)


@rule
def square_matrices(call: Call) -> str | None:
    """The last two axes must be equal, 1 to 64"""
    shape = call.shape(0)
    return None if shape[-1] == shape[-2] and 1 <= shape[-1] <= MOST_ROWS else f"shape {list(shape)}"


_operator(
    "Det",
    11,
    "Determinants of square matrices",
    (Input("X", Types("T", FLOATS)),),
    (Output("Y", Types("T", FLOATS)),),
    _det,
    rules=(rank_within("X", 2, None, "matrices"), square_matrices),
    precise=True,
)
