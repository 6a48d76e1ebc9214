"""The largest and smallest elements along an axis, and their indices."""

from __future__ import annotations

import itertools

import numpy as np

from compiler.graph import Array, Box, Shape
from compiler.operators.boxes.forms import beside_axis, everywhere, whole_along
from compiler.operators.elements.casting import CAST_NUMBERS
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.expansion.parts import reshaped
from compiler.operators.record import (
    Attribute,
    Call,
    Expansion,
    Input,
    Operator,
    Output,
    Types,
    register,
    rule,
)
from compiler.operators.types import ANY, FLOAT, INT64, NUMERIC, axis_in_range, axis_of


def _top_shapes(call: Call) -> tuple[Shape, ...]:
    axis, shape = axis_of(call), call.shape(0)
    return ((*shape[:axis], call.integer("count"), *shape[axis + 1 :]),)


def _top_indices(call: Call, x: Array, k: Array | None = None) -> tuple[Array, ...]:
    """Sort stably by value; ``last`` prefers the last of equal elements.

    A NaN counts as the infinity that comes last. Elements with index k and above are zero.
    """
    axis, largest = axis_of(call), call.integer("largest")
    is_integer = x.dtype.kind in "biu"
    if not is_integer:
        x = np.where(np.isnan(x), -np.inf if largest else np.inf, x)
    if largest:
        x = ~x if is_integer else -x
    lanes = np.moveaxis(x, axis, -1)
    size = lanes.shape[-1]
    order = np.empty(lanes.shape, np.int64)
    for place in itertools.product(*(range(n) for n in lanes.shape[:-1])):
        sign = -1 if call.integer("last") else 1
        order[place] = np.lexsort((sign * np.arange(size), lanes[place]))
    order[..., size if k is None else int(k.reshape(())) :] = 0
    return (np.ascontiguousarray(np.moveaxis(order[..., : call.integer("count")], -1, axis)),)


def _needs_of_top(call: Call, number: int, box: Box) -> tuple[Box, ...]:
    rows = whole_along(box, call.shape(0), (axis_of(call),))
    return (rows, Box.whole(call.shape(1))) if call.has(1) else (rows,)


register(
    Operator(
        name="TopIndices",
        since=1,
        summary="Indices of the largest or smallest elements along an axis",
        inputs=(Input("X", ANY), Input("K", INT64, optional=True)),  # at most count
        outputs=(Output("Y", INT64),),
        attributes=(
            Attribute("axis", "int", -1),
            Attribute("count", "int", 1),
            Attribute("largest", "int", 1),
            Attribute("last", "int", 0),
        ),
        shapes=_top_shapes,
        reference=_top_indices,
        needs=_needs_of_top,
        internal=True,
    )
)


def _count(call: Call) -> int:
    """Return the constant operand K of a TopK."""
    return (call.value_ints(1) or (0,))[0]


@rule
def k_fits(call: Call) -> str | None:
    """K must be 1 to the size of the axis"""
    size = call.shape(0)[axis_of(call)]
    return None if 1 <= _count(call) <= size else f"K = {_count(call)} of {size}"


def _top_k(build: Builder, call: Call) -> tuple[str, ...]:
    x, axis, largest = call.name(0), call.integer("axis"), call.integer("largest")
    indices = build("TopIndices", x, axis=axis, count=_count(call), largest=largest)
    return (build("GatherElements", x, indices, axis=axis), indices)


composite(
    name="TopK",
    since=11,
    summary="The largest or smallest elements along an axis, in order, and their indices",
    inputs=(Input("X", NUMERIC), Input("K", INT64, constant=True)),
    outputs=(Output("Values", NUMERIC), Output("Indices", Types("I", ("int64",)))),
    expansion=_top_k,
    attributes=(
        Attribute("axis", "int", -1),
        Attribute("largest", "int", 1, allowed=(0, 1)),
        Attribute("sorted", "int", 1, allowed=(0, 1)),
    ),
    rules=(axis_in_range, k_fits),
    uniform=beside_axis,
)


@rule
def axis_has_elements(call: Call) -> str | None:
    """The axis must have an element"""
    axis = axis_of(call)
    return None if call.shape(0)[axis] else f"shape {list(call.shape(0))} with axis {axis}"


def _extreme_index(largest: int) -> Expansion:
    def expansion(build: Builder, call: Call) -> tuple[str, ...]:
        axis, last = axis_of(call), call.integer("select_last_index")
        index = build("TopIndices", call.name(0), axis=axis, count=1, largest=largest, last=last)
        if call.integer("keepdims"):
            return (index,)
        return (reshaped(build, index, *(size for at, size in enumerate(build.shape(index)) if at != axis)),)

    return expansion


def _register(name: str, summary: str, expansion: Expansion) -> None:
    composite(
        name=name,
        since=12,
        summary=summary,
        inputs=(Input("data", NUMERIC),),
        outputs=(Output("reduced", INT64),),
        expansion=expansion,
        attributes=(
            Attribute("axis", "int", 0),
            Attribute("keepdims", "int", 1, allowed=(0, 1)),
            Attribute("select_last_index", "int", 0, allowed=(0, 1)),
        ),
        rules=(axis_in_range, axis_has_elements),
        uniform=everywhere,
    )


_register("ArgMax", "Index of the largest element along an axis", _extreme_index(largest=1))
_register("ArgMin", "Index of the smallest element along an axis", _extreme_index(largest=0))


def _hardmax(build: Builder, call: Call) -> tuple[str, ...]:
    x, rank, axis = call.name(0), call.tensor(0).rank, axis_of(call)
    places = np.arange(call.shape(0)[axis]).reshape(-1, *(1,) * (rank - axis - 1))
    first = build("TopIndices", x, axis=axis, count=1)
    is_first = build("Equal", first, build.constant(places, "int64"))
    return (build("Cast", is_first, to=CAST_NUMBERS[build.dtype(x)]),)


composite(
    name="Hardmax",
    since=13,
    summary="1 at the first largest element along an axis, else 0",
    inputs=(Input("input", FLOAT),),
    outputs=(Output("output", FLOAT),),
    expansion=_hardmax,
    attributes=(Attribute("axis", "int", -1),),
    rules=(axis_in_range,),
)
