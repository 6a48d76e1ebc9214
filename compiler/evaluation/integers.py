"""The permission for convolutions and sums of bytes to give integers near the exact ones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from compiler.graph import Graph

EXACT, NEAR = INTEGERS = ("exact", "near")
"""The integers that ONNX defines; or also their neighbours."""


def with_integers(graph: Graph, integers: str | None) -> Graph:
    """The graph with one of ``INTEGERS``; None leaves it unchanged. GraphError for another word."""
    if integers is None:
        return graph
    from compiler.graph import GraphError

    if integers not in INTEGERS:
        raise GraphError([f"integers={integers!r}: allowed are {', '.join(INTEGERS)}"])
    return replace(graph, near=integers == NEAR)
