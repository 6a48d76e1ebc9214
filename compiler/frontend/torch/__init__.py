"""Programs of ``torch.export``, converted to ONNX by PyTorch's own exporter.

PyTorch is not a dependency of tx8: ``pip install torch onnxscript``.
"""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compiler.graph import Graph, GraphError

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from compiler.evaluation.survey import Survey


def load_pt2(path: Path | str, survey: Survey | None = None) -> Graph:
    """Read and check what ``torch.export.save`` wrote.

    GraphError names the file, or the operator that is not supported. The file is unpickled by PyTorch: do not
    read one that you do not trust.
    """
    path = Path(path)
    try:
        path.open("rb").close()
    except OSError as error:
        raise GraphError([f"{path}: cannot be read: {error.strerror}"]) from None
    torch = import_torch(str(path))
    try:
        with _silence():
            program = torch.export.load(path)
    except Exception as error:  # PyTorch raises errors of many kinds for a damaged file
        raise GraphError([f"{path}: not a program of torch.export: {_first_line(error)}"]) from None
    return from_exported(program, str(path), path.stem, survey)


def from_exported(
    program: ExportedProgram, source: str = "torch.export", name: str = "torch", survey: Survey | None = None
) -> Graph:
    """The graph of a program that ``torch.export.export`` made of a module and sample inputs.

    Its inputs have the shapes of the samples; ``source`` is what messages start with. ``survey`` is
    filled with what became of each node. GraphError for what PyTorch cannot write as ONNX and for what is not
    supported.
    """
    from compiler.frontend.onnx.importer import load_onnx

    torch = import_torch(source)
    with tempfile.TemporaryDirectory(prefix="tx8cc-") as folder:
        file = Path(folder) / "torch.onnx"
        try:
            with _silence():
                exported = torch.onnx.export(program, dynamo=True, verbose=False)
                exported.save(file, external_data=True)
        except Exception as error:  # the exporter raises errors of many classes
            text = f"PyTorch cannot write it as ONNX: {_cause(error)}"
            raise GraphError([f"{source}: {text}{_remedy(text)}"]) from None
        try:
            return replace(load_onnx(file, survey=survey), name=name, files=())
        except GraphError as error:
            raise GraphError([text.replace(str(file), source) for text in error.messages]) from None


def import_torch(source: str) -> Any:
    """PyTorch; GraphError that says how to install it."""
    try:
        import onnxscript  # noqa: F401  (PyTorch's exporter is written in it)
        import torch
        import torch.export
        import torch.onnx
    except ImportError as error:
        wanted = (
            f"reading it needs PyTorch: pip install torch onnxscript ({error.name or error} is not installed)"
        )
        raise GraphError([f"{source}: {wanted}"]) from None
    return torch


@contextmanager
def _silence() -> Iterator[None]:
    """Suppress the messages of PyTorch."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.export", "onnxscript")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def _cause(error: BaseException) -> str:
    """The text of the innermost error; the outer ones describe the exporter's steps."""
    while error.__cause__ is not None:
        error = error.__cause__
    return _first_line(error)


_FAST_PATHS = ("_transformer_encoder_layer_fwd", "_native_multi_head_attention")
"""Operators into which PyTorch turns a whole layer where nothing needs a gradient."""


def _remedy(cause: str) -> str:
    fast = any(name in cause for name in _FAST_PATHS)
    return "; call torch.backends.mha.set_fastpath_enabled(False)" if fast else ""


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines()]
    return next((line for line in lines if line), type(error).__name__)
