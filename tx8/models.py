"""What ``tx8.compile`` takes as a model, as the typed graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compiler.graph import Graph, GraphError

from .builder import GraphBuilder

if TYPE_CHECKING:
    from onnx import ModelProto

Shapes = Mapping[str, Sequence[int]]


def graph_of(model: Any, examples: Sequence[Any], shapes: Shapes | None) -> Graph:
    """The graph of a path, an ONNX model (``ModelProto`` or its bytes), a program of ``torch.export``, a
    module of PyTorch with example inputs, a ``GraphBuilder`` or a ``Graph``. GraphError for anything else.

    ``shapes`` binds free dimensions of ONNX inputs, by the input's name.
    """
    if isinstance(model, Graph):
        return model
    if isinstance(model, GraphBuilder):
        return model.build()
    if isinstance(model, str | Path):
        from compiler.frontend import reader

        return reader(model, shapes)(model)
    if isinstance(model, bytes | bytearray | memoryview):
        return _onnx(bytes(model), shapes)
    kind = _kind(model)
    if kind == "onnx":
        return _onnx(_serialized(model), shapes)
    if kind == "torch":
        return _torch(model, examples)
    taken = (
        "a path, an onnx.ModelProto or its bytes, a program of torch.export, a torch.nn.Module with examples="
    )
    found = f"a model of type {type(model).__name__}"
    raise GraphError([f"{found}; expected {taken}, a tx8.GraphBuilder or a compiler.graph.Graph"])


def _kind(model: Any) -> str:
    """Which library a model belongs to, without importing it."""
    homes = {base.__module__.partition(".")[0] for base in type(model).__mro__}
    return next((name for name in ("onnx", "torch") if name in homes), "")


def _onnx(data: bytes, shapes: Shapes | None) -> Graph:
    from compiler.frontend.onnx.binding import Binding
    from compiler.frontend.onnx.importer import graph_of_bytes

    return graph_of_bytes(data, "<model>", Binding(shapes or {}))


def _serialized(model: ModelProto) -> bytes:
    if not hasattr(model, "graph"):
        raise GraphError([f"an onnx.{type(model).__name__}; expected an onnx.ModelProto"])
    return bytes(model.SerializeToString())


def _torch(model: Any, examples: Sequence[Any]) -> Graph:
    from compiler.frontend.torch import from_exported

    if hasattr(model, "graph_signature"):
        return from_exported(model)
    if not examples:
        raise GraphError([f"{type(model).__name__}: a module of PyTorch needs example inputs: examples=(x,)"])
    import torch

    name = type(model).__name__
    return from_exported(torch.export.export(model.eval(), tuple(examples)), name, name)
