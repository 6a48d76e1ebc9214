"""Readers of model files: each gives the same typed graph (:mod:`compiler.graph`)."""

from __future__ import annotations

from pathlib import Path

from compiler.graph import Graph


def load(path: Path | str) -> Graph:
    """Read and check a graph: ``.onnx`` is ONNX, ``.pt2`` a program of torch.export, all else graph.json.

    Raises GraphError; its text names the file or the operator that is at fault.
    """
    if Path(path).suffix.lower() == ".onnx":
        from compiler.frontend.onnx.importer import load_onnx

        return load_onnx(path)
    if Path(path).suffix.lower() == ".pt2":
        from compiler.frontend.torch import load_pt2

        return load_pt2(path)
    from compiler.graph_json import load_graph

    return load_graph(path)
