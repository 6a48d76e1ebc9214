"""Reductions over all positions of a convolution's result, as the pools that they are.

A convolution leaves its result in planes of channels. A reduction over axes of the graph would need another
order first. A pool reads the present order, and perhaps runs in the phase of the convolution.
"""

from __future__ import annotations

from compiler.dialect.orders import Order
from compiler.graph import Node
from compiler.lowering import LOWERINGS
from compiler.lowering.pointwise.record import POINTWISE
from compiler.operators.reductions.axes import reduced_axes

from .engine import Replacement, Rewrite, RewrittenGraph, replacement

_POOLS = {
    "ReduceMean": "GlobalAveragePool",
    "ReduceMax": "LargestPosition",
    "GlobalMaxPool": "LargestPosition",
}


def _pool_of_positions(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """A reduction of all axes but batch and channels, of an image with channels second or last."""
    image = node.inputs[0]
    order = tuple(range(len(graph.shape(image))))
    axes = order[2:] if node.op == "GlobalMaxPool" else reduced_axes(graph.call(node))
    moved = graph.producer(image, "Transpose")
    if moved is not None:
        image, order = moved.inputs[0], graph.call(moved).integers("perm") or order[::-1]
    kept = [axis for at, axis in enumerate(order) if at not in axes]
    if kept != [0, 1] or len(order) < 3 or not graph.tensor(image).is_float or not _in_planes(graph, image):
        return None
    build = graph.builder(node)
    pool = build(_POOLS[node.op], image)
    if graph.shape(pool) != graph.shape(node.outputs[0]):
        pool = build("Reshape", pool, build.ints(*graph.shape(node.outputs[0])))
    return replacement(build, pool)


def _in_planes(graph: RewrittenGraph, name: str) -> bool:
    """Return True if an operator with channels as the last axis in memory computes a value."""
    node = graph.producer(name, *LOWERINGS)
    while node is not None and node.op in POINTWISE:
        shape = graph.shape(node.outputs[0])
        same = (graph.producer(x, *LOWERINGS) for x in node.inputs if x and graph.shape(x) == shape)
        node = next((each for each in same if each is not None), None)
    return node is not None and LOWERINGS[node.op].order is Order.CHANNELS_LAST


REWRITES = (Rewrite("pool-of-positions", (*_POOLS,), _pool_of_positions),)
