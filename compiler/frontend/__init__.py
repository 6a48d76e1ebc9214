"""Readers of model files: each gives the same typed graph (:mod:`compiler.graph`).

``load`` chooses the reader by the name of the file; the libraries of a format are imported with its reader.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from compiler.graph import Graph, GraphError

Reader = Callable[[Path | str], Graph]


def load(path: Path | str) -> Graph:
    """Read and check a graph: ``.onnx`` is ONNX, ``.pt2`` a program of torch.export, the rest graph.json.

    Raises GraphError; its text names the file or the operator that is at fault.
    """
    return reader(path)(path)


def reader(
    path: Path | str, shapes: Mapping[str, Sequence[int]] | None = None, batch: int | None = None
) -> Reader:
    """The function that reads files with such a name; its libraries are imported.

    ``shapes`` and ``batch`` bind free dimensions of an ONNX model (``onnx.binding``). GraphError when they
    are given for a file of another kind.
    """
    suffix = Path(path).suffix.lower()
    if suffix == ".onnx":
        from compiler.frontend.onnx.binding import Binding
        from compiler.frontend.onnx.importer import load_onnx

        return lambda path: load_onnx(path, Binding(shapes or {}, batch))
    if shapes or batch is not None:
        raise GraphError([f"{path}: shapes are bound in ONNX models; this file has none that are free"])
    if suffix == ".pt2":
        from .torch import load_pt2

        return load_pt2
    from compiler.frontend.json.reader import load_graph

    return load_graph
