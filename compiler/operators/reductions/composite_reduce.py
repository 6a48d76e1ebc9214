"""Reductions in terms of sums and maxima of floats; of integers and truth values by halves."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from compiler.graph import FLOATS, INTEGERS
from compiler.operators.elements import (  # noqa: F401  (their records get expansions here)
    elementwise,
    pointwise,
)
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import Expansion, composite
from compiler.operators.expansion.parts import folded, permuted, reshaped
from compiler.operators.record import OPERATORS, Attribute, Call, Input, Output, Types
from compiler.operators.types import INT64

from .reduce import axes_is_vector, axes_valid, reduced_axes

Body = Callable[[Builder, str, tuple[int, ...]], str]
"""Folds axes of a value, which keep one element."""


def _sum(build: Builder, x: str, axes: tuple[int, ...]) -> str:
    return build("ReduceSum", x, axes=axes) if axes else x


def _l1(build: Builder, x: str, axes: tuple[int, ...]) -> str:
    return _sum(build, build("Abs", x), axes)


def _sum_square(build: Builder, x: str, axes: tuple[int, ...]) -> str:
    return _sum(build, build("Mul", x, x), axes)


def _l2(build: Builder, x: str, axes: tuple[int, ...]) -> str:
    """Scaled by the largest magnitude, so that no square overflows or vanishes."""
    if not axes:
        return build("Abs", x)
    largest = build("ReduceMax", build("Abs", x), axes=axes)
    nothing = build("Equal", largest, build.like(x, 0))
    scale = build("Where", nothing, build.like(x, 1), largest)
    return build("Mul", build("Sqrt", _sum_square(build, build("Div", x, scale), axes)), scale)


def _log_sum(build: Builder, x: str, axes: tuple[int, ...]) -> str:
    return build("Log", _sum(build, x, axes))


def _log_sum_exp(build: Builder, x: str, axes: tuple[int, ...]) -> str:
    """Less the largest element, so that nothing overflows; an infinite one is not subtracted."""
    if not axes:
        return x
    largest = build("ReduceMax", x, axes=axes)
    infinite = build("Equal", build("Abs", largest), build.like(x, np.inf))
    largest = build("Where", infinite, build.like(x, 0), largest)
    return build("Add", largest, build("Log", _sum(build, build("Exp", build("Sub", x, largest)), axes)))


def _min(build: Builder, x: str, axes: tuple[int, ...]) -> str:
    return build("Neg", build("ReduceMax", build("Neg", x), axes=axes)) if axes else x


def _halves(op: str) -> Body:
    def body(build: Builder, x: str, axes: tuple[int, ...]) -> str:
        """The reduced axes are brought together in one, which is folded."""
        shape, rank = build.shape(x), len(build.shape(x))
        kept = [axis for axis in range(rank) if axis not in axes]
        moved = permuted(build, x, *kept, *axes) if axes else x
        sizes = [shape[axis] for axis in kept]
        flat = reshaped(build, moved, *sizes, math.prod(shape[axis] for axis in axes))
        kept_shape = (1 if axis in axes else size for axis, size in enumerate(shape))
        return reshaped(build, folded(build, flat, len(sizes), op), *kept_shape)

    return body


def _nothing(op: str, dtype: str) -> float | int | bool:
    """The fold of no elements."""
    if op in ("ReduceProd",):
        return 1
    if op in ("ReduceMax", "ReduceMin"):
        sign = -1 if op == "ReduceMax" else 1
        if dtype in FLOATS:
            return sign * math.inf
        if dtype == "bool":
            return sign > 0
        return int(np.iinfo(dtype).min if sign < 0 else np.iinfo(dtype).max)
    return -math.inf if op.startswith("ReduceLog") else 0


_INTEGER_FOLDS = {
    "ReduceSum": "Add",
    "ReduceMax": "Max",
    "ReduceMin": "Min",
    "ReduceProd": "Mul",
    "ReduceL1": "Add",
    "ReduceSumSquare": "Add",
}


def _reduction(op: str, body: Body | None) -> Expansion:
    def expansion(build: Builder, call: Call) -> tuple[str, ...] | None:
        x, axes, shape = call.name(0), reduced_axes(call), call.shape(0)
        dtype, keep = call.tensor(0).dtype, bool(call.integer("keepdims"))
        kept = tuple(1 if at in axes else size for at, size in enumerate(shape) if keep or at not in axes)
        if any(shape[axis] == 0 for axis in axes):
            return (build.constant(np.full(kept, _nothing(op, dtype)), dtype),)
        if dtype == "bool":
            made = _halves("Or" if op == "ReduceMax" else "And")(build, x, axes)
        elif dtype in FLOATS:
            if body is None:
                return None
            made = body(build, x, axes)
        elif op in _INTEGER_FOLDS:
            x = build("Abs", x) if op == "ReduceL1" else build("Mul", x, x) if op == "ReduceSumSquare" else x
            made = _halves(_INTEGER_FOLDS[op])(build, x, axes)
        else:
            return None
        return (made if keep or not axes else reshaped(build, made, *kept),)

    return expansion


_SUMMED = Types("T", (*FLOATS, "int32", "int64"))
_COMPARED = Types("T", (*FLOATS, *INTEGERS, "bool"))


def _register(name: str, summary: str, types: Types, body: Body, precise: bool = False) -> None:
    composite(
        name=name,
        since=1,
        summary=summary,
        inputs=(Input("data", types), Input("axes", INT64, optional=True, constant=True, since=18)),
        outputs=(Output("reduced", types),),
        expansion=_reduction(name, body),
        attributes=(
            Attribute("axes", "ints", until=17),
            Attribute("keepdims", "int", 1, allowed=(0, 1)),
            Attribute("noop_with_empty_axes", "int", 0, allowed=(0, 1), since=18),
        ),
        rules=(axes_is_vector, axes_valid),
        precise=precise,
    )


_FLOATING = Types("T", FLOATS)
_register("ReduceMin", "Minimum over axes", _COMPARED, _min)
_register("ReduceProd", "Product over axes", _SUMMED, _halves("Mul"), precise=True)
_register("ReduceL1", "Sum of magnitudes over axes", _SUMMED, _l1)
_register("ReduceL2", "Root of the sum of squares over axes", _FLOATING, _l2)
_register("ReduceSumSquare", "Sum of squares over axes", _SUMMED, _sum_square)
_register("ReduceLogSum", "Logarithm of the sum over axes", _FLOATING, _log_sum)
_register("ReduceLogSumExp", "Logarithm of the sum of exponentials over axes", _FLOATING, _log_sum_exp)

# The lowerings of these take floats; the rest is expanded.
for _op in ("ReduceSum", "ReduceMax"):
    OPERATORS[_op] = replace(OPERATORS[_op], expansion=_reduction(_op, None))


def _of_integers(op: str) -> Expansion:
    def expansion(build: Builder, call: Call) -> tuple[str, ...] | None:
        if call.tensor(0).is_float:
            return None
        x, zero = call.name(0), build.like(call.name(0), 0)
        if op == "Relu":
            return (build("Max", x, zero),)
        negated = build("Sub", zero, x)
        return (negated if op == "Neg" else build("Max", x, negated),)

    return expansion


for _op in ("Relu", "Neg", "Abs"):
    OPERATORS[_op] = replace(OPERATORS[_op], expansion=_of_integers(_op))
