"""The reference run: a graph computed in binary64, straight from the ONNX operator specification.

Compiled programs are judged against this. Nothing here knows how an operator is lowered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from compiler.graph import DTYPES, FLOATS, Array, Graph, GraphError, Tensor, rounded
from compiler.operators import OPERATORS, call_of
from tx8isa.tools.suggestions import hint


def _through(dtype: str) -> Callable[[Array], Array]:
    return lambda values: rounded(values, dtype).astype(np.float64)


def round_to_tf32(values: Array) -> Array:
    """Round float32 values to TF32 (8 exponent, 10 fraction bits), nearest even; the result is binary64."""
    single = np.asarray(values, np.float32)
    bits = single.view(np.uint32).astype(np.uint64)
    kept = (bits + 0x0FFF + ((bits >> 13) & 1)) & 0xFFFFE000
    result = kept.astype(np.uint32).view(np.float32)
    return np.asarray(np.where(np.isnan(single), np.nan, result), np.float64)


#: Storage formats of ``tx8cc --dtype`` and how a float value is rounded to each.
STORAGE: dict[str, Callable[[Array], Array]] = {
    "fp32": _through("float32"),
    "tf32": round_to_tf32,
    "fp16": _through("float16"),
    "bf16": _through("bfloat16"),
}

_LARGEST = {
    "fp32": float(np.finfo(np.float32).max),
    "tf32": float.fromhex("0x1.ffcp127"),
    "fp16": 65504.0,
    "bf16": float.fromhex("0x1.fep127"),
}
"""The largest finite number of each format."""

_SMALLEST = {"fp32": 2.0**-149, "tf32": 2.0**-136, "fp16": 2.0**-24, "bf16": 2.0**-133}
"""The smallest number above 0 of each format."""


def within_range(values: Array, storage: str) -> Array:
    """Finite numbers that a storage format does not reach become its largest ones, a tiny one its smallest.

    Exporters write masks as 0 or 1 times the lowest FP32 number: times an infinity they would be NaN. And
    a number by itself that would become 0 is there to keep a divisor or the operand of a Log from being 0.
    """
    largest, smallest = _LARGEST[storage], _SMALLEST[storage]
    if values.size == 1 and 0.0 < abs(float(values.reshape(()))) < smallest:
        return np.copysign(smallest, values).astype(np.float64)
    if values.size == 0 or (float(values.max()) <= largest and float(values.min()) >= -largest):
        return values
    wide = values.astype(np.float64)
    return np.where(np.isinf(wide), wide, np.clip(wide, -largest, largest))


def run_reference(
    graph: Graph, inputs: Mapping[str, Array], *, storage: str | None = None
) -> dict[str, Array]:
    """Compute the outputs of a graph by name.

    Float values are binary64 from the inputs to the outputs and are never rounded in between; integers and
    booleans are computed in their declared dtype and wrap. ``storage`` (a key of ``STORAGE``) rounds float
    inputs and constants (``within_range``) to that format first. An input may come in another float dtype
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
        values = {t.name: _widened(_accepted(t, inputs), storage) for t in graph.inputs}
        values |= {name: _known(array, storage) for name, array in graph.constants.items()}
        for node in graph.nodes:
            operands = [values[name] if name else None for name in node.inputs]
            try:
                results = OPERATORS[node.op].reference(call_of(graph, node), *operands)
            except GraphError as error:
                raise GraphError([f"{node}: {text}" for text in error.messages]) from None
            values |= {name: result for name, result in zip(node.outputs, results, strict=False) if name}
    return {tensor.name: values[tensor.name] for tensor in graph.outputs}


def _accepted(tensor: Tensor, inputs: Mapping[str, Array]) -> Array:
    """The array given for an input, in the declared dtype."""
    if tensor.name not in inputs:
        raise GraphError([f"input '{tensor.name}' is missing; it is {tensor.dtype} {list(tensor.shape)}"])
    array = np.asarray(inputs[tensor.name])
    if array.shape != tensor.shape:
        found = f"input '{tensor.name}' has shape {list(array.shape)}"
        raise GraphError([f"{found}; declared is {list(tensor.shape)}"])
    is_float = array.dtype.name in (*FLOATS, "float64")
    if array.dtype != DTYPES[tensor.dtype] and not (is_float and tensor.is_float):
        raise GraphError([f"input '{tensor.name}' is {array.dtype.name}; declared is {tensor.dtype}"])
    return rounded(array, tensor.dtype) if tensor.is_float else array


def _widened(array: Array, storage: str | None) -> Array:
    """Floats in binary64, rounded to the storage format before; anything else as it is."""
    if array.dtype.name not in FLOATS:
        return np.asarray(array)
    return array.astype(np.float64) if storage is None else STORAGE[storage](array)


def _known(array: Array, storage: str | None) -> Array:
    """A constant in binary64, or as it is."""
    if storage is None or array.dtype.name not in FLOATS:
        return _widened(array, storage)
    return STORAGE[storage](within_range(array, storage))
