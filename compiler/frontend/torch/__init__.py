"""Programs of ``torch.export``, converted to ONNX by PyTorch's own exporter.

PyTorch is not a dependency of tx8: ``pip install torch onnxscript``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from compiler.graph import Graph

from .dimensions import names_of
from .library import import_torch
from .model import NAMES_FILE, TorchModel, open_exported, open_pt2

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from compiler.evaluation.survey import Survey

__all__ = [
    "NAMES_FILE",
    "TorchModel",
    "from_exported",
    "import_torch",
    "names_of",
    "open_exported",
    "open_pt2",
]


def from_exported(
    program: ExportedProgram, source: str = "torch.export", name: str = "torch", survey: Survey | None = None
) -> Graph:
    """Return the graph of a program that ``torch.export.export`` made, without free dimensions.

    See ``open_exported``, and ``TorchModel.graph`` for ``survey``.
    """
    return open_exported(program, source, name).graph(survey=survey)
