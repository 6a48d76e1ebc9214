"""The compiler: translates a graph of ONNX operators to tx8 assembly and a program image.

    compiler.compile("model.onnx", dtype="fp16") -> Program

xDSL and NumPy are imported on first use, so that ``import compiler`` is fast.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tx8isa.machine.description import Machine

    from .driver import Program
    from .graph import Graph

__all__ = ["compile"]


def compile(
    graph: Graph | str | Path,
    dtype: str | None = None,
    tiles: int | None = None,
    machine: Machine | None = None,
    patterns: str = "default",
    search: str = "fast",
    residency: str = "on",
) -> Program:
    """Compile a graph, or the ONNX model or graph.json at a path.

    ``dtype`` is fp32, tf32, fp16 or bf16, by default the graph's own; ``tiles`` is how many tiles take part,
    by default 16; ``machine`` is by default the TX81. ``patterns``, ``search`` and ``residency`` are the
    options of tx8cc with these names (docs/groups.md). GraphError for a graph that is wrong or cannot be
    compiled.
    """
    from .driver import compile_graph
    from .frontend import load
    from .graph import Graph, GraphError

    loaded = load(graph) if isinstance(graph, str | Path) else graph
    if not isinstance(loaded, Graph):
        found = type(loaded).__name__
        raise GraphError(
            [f"a graph or a path is compiled, not {found}: tx8.compile takes other models as well"]
        )
    return compile_graph(loaded, dtype, tiles, machine, patterns=patterns, search=search, residency=residency)
