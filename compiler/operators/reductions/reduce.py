"""Reductions: sums, means, extrema, norms over axes."""

from __future__ import annotations

import numpy as np

from compiler.graph import FLOATS, Array
from compiler.operators.boxes.forms import everywhere
from compiler.operators.expansion.composite import composite
from compiler.operators.record import (
    Attribute,
    Call,
    Expansion,
    Input,
    Operator,
    Output,
    Reference,
    Rule,
    Types,
    register,
)
from compiler.operators.types import FLOAT, INT64

from .axes import (
    axes_is_vector,
    axes_valid,
    reduced_axes,
    reduced_shapes,
    reduction_needs,
    something_to_average,
)
from .folds import (
    Fold,
    fold_by_halves,
    fold_l1,
    fold_l2,
    fold_log_sum,
    fold_log_sum_exp,
    fold_min,
    fold_sum_square,
    reduction,
)

_COMPARED = Types("T", (*FLOATS, "int8", "uint8", "int32", "uint32", "int64", "bool"))
_SUMMED = Types("T", (*FLOATS, "int32", "uint32", "int64"))


def _inputs(types: Types, axes_since: int) -> tuple[Input, ...]:
    """Return the operands; since operator set ``axes_since`` the axes are one of them."""
    axes = Input("axes", INT64, optional=True, constant=True, since=axes_since)
    return (Input("data", types), axes)


def _attributes(axes_since: int) -> tuple[Attribute, ...]:
    return (
        Attribute("axes", "ints", until=axes_since - 1),
        Attribute("keepdims", "int", 1, allowed=(0, 1)),
        Attribute("noop_with_empty_axes", "int", 0, allowed=(0, 1), since=axes_since),
    )


# --- reductions that have lowerings, for floats ----------------------------------------------------------


def _sum(call: Call, x: Array, axes: Array | None = None) -> tuple[Array, ...]:
    total = np.sum(x, axis=reduced_axes(call), dtype=x.dtype)
    return (np.asarray(total).reshape(reduced_shapes(call)[0]),)


def _mean(call: Call, x: Array, axes: Array | None = None) -> tuple[Array, ...]:
    return (np.asarray(np.mean(x, axis=reduced_axes(call))).reshape(reduced_shapes(call)[0]),)


def _lowest(x: Array) -> float | int | bool:
    """Return the maximum of no elements (ONNX ReduceMax): minus infinity, or the least number of the type."""
    if x.dtype.kind == "f":
        return -np.inf
    return False if x.dtype.kind == "b" else int(np.iinfo(x.dtype).min)


def _max(call: Call, x: Array, axes: Array | None = None) -> tuple[Array, ...]:
    largest = np.max(x, axis=reduced_axes(call), initial=_lowest(x))
    return (np.asarray(largest).reshape(reduced_shapes(call)[0]),)


def _lowered(
    name: str,
    summary: str,
    types: Types,
    axes_since: int,
    reference: Reference,
    expansion: Expansion | None = None,
    rules: tuple[Rule, ...] = (),
) -> None:
    register(
        Operator(
            name=name,
            since=1,
            summary=summary,
            inputs=_inputs(types, axes_since),
            outputs=(Output("reduced", types),),
            attributes=_attributes(axes_since),
            rules=(axes_is_vector, axes_valid, *rules),
            shapes=reduced_shapes,
            reference=reference,
            expansion=expansion,
            needs=reduction_needs,
            uniform=everywhere,
        )
    )


_lowered("ReduceSum", "Sum over axes", _SUMMED, 13, _sum, reduction("ReduceSum", None))
_lowered("ReduceMax", "Maximum over axes", _COMPARED, 18, _max, reduction("ReduceMax", None))
_lowered("ReduceMean", "Mean over axes", FLOAT, 18, _mean, rules=(something_to_average,))

# --- reductions in terms of these ------------------------------------------------------------------------


def _expanded(name: str, summary: str, types: Types, fold: Fold, precise: bool = False) -> None:
    composite(
        name=name,
        since=1,
        summary=summary,
        inputs=_inputs(types, 18),
        outputs=(Output("reduced", types),),
        expansion=reduction(name, fold),
        attributes=_attributes(18),
        rules=(axes_is_vector, axes_valid),
        precise=precise,
        uniform=everywhere,
    )


_expanded("ReduceMin", "Minimum over axes", _COMPARED, fold_min)
_expanded("ReduceProd", "Product over axes", _SUMMED, fold_by_halves("Mul"), precise=True)
_expanded("ReduceL1", "Sum of magnitudes over axes", _SUMMED, fold_l1)
_expanded("ReduceL2", "Root of the sum of squares over axes", FLOAT, fold_l2)
_expanded("ReduceSumSquare", "Sum of squares over axes", _SUMMED, fold_sum_square)
_expanded("ReduceLogSum", "Logarithm of the sum over axes", FLOAT, fold_log_sum)
_expanded("ReduceLogSumExp", "Logarithm of the sum of exponentials over axes", FLOAT, fold_log_sum_exp)
