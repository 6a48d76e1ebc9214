"""Readers of model files: each makes the same typed graph (:mod:`compiler.graph`).

``load`` chooses the reader by the content of the file; the libraries of a format come with its reader.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from compiler.graph import Graph, GraphError

from .formats import ONNX, STABLEHLO, TENSORFLOW, TORCH, format_of

if TYPE_CHECKING:
    from compiler.evaluation.sizes.ranges import Ranges
    from compiler.evaluation.survey import Survey

    from .torch import TorchModel


class Reader(Protocol):
    """Reads and checks a file; ``survey`` receives the fate of each node."""

    def __call__(self, path: Path | str, survey: Survey | None = None) -> Graph: ...


def load(path: Path | str) -> Graph:
    """Read and check a model of a format that ``formats`` names; the content of the file shows the format.

    Raises GraphError; its text names the file, the operator that is at fault, or a format that is not read.
    """
    return ModelFile(path).reader()(path)


class ModelFile:
    """A file of a model, whose graph is read at one size or at several; PyTorch converts a program once."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    @cached_property
    def _torch_model(self) -> TorchModel:
        from .torch import open_pt2

        return open_pt2(self.path)

    def check_ranges(self, ranges: Ranges) -> None:
        """Raise GraphError for ranges with sizes that the model says it cannot have."""
        if format_of(self.path) == TORCH:
            self._torch_model.check_ranges(ranges)

    def reader(
        self,
        shapes: Mapping[str, Sequence[int]] | None = None,
        batch: int | None = None,
        constants: Mapping[str, Any] | None = None,
        sizes: Mapping[str, int] | None = None,
        bounds: Mapping[str, int] | None = None,
    ) -> Reader:
        """Return the function that reads this file; its libraries are imported.

        ``shapes``, ``batch`` and ``sizes`` bind free dimensions of an ONNX model or a program of
        ``torch.export``; ``constants`` its inputs; ``bounds`` the number of elements that nodes find and the
        steps of loops (``onnx.binding``). GraphError when they are given for a file of another kind, and for
        a file of a format that is not read.
        """
        found = format_of(self.path)
        if found in (ONNX, TORCH):
            from .onnx.binding import Binding
            from .onnx.importer import load_onnx

            binding = Binding(shapes or {}, batch, constants or {}, sizes or {}, bounds or {})
            if found == TORCH:
                return lambda path, survey=None: self._torch_model.graph(binding, survey)
            return lambda path, survey=None: load_onnx(path, binding, survey)
        bindable = "in ONNX models and programs of torch.export"
        if shapes or batch is not None or sizes:
            raise GraphError([f"{self.path}: shapes are bound {bindable}; this file has none that are free"])
        if bounds:
            raise GraphError([f"{self.path}: steps of loops are bounded {bindable}; this is another file"])
        if constants:
            raise GraphError([f"{self.path}: values of inputs are bound {bindable}; this is another file"])
        return _plain_reader(found)


def _plain_reader(found: str) -> Reader:
    """Return the function that reads files of a format without free dimensions."""
    if found == STABLEHLO:
        from .stablehlo import load_stablehlo

        return load_stablehlo
    if found == TENSORFLOW:
        from .tensorflow import load_tensorflow

        return load_tensorflow
    from .json.reader import load_graph

    return load_graph
