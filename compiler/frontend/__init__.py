"""Readers of model files: each gives the same typed graph (:mod:`compiler.graph`).

``load`` chooses the reader by the content of the file; the libraries of a format come with its reader.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from compiler.graph import Graph, GraphError

from .formats import ONNX, STABLEHLO, TENSORFLOW, TORCH, format_of

if TYPE_CHECKING:
    from compiler.evaluation.survey import Survey


class Reader(Protocol):
    """Reads and checks a file; ``survey`` is filled with what becomes of each node."""

    def __call__(self, path: Path | str, survey: Survey | None = None) -> Graph: ...


def load(path: Path | str) -> Graph:
    """Read and check a model of a format that ``formats`` names: the content of the file says which.

    Raises GraphError; its text names the file, the operator that is at fault, or a format that is not read.
    """
    return reader(path)(path)


def reader(
    path: Path | str,
    shapes: Mapping[str, Sequence[int]] | None = None,
    batch: int | None = None,
    constants: Mapping[str, Any] | None = None,
    sizes: Mapping[str, int] | None = None,
    bounds: Mapping[str, int] | None = None,
) -> Reader:
    """The function that reads this file; its libraries are imported.

    ``shapes``, ``batch`` and ``sizes`` bind free dimensions of an ONNX model, ``constants`` its inputs,
    ``bounds`` what its nodes find and the steps of its loops (``onnx.binding``). GraphError when they are
    given for a file of another kind, and for a file of a format that is not read.
    """
    found = format_of(Path(path))
    if found == ONNX:
        from compiler.frontend.onnx.binding import Binding
        from compiler.frontend.onnx.importer import load_onnx

        binding = Binding(shapes or {}, batch, constants or {}, sizes or {}, bounds or {})
        return lambda path, survey=None: load_onnx(path, binding, survey)
    if shapes or batch is not None or sizes:
        raise GraphError([f"{path}: shapes are bound in ONNX models; this file has none that are free"])
    if bounds:
        raise GraphError([f"{path}: steps of loops are bounded in ONNX models; this is another file"])
    if constants:
        raise GraphError([f"{path}: values of inputs are bound in ONNX models; this is another file"])
    if found == TORCH:
        from .torch import load_pt2

        return load_pt2
    if found == STABLEHLO:
        from .stablehlo import load_stablehlo

        return load_stablehlo
    if found == TENSORFLOW:
        from .tensorflow import load_tensorflow

        return load_tensorflow
    from compiler.frontend.json.reader import load_graph

    return load_graph
