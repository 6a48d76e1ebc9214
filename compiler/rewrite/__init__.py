"""Rewrites of a graph before it is compiled: patterns that exporters write out, as the operators they mean.

``REWRITES`` is the table, in the order in which they are tried at a node. Every rewrite keeps the graph's
results, up to the rounding of constants that are folded together.
"""

from __future__ import annotations

from compiler.graph import Graph

from . import (
    activations,
    affine,
    attention,
    heads,
    logsumexp,
    moves,
    norms,
    padding,
    pools,
    products,
    rotary,
    rotary_pairs,
)
from .engine import Rewrite, RewrittenGraph

REWRITES: tuple[Rewrite, ...] = (
    *moves.REWRITES,
    *norms.REWRITES,
    *activations.REWRITES,
    *rotary.REWRITES,
    *rotary_pairs.REWRITES,
    *attention.REWRITES,
    *heads.REWRITES,
    *affine.REWRITES,
    *padding.REWRITES,
    *products.REWRITES,
    *logsumexp.REWRITES,
)

LAST = (*pools.REWRITES, *moves.LATE)
"""Rewrites that run last, because other patterns contain the operators that they replace."""

__all__ = ["LAST", "REWRITES", "Rewrite", "RewrittenGraph", "rewrite_graph"]


def rewrite_graph(graph: Graph) -> Graph:
    """Rewrite a graph into fewer operators with the same inputs, outputs and results."""
    return RewrittenGraph(RewrittenGraph(graph).run(REWRITES)).run(LAST)
