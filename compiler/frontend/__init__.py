"""Readers of model files: each gives the same typed graph (:mod:`compiler.graph`)."""

from __future__ import annotations

from pathlib import Path

from compiler.graph import Graph


def load(path: Path | str) -> Graph:
    """Read and check a graph: ``.onnx`` is an ONNX model, anything else graph.json.

    Raises GraphError; its text names the file or the operator that is at fault.
    """
    if Path(path).suffix.lower() == ".onnx":
        from compiler.frontend.onnx.importer import load_onnx

        return load_onnx(path)
    from compiler.graph_json import load_graph

    return load_graph(path)
