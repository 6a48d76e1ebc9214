"""Reductions."""

from __future__ import annotations

import numpy as np

from compiler.graph import FLOATS, INTEGERS, Array, Shape
from compiler.operators.record import (
    Attribute,
    Call,
    Input,
    Operator,
    Output,
    Reference,
    Rule,
    Types,
    register,
    rule,
)
from compiler.operators.types import FLOAT, INT64, axis_from_front

_SUMMED = Types("T", (*FLOATS, "int32", "int64"))
_COMPARED = Types("T", (*FLOATS, *INTEGERS, "bool"))


def _given_axes(call: Call) -> tuple[int, ...]:
    """The axes as the attribute (older operator sets) or the operand has them; none if absent."""
    return call.integers("axes") or call.value_ints(1) or ()


def reduced_axes(call: Call) -> tuple[int, ...]:
    """The axes to reduce, ascending, counted from the front."""
    given, rank = _given_axes(call), call.tensor(0).rank
    if given:
        return tuple(sorted(axis_from_front(axis, rank) for axis in given))
    return () if call.attrs.get("noop_with_empty_axes") else tuple(range(rank))


@rule
def axes_valid(call: Call) -> str | None:
    """axes must lie in [-r, r-1], r being the rank of data, and must not repeat"""
    given, rank = _given_axes(call), call.tensor(0).rank
    distinct = {axis_from_front(axis, rank) for axis in given}
    if len(distinct) == len(given) and all(0 <= axis < rank for axis in distinct):
        return None
    return f"axes {list(given)} with r = {rank}"


@rule
def axes_is_vector(call: Call) -> str | None:
    """The operand axes must have rank 1"""
    return None if not call.has(1) or call.tensor(1).rank == 1 else f"shape {list(call.shape(1))}"


@rule
def something_to_average(call: Call) -> str | None:
    """The reduced axes must not be empty: no elements have no mean"""
    empty = [axis for axis in reduced_axes(call) if call.shape(0)[axis] == 0]
    return f"shape {list(call.shape(0))} over axis {empty[0]}" if empty else None


def _shapes(call: Call) -> tuple[Shape, ...]:
    axes, keep = reduced_axes(call), call.integer("keepdims")
    sizes = enumerate(call.shape(0))
    return (tuple(1 if axis in axes else size for axis, size in sizes if keep or axis not in axes),)


def _sum(call: Call, x: Array, axes: Array | None = None) -> tuple[Array, ...]:
    total = np.sum(x, axis=reduced_axes(call), dtype=x.dtype)
    return (np.asarray(total).reshape(_shapes(call)[0]),)


def _mean(call: Call, x: Array, axes: Array | None = None) -> tuple[Array, ...]:
    return (np.asarray(np.mean(x, axis=reduced_axes(call))).reshape(_shapes(call)[0]),)


def _lowest(x: Array) -> float | int | bool:
    """What the maximum of no elements is (ONNX ReduceMax): minus infinity, or the least of the type."""
    if x.dtype.kind == "f":
        return -np.inf
    return False if x.dtype.kind == "b" else int(np.iinfo(x.dtype).min)


def _max(call: Call, x: Array, axes: Array | None = None) -> tuple[Array, ...]:
    largest = np.max(x, axis=reduced_axes(call), initial=_lowest(x))
    return (np.asarray(largest).reshape(_shapes(call)[0]),)


def _reduction(
    name: str,
    axes_operand_since: int,
    types: Types,
    summary: str,
    reference: Reference,
    rules: tuple[Rule, ...] = (),
) -> Operator:
    return register(
        Operator(
            name=name,
            since=1,
            summary=summary,
            inputs=(
                Input("data", types),
                Input("axes", INT64, optional=True, constant=True, since=axes_operand_since),
            ),
            outputs=(Output("reduced", types),),
            attributes=(
                Attribute("axes", "ints", until=axes_operand_since - 1),
                Attribute("keepdims", "int", 1, allowed=(0, 1)),
                Attribute("noop_with_empty_axes", "int", 0, allowed=(0, 1), since=axes_operand_since),
            ),
            rules=(axes_is_vector, axes_valid, *rules),
            shapes=_shapes,
            reference=reference,
        )
    )


REDUCE_SUM = _reduction("ReduceSum", 13, _SUMMED, "Sum over axes", _sum)
REDUCE_MEAN = _reduction("ReduceMean", 18, FLOAT, "Mean over axes", _mean, (something_to_average,))
REDUCE_MAX = _reduction("ReduceMax", 18, _COMPARED, "Maximum over axes", _max)
