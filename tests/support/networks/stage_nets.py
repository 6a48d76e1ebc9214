"""Networks of equal layers, which stages of a pipeline share."""

from __future__ import annotations

from compiler.graph import Graph
from compiler_harness import NodeSpec, draw, graph


def layers(count: int, batch: int, rows: int, width: int) -> Graph:
    """Two products each, with residuals."""
    nodes: list[NodeSpec] = []
    weights = {}
    for at in range(count):
        weights[f"up{at}"] = draw(width, 2 * width, seed=at) / width
        weights[f"down{at}"] = draw(2 * width, width, seed=at + 99) / width
        nodes += [
            ("MatMul", [f"x{at}", f"up{at}"], [f"u{at}"], {}),
            ("Relu", [f"u{at}"], [f"r{at}"], {}),
            ("MatMul", [f"r{at}", f"down{at}"], [f"d{at}"], {}),
            ("Add", [f"d{at}", f"x{at}"], [f"x{at + 1}" if at + 1 < count else "y"], {}),
        ]
    return graph(nodes, {"x0": (batch, rows, width)}, weights)
