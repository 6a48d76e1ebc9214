"""Expansions of reductions: of floats to sums and maxima, of integers and truth values by halves."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from compiler.graph import FLOATS
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.parts import folded, permuted, reshaped
from compiler.operators.record import Call, Expansion
from compiler.operators.types import SIGNED

from .axes import reduced_axes, reduced_shapes

Fold = Callable[[Builder, str, tuple[int, ...]], str]
"""Adds the nodes that reduce some axes of a value, which keep one element each; returns the result's name."""

_INTEGER_FOLDS = {
    "ReduceSum": "Add",
    "ReduceMax": "Max",
    "ReduceMin": "Min",
    "ReduceProd": "Mul",
    "ReduceL1": "Add",
    "ReduceSumSquare": "Add",
}
"""Reductions of integers, and the operator that combines two elements."""


def reduction(op: str, fold_floats: Fold | None) -> Expansion:
    """Return the expansion of a reduction; without ``fold_floats`` floats are left to a lowering."""

    def expansion(build: Builder, call: Call) -> tuple[str, ...] | None:
        x, axes = call.name(0), reduced_axes(call)
        dtype, (shape,) = call.tensor(0).dtype, reduced_shapes(call)
        if any(call.shape(0)[axis] == 0 for axis in axes):
            return (build.constant(np.full(shape, _of_nothing(op, dtype)), dtype),)
        if dtype == "bool":
            result = fold_by_halves("Or" if op == "ReduceMax" else "And")(build, x, axes)
        elif dtype in FLOATS:
            if fold_floats is None:
                return None
            result = fold_floats(build, x, axes)
        elif op in _INTEGER_FOLDS:
            x = build("Abs", x) if op == "ReduceL1" and dtype in SIGNED.allowed else x
            x = build("Mul", x, x) if op == "ReduceSumSquare" else x
            result = fold_by_halves(_INTEGER_FOLDS[op])(build, x, axes)
        else:
            return None
        return (result if call.integer("keepdims") or not axes else reshaped(build, result, *shape),)

    return expansion


def _of_nothing(op: str, dtype: str) -> float | int | bool:
    """Return the result of a reduction over no elements."""
    if op == "ReduceProd":
        return 1
    if op in ("ReduceMax", "ReduceMin"):
        sign = -1 if op == "ReduceMax" else 1
        if dtype in FLOATS:
            return sign * math.inf
        if dtype == "bool":
            return sign > 0
        return int(np.iinfo(dtype).min if sign < 0 else np.iinfo(dtype).max)
    return -math.inf if op.startswith("ReduceLog") else 0


def fold_by_halves(op: str) -> Fold:
    """Return a fold with a binary operator: the reduced axes become one axis, whose halves are combined."""

    def fold(build: Builder, value: str, axes: tuple[int, ...]) -> str:
        shape, rank = build.shape(value), len(build.shape(value))
        kept = [axis for axis in range(rank) if axis not in axes]
        moved = permuted(build, value, *kept, *axes) if axes else value
        sizes = [shape[axis] for axis in kept]
        flat = reshaped(build, moved, *sizes, math.prod(shape[axis] for axis in axes))
        kept_shape = (1 if axis in axes else size for axis, size in enumerate(shape))
        return reshaped(build, folded(build, flat, len(sizes), op), *kept_shape)

    return fold


# --- floats ----------------------------------------------------------------------------------------------


def _sum(build: Builder, value: str, axes: tuple[int, ...]) -> str:
    return build("ReduceSum", value, axes=axes) if axes else value


def fold_min(build: Builder, value: str, axes: tuple[int, ...]) -> str:
    return build("Neg", build("ReduceMax", build("Neg", value), axes=axes)) if axes else value


def fold_l1(build: Builder, value: str, axes: tuple[int, ...]) -> str:
    return _sum(build, build("Abs", value), axes)


def fold_sum_square(build: Builder, value: str, axes: tuple[int, ...]) -> str:
    return _sum(build, build("Mul", value, value), axes)


def fold_l2(build: Builder, value: str, axes: tuple[int, ...]) -> str:
    """Fold after dividing by the largest magnitude, if it is finite: no square overflows or vanishes."""
    if not axes:
        return build("Abs", value)
    largest = build("ReduceMax", build("Abs", value), axes=axes)
    unusable = (build("Equal", largest, build.like(value, number)) for number in (0, np.inf))
    scale = build("Where", build("Or", *unusable), build.like(value, 1), largest)
    return build("Mul", build("Sqrt", fold_sum_square(build, build("Div", value, scale), axes)), scale)


def fold_log_sum(build: Builder, value: str, axes: tuple[int, ...]) -> str:
    return build("Log", _sum(build, value, axes))


def fold_log_sum_exp(build: Builder, value: str, axes: tuple[int, ...]) -> str:
    """Fold after subtracting the largest element, unless it is infinite, so that no exponential overflows."""
    if not axes:
        return value
    largest = build("ReduceMax", value, axes=axes)
    infinite = build("Equal", build("Abs", largest), build.like(value, np.inf))
    largest = build("Where", infinite, build.like(value, 0), largest)
    total = _sum(build, build("Exp", build("Sub", value, largest)), axes)
    return build("Add", largest, build("Log", total))
