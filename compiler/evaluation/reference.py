"""The reference run: a graph computed in binary64, straight from the ONNX operator specification.

Compiled programs are judged against this. Nothing here knows how an operator is lowered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from compiler.graph import DTYPES, FLOAT_FORMATS, FLOATS, Array, Graph, GraphError, Node, Tensor
from compiler.operators import OPERATORS, call_of
from tx8isa.numbers.rounding import rounded
from tx8isa.tools.suggestions import hint

from .storage import STORAGE, within_range


def run_reference(
    graph: Graph, inputs: Mapping[str, Array], *, storage: str | None = None
) -> dict[str, Array]:
    """Compute the outputs of a graph by name.

    Float values are binary64 from the inputs to the outputs and are never rounded in between; integers and
    booleans are computed in their declared dtype and wrap. ``storage`` (a key of ``STORAGE``) rounds float
    inputs and constants (``within_range``) to that format first. Operands of quantised operators are
    excepted, because these compute in binary32 in every program. An input may come in another float dtype
    than declared: it is rounded to the declared one. Raises GraphError for missing, unknown or ill-shaped
    inputs.
    """
    if storage is not None and storage not in STORAGE:
        raise GraphError([f"unknown storage format {storage!r}; allowed are {', '.join(STORAGE)}"])
    names = {tensor.name for tensor in graph.inputs}
    for name in inputs:
        if name not in names:
            raise GraphError([f"graph {graph.name} has no input '{name}'{hint(name, names)}"])
    with np.errstate(all="ignore"):
        exact = _in_binary32(graph)
        values = {
            t.name: _widened(_accepted(t, inputs), None if t.name in exact else storage) for t in graph.inputs
        }
        values |= {
            name: _known(array, None if name in exact else storage) for name, array in graph.constants.items()
        }
        for node in graph.nodes:
            node = node if storage is None or not node.bodies else _with_stored_bodies(node, storage)
            operands = [values[name] if name else None for name in node.inputs]
            try:
                results = OPERATORS[node.op].reference(call_of(graph, node), *operands)
            except GraphError as error:
                raise GraphError([f"{node}: {text}" for text in error.messages]) from None
            values |= {name: result for name, result in zip(node.outputs, results, strict=False) if name}
    return {tensor.name: values[tensor.name] for tensor in graph.outputs}


def quantises(graph: Graph) -> bool:
    """Return True if a graph has operators that compute integers from floats."""
    return any(OPERATORS[node.op].quantised for node in graph.nodes)


def _in_binary32(graph: Graph) -> set[str]:
    """Inputs that are quantised, and constants that quantised operators alone read."""
    read = {name for node in graph.nodes if OPERATORS[node.op].quantised for name in node.inputs}
    others = {name for node in graph.nodes if not OPERATORS[node.op].quantised for name in node.inputs}
    return {name for name in read if name not in others or name not in graph.constants}


def _accepted(tensor: Tensor, inputs: Mapping[str, Array]) -> Array:
    """The array given for an input, in the declared dtype; GraphError unless it fits."""
    if tensor.name not in inputs:
        raise GraphError([f"input '{tensor.name}' is missing; it is {tensor.dtype} {list(tensor.shape)}"])
    array = np.asarray(inputs[tensor.name])
    if array.shape != tensor.shape:
        found = f"input '{tensor.name}' has shape {list(array.shape)}"
        raise GraphError([f"{found}; declared is {list(tensor.shape)}"])
    is_float = array.dtype.name in (*FLOATS, "float64")
    if array.dtype != DTYPES[tensor.dtype] and not (is_float and tensor.is_float):
        raise GraphError([f"input '{tensor.name}' is {array.dtype.name}; declared is {tensor.dtype}"])
    return rounded(array, FLOAT_FORMATS[tensor.dtype]) if tensor.is_float else array


def _widened(array: Array, storage: str | None) -> Array:
    """Floats rounded to the storage format, in binary64; other types unchanged."""
    if array.dtype.name not in FLOATS:
        return np.asarray(array)
    if storage is not None:
        array = rounded(array, STORAGE[storage])
    return array.astype(np.float64)


def _with_stored_bodies(node: Node, storage: str) -> Node:
    """A node of control flow whose graphs have constants rounded to the storage format."""
    return replace(node, bodies=tuple(_with_stored_constants(body, storage) for body in node.bodies))


def _with_stored_constants(graph: Graph, storage: str) -> Graph:
    constants = {name: _known(array, storage).astype(array.dtype) for name, array in graph.constants.items()}
    nodes = tuple(_with_stored_bodies(node, storage) for node in graph.nodes)
    return replace(graph, constants=constants, nodes=nodes)


def _known(array: Array, storage: str | None) -> Array:
    """A constant as :func:`_widened`, its range limited to the storage format's."""
    if storage is None or array.dtype.name not in FLOATS:
        return _widened(array, storage)
    return rounded(within_range(array, STORAGE[storage]), STORAGE[storage]).astype(np.float64)
