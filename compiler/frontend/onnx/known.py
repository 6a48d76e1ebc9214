"""Results that are known when a model is read: constants, shapes, and nodes on constants."""

from __future__ import annotations

import math

import numpy as np
from onnx import NodeProto, defs

from compiler.evaluation.folding import FoldingError, evaluated
from compiler.evaluation.infer import infer_node
from compiler.graph import NEWEST_OPSET, Array, GraphError, Node
from compiler.operators import OPERATORS
from compiler.operators.expansion.builder import computed
from compiler.operators.record import resolve
from tx8isa.errors import BudgetError

from .model import array_of, attribute, attributes_of, plain
from .partial import PartialGraph, Unsupported, hold

_BY_RECORD = ("GatherElements",)
"""Operators computed only by their records: ONNX's evaluator takes at most 32 indices."""
_MOVES = ("Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Concat", "Split", "Slice", "Cast")
"""Operators that ONNX's evaluator computes on constants of any size without a copy in binary64."""

_RANDOM = (
    *("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"),
    *("Multinomial", "Bernoulli", "Dropout"),
)
"""Operators whose operands do not determine their result."""
_KEPT = ("int8", "uint8", "int32")
"""Types of constants that a DequantizeLinear turns into floats when the graph is compiled."""

ALWAYS_KNOWN = ("Shape", "Size", "Constant", "ConstantOfShape")
"""Operators without a record: results are known at compile time, or the node is refused."""


def known_results(graph: PartialGraph, node: NodeProto) -> list[Array] | None:
    """Return the results of a node of the newest operator set on constants; None if they depend on graph
    inputs."""
    op, shapes = node.op_type, [graph.tensors[name].shape for name in node.input if name]
    if op == "Shape":
        start, end = plain(node, "start", 0), plain(node, "end", len(shapes[0]))
        assert isinstance(start, int) and isinstance(end, int)
        return [np.array(shapes[0][start:end], np.int64)]
    if op == "Size":
        return [np.array(np.prod(shapes[0], dtype=np.int64))]
    if op == "Constant":
        return [_constant(graph, node)]
    operands = [graph.constants.get(name) if name else None for name in node.input]
    given = zip(node.input, operands, strict=True)
    if op in _RANDOM or any(name and array is None for name, array in given):
        return None
    if (
        op == "DequantizeLinear" and graph.tensors[node.input[0]].dtype in _KEPT
    ):  # the lowerings of products of bytes need these
        return None
    if op == "ConstantOfShape":
        return [_filled(graph, node, operands[0])]
    if op == "Identity" and operands[0] is not None:  # importing ONNX's evaluator takes long
        return [operands[0]]
    results = None if op in _MOVES else _by_record(graph, node)
    if isinstance(results, list) or op in _BY_RECORD:
        return results if isinstance(results, list) else None
    if not defs.has(op, NEWEST_OPSET, "") or not operands:
        return None
    try:
        return evaluated(node, operands, graph.budget, copies=op in _MOVES)
    except BudgetError as error:
        raise Unsupported(f"on constants: {error}") from None
    except FoldingError as error:
        raise Unsupported(results or f"on constants: {error}") from None


def _by_record(graph: PartialGraph, node: NodeProto) -> list[Array] | str | None:
    """Compute results on constants by the operator's record, as the program would.

    None without a record, the reason if that refuses the node: ONNX's evaluator knows more types, but has
    faults of its own.
    """
    if node.op_type not in OPERATORS:
        return None
    raw = Node(node.op_type, node.name, tuple(node.input), tuple(node.output), attributes_of(node))
    tensors = {name: graph.tensors[name] for name in node.input if name}
    try:
        finished = infer_node(graph.description, raw, tensors)
    except GraphError as error:
        return error.messages[0]
    results = [tensors[name] for name in finished.outputs if name]
    if not any(tensor.size for tensor in results):
        return [tensors[name].zeros if name else np.zeros(0) for name in finished.outputs]
    call = resolve(finished, NEWEST_OPSET, tensors, graph.constants, len(node.input))
    try:
        return list(computed(finished, call, graph.constants, graph.budget).values())
    except GraphError as error:
        raise Unsupported(error.messages[0]) from None


def _constant(graph: PartialGraph, node: NodeProto) -> Array:
    """Return the value of a Constant."""
    tensor = attribute(node, "value")
    if tensor is not None:
        return array_of(tensor.t, graph.path, f"constant '{node.output[0]}'")
    for name, dtype in (
        ("value_float", np.float32),
        ("value_int", np.int64),
        ("value_floats", np.float32),
        ("value_ints", np.int64),
    ):
        if attribute(node, name) is not None:
            return np.asarray(plain(node, name, 0), dtype)
    raise Unsupported("holds no tensor of numbers")


def _filled(graph: PartialGraph, node: NodeProto, shape: Array | None) -> Array:
    """Return the result of a ConstantOfShape."""
    if shape is None or np.any(shape < 0):
        raise Unsupported("needs a shape of no negative sizes")
    item = attribute(node, "value")
    value = np.zeros(1, np.float32) if item is None else array_of(item.t, graph.path, "value")
    sizes = tuple(int(size) for size in shape)
    if value.size != 1:
        raise Unsupported(f"fills with one value; found {value.size}")
    hold(graph.budget, math.prod(sizes) * value.itemsize)
    return np.full(sizes, value.reshape(-1)[0], value.dtype)
