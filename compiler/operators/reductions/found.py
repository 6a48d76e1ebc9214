"""Places that data decides: true elements and the order of rows, with room for the largest number of them.

Readers replace operators whose results have data-dependent sizes by these (``frontend/onnx/found``). Every
result has room for a known number of places; the places after those found are zeros.
"""

from __future__ import annotations

import numpy as np

from compiler.graph import Array, Graph, GraphError, Shape
from compiler.operators.record import Attribute, Call, Input, Operator, Output, register
from compiler.operators.types import ANY, BOOL, INT64, same_shape
from tx8isa.numbers.division import ceil_div

COUNTED = 64
"""Truth values that are counted together."""


def _counts_shape(call: Call) -> tuple[Shape, ...]:
    return ((ceil_div(call.shape(0)[0], COUNTED) + 1,),)


def _true_counts(call: Call, x: Array) -> tuple[Array, ...]:
    blocks = [int(np.count_nonzero(x[at : at + COUNTED])) for at in range(0, len(x), COUNTED)]
    return (np.cumsum(np.array([0, *blocks], np.int64)),)


register(
    Operator(
        name="TrueCounts",
        since=1,
        summary="How many of the first n x 64 truth values are true, and in the last place how many of all",
        inputs=(Input("X", BOOL),),
        outputs=(Output("counts", INT64),),
        shapes=_counts_shape,
        reference=_true_counts,
        internal=True,
    )
)


def _true_places(call: Call, x: Array, counts: Array, count: Array) -> tuple[Array, ...]:
    places = np.zeros(call.integer("room"), np.int64)
    found = np.flatnonzero(x)[: int(count.reshape(()))]
    places[: len(found)] = found
    return (places,)


register(
    Operator(
        name="TruePlaces",
        since=1,
        summary="The places of truth values that are true, in order; counts is the result of TrueCounts",
        inputs=(Input("X", BOOL), Input("counts", INT64), Input("count", INT64)),
        outputs=(Output("places", INT64),),
        attributes=(Attribute("room", "int", required=True, minimum=1),),
        shapes=lambda call: ((call.integer("room"),),),
        reference=_true_places,
        internal=True,
    )
)


def _true_ranks(call: Call, x: Array, counts: Array) -> tuple[Array, ...]:
    return (np.cumsum(x, dtype=np.int64) - 1,)


register(
    Operator(
        name="TrueRanks",
        since=1,
        summary="How many truth values up to each one (included) are true, less one; counts: of TrueCounts",
        inputs=(Input("X", BOOL), Input("counts", INT64)),
        outputs=(Output("ranks", INT64),),
        shapes=same_shape,
        reference=_true_ranks,
        internal=True,
    )
)


def _row_order(call: Call, x: Array) -> tuple[Array, ...]:
    return (np.lexsort(x.T[::-1]).astype(np.int64),)


register(
    Operator(
        name="RowOrder",
        since=1,
        summary="The numbers of the rows of a matrix in ascending order of their elements, of equal rows too",
        inputs=(Input("X", ANY),),
        outputs=(Output("order", INT64),),
        shapes=lambda call: (call.shape(0)[:1],),
        reference=_row_order,
        internal=True,
    )
)


def _bounded(call: Call, count: Array, limit: Array | None = None) -> tuple[Array, ...]:
    most = call.integer("most") if limit is None else min(int(limit.reshape(())), call.integer("most"))
    if not 0 <= int(count.reshape(())) <= most:
        found, more = int(count.reshape(())), call.integer("shown")
        raise GraphError([f"{found + more}{call.string('what')}{most + more}"])
    return (count,)


register(
    Operator(
        name="Bounded",
        since=1,
        summary="A number that must be from 0 to a bound; otherwise the program stops and says both",
        inputs=(Input("count", INT64), Input("limit", INT64, optional=True)),
        outputs=(Output("same", INT64),),
        attributes=(
            Attribute("most", "int", required=True, minimum=0),
            Attribute("what", "string", required=True),  # between the number and the bound
            Attribute("shown", "int", 0),  # the amount by which the shown numbers exceed both
        ),
        shapes=same_shape,
        reference=_bounded,
        internal=True,
    )
)


SIZED = "Sized"
"""The operator of outputs with data-dependent sizes."""


def sized_outputs(graph: Graph) -> list[str]:
    """Return the outputs of a graph with data-dependent sizes."""
    return [node.outputs[0] for node in graph.nodes if node.op == SIZED]


def _sized(call: Call, x: Array, *counts: Array) -> tuple[Array, ...]:
    sizes = list(x.shape)
    for axis, count in zip(call.integers("axes") or (), counts, strict=True):
        sizes[axis] = int(count.reshape(()))
    return (np.ascontiguousarray(x[tuple(slice(size) for size in sizes)]),)


register(
    Operator(
        name=SIZED,
        since=1,
        summary="An output of the graph: the valid part of a tensor, without gaps, with its size reported",
        inputs=(Input("X", ANY), Input("counts", INT64, variadic=True)),
        outputs=(Output("Y", ANY),),
        attributes=(
            Attribute("axes", "ints", required=True),  # whose extents are the counts
            Attribute("words", "ints", required=True),  # of the shape block, for the counts
        ),
        shapes=same_shape,
        reference=_sized,
        internal=True,
        at_run=True,
    )
)
