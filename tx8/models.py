"""Converts the models that ``tx8.compile`` takes to the typed graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from compiler.frontend import ModelFile
from compiler.frontend.stablehlo.jitted import JaxFunction, open_jax
from compiler.frontend.torch import TorchModel, open_exported
from compiler.graph import Graph, GraphError
from tx8.inputs.arrays import Trees
from tx8isa.tools.collector import seldom_collected

from .builder import GraphBuilder

if TYPE_CHECKING:
    from onnx import ModelProto

    from compiler.evaluation.sizes.ranges import Ranges
    from compiler.frontend.onnx.binding import Binding

Shapes = Mapping[str, Sequence[int]]
Constants = Mapping[str, Any]

_BOUND = {"dims": "dimensions", "constants": "inputs", "bounds": "loops"}
"""The bound thing for each argument of ``compile``, as messages name it."""


def opened(model: Any, examples: Sequence[Any] = ()) -> Any:
    """Open a model from which ``graph_of`` reads several graphs; PyTorch and JAX convert it only once."""
    if isinstance(model, str | Path):
        return ModelFile(model)
    kind = _kind(model)
    if isinstance(model, FunctionType | MethodType | partial) and not _tensors_of_torch(examples):
        kind = "jax"
    return {"torch": _torch, "jax": _jax}.get(kind, _as_it_is)(model, examples)


def check_ranges(model: Any, ranges: Ranges) -> None:
    """Check the ranges against an ``opened`` model; GraphError for sizes that the model cannot have."""
    if isinstance(model, ModelFile | TorchModel):
        model.check_ranges(ranges)


@seldom_collected()
def graph_of(
    model: Any,
    examples: Sequence[Any],
    shapes: Shapes | None,
    constants: Constants | None = None,
    sizes: Mapping[str, int] | None = None,
    bounds: Mapping[str, int] | None = None,
) -> Graph:
    """Return the typed graph of a model.

    A model is a path, an ONNX model (``ModelProto`` or its bytes), a program of ``torch.export``, a module of
    PyTorch with example inputs, a function of ``jax.jit`` with example arguments, one that JAX lowered or
    exported, a ``GraphBuilder`` or a ``Graph``. GraphError for anything else.

    ``shapes`` binds free dimensions of inputs of ONNX models and programs of PyTorch, ``constants`` the
    inputs that never change, by their names; ``sizes`` binds free dimensions by their own names. ``bounds``
    has the most steps of loops that collect results, and the most elements that nodes such as NonZero find,
    by the names of the nodes.
    """
    model = opened(model, examples)
    if isinstance(model, ModelFile):
        return model.reader(shapes, None, constants, sizes, bounds)(model.path)
    if isinstance(model, TorchModel):
        return model.graph(_binding(shapes, constants, sizes, bounds))
    if isinstance(model, JaxFunction):
        _check_unbound("function of JAX", {"dims": sizes, "constants": constants, "bounds": bounds})
        return model.graph()
    if isinstance(model, bytes | bytearray | memoryview):
        return _onnx(bytes(model), _binding(shapes, constants, sizes, bounds))
    kind = _kind(model)
    if kind == "onnx":
        return _onnx(_serialized(model), _binding(shapes, constants, sizes, bounds))
    _check_unbound(type(model).__name__, {"dims": sizes, "constants": constants, "bounds": bounds})
    if isinstance(model, Graph):
        return model
    if isinstance(model, GraphBuilder):
        return model.build()
    taken = (
        "a path, an onnx.ModelProto or its bytes, a program of torch.export, "
        "a torch.nn.Module or a function of JAX (jax.jit) with examples="
    )
    found = f"a model of type {type(model).__name__}"
    raise GraphError([f"{found}; expected {taken}, a tx8.GraphBuilder or a compiler.graph.Graph"])


def _check_unbound(model: str, given: Mapping[str, Any]) -> None:
    """Raise GraphError for arguments about free dimensions or named inputs that the model does not have."""
    for name, value in given.items():
        if value:
            what = f"{name}= is for {_BOUND[name]} of ONNX models and programs of torch.export"
            raise GraphError([f"{what}; this is a {model}"])


def _kind(model: Any) -> str:
    """Return the name of the library that a model belongs to, without importing it."""
    homes = {base.__module__.partition(".")[0] for base in type(model).__mro__}
    found = next((name for name in ("onnx", "torch", "jax", "jaxlib") if name in homes), "")
    return found.removesuffix("lib")


def _binding(
    shapes: Shapes | None,
    constants: Constants | None,
    sizes: Mapping[str, int] | None,
    bounds: Mapping[str, int] | None,
) -> Binding:
    from compiler.frontend.onnx.binding import Binding

    return Binding(shapes or {}, None, constants or {}, sizes or {}, bounds or {})


def _onnx(data: bytes, binding: Binding) -> Graph:
    from compiler.frontend.onnx.importer import graph_of_bytes

    return graph_of_bytes(data, "<model>", binding)


def _serialized(model: ModelProto) -> bytes:
    if not hasattr(model, "graph"):
        raise GraphError([f"an onnx.{type(model).__name__}; expected an onnx.ModelProto"])
    return bytes(model.SerializeToString())


def _torch(model: Any, examples: Sequence[Any]) -> TorchModel:
    if hasattr(model, "graph_signature"):
        return open_exported(model)
    if not examples:
        raise GraphError([f"{type(model).__name__}: a module of PyTorch needs example inputs: examples=(x,)"])
    import torch

    name = type(model).__name__
    return open_exported(torch.export.export(model.eval(), tuple(examples)), name, name)


def _tensors_of_torch(examples: Any) -> bool:
    """Return True if a function's example arguments are tensors of PyTorch."""
    return isinstance(examples, tuple | list) and any(_kind(each) == "torch" for each in examples)


def _as_it_is(model: Any, _: Sequence[Any]) -> Any:
    return model


def _jax(model: Any, examples: Sequence[Any]) -> JaxFunction:
    if not isinstance(examples, tuple | list):
        raise GraphError([f"examples are {type(examples).__name__}; expected a tuple of arguments: (x,)"])
    return open_jax(model, examples)


def trees_of(model: Any, graph: Graph) -> Trees | None:
    """Return the trees of an ``opened`` function of JAX; None for any other model."""
    if not isinstance(model, JaxFunction):
        return None
    names = dict(zip(model.leaves_with_inputs(), (tensor.name for tensor in graph.inputs), strict=True))
    return Trees(
        model.arguments, [names.get(leaf) for leaf in range(model.arguments.num_leaves)], model.results
    )


def kept_between_runs(
    graph: Graph, state: Mapping[str, str], replaceable: Sequence[str], ranged: bool
) -> Graph:
    """Mark the graph's states, and the constants that sessions may replace."""
    from compiler.evaluation.states import with_states
    from compiler.passes.graph_operations import with_replaceable

    stated = with_states(graph, state, ranged)
    return with_replaceable(stated, replaceable) if replaceable else stated


def known_dims(
    dims: Mapping[str, Sequence[int] | str | int] | None, state: Mapping[str, str] | None
) -> Ranges:
    """Return the caller's size or range of each free dimension."""
    from compiler.evaluation.sizes.ranges import ranges_of

    return ranges_of(dims or {}, bool(state))
