"""Which integers convolutions and sums of bytes may give."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from compiler.graph import Graph

EXACT, NEAR = INTEGERS = ("exact", "near")
"""Those that ONNX defines, or those and the ones beside them."""


def with_integers(graph: Graph, integers: str | None) -> Graph:
    """The graph with one of ``INTEGERS``; None leaves it as it is. GraphError for another word."""
    if integers is None:
        return graph
    from compiler.graph import GraphError

    if integers not in INTEGERS:
        raise GraphError([f"integers={integers!r}: allowed are {', '.join(INTEGERS)}"])
    return replace(graph, near=integers == NEAR)
