"""Readers of model files: each gives the same typed graph (:mod:`compiler.graph`).

``load`` chooses the reader by the name of the file; the libraries of a format are imported with its reader.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from compiler.graph import Graph


def load(path: Path | str) -> Graph:
    """Read and check a graph: ``.onnx`` is ONNX, ``.pt2`` a program of torch.export, the rest graph.json.

    Raises GraphError; its text names the file or the operator that is at fault.
    """
    return reader(path)(path)


def reader(path: Path | str) -> Callable[[Path | str], Graph]:
    """The function that reads files with such a name; its libraries are imported."""
    suffix = Path(path).suffix.lower()
    if suffix == ".onnx":
        from compiler.frontend.onnx.importer import load_onnx

        return load_onnx
    if suffix == ".pt2":
        from .torch import load_pt2

        return load_pt2
    from compiler.frontend.json.reader import load_graph

    return load_graph
