"""Networks of floats that are quantised in tests, samples of their inputs, and quantised graphs as ONNX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import helper, numpy_helper

from compiler.evaluation.infer import build_graph
from compiler.graph import Array, Description, Graph, Node, Tensor
from compiler.operators import OPERATORS
from onnx_models import value
from onnx_oracle import onnxruntime

_OPSET = 21


def small_cnn(seed: int = 1, batch: int = 1) -> Graph:
    """Convolutions with limits, a pool, a residual sum, joined branches, a mean, a Gemm and a Softmax."""
    rng = np.random.default_rng(seed)
    shapes = {
        **{"w0": (16, 3, 3, 3), "w1": (16, 16, 3, 3), "w2": (8, 16, 1, 1), "w3": (8, 16, 3, 3)},
        "w4": (10, 16),
    }
    constants = {name: _normal(rng, shape) for name, shape in shapes.items()}
    constants |= {f"b{at}": _normal(rng, (len(constants[f"w{at}"]), 9)).sum(axis=1) for at in range(5)}
    same = {"pads": (1, 1, 1, 1)}
    nodes = [
        ("Conv", "c0", ["x", "w0", "b0"], "c0", same),
        ("Relu", "r0", ["c0"], "r0", {}),
        ("MaxPool", "pool", ["r0"], "p", {"kernel_shape": (2, 2), "strides": (2, 2)}),
        ("Conv", "c1", ["p", "w1", "b1"], "c1", same),
        ("Add", "sum", ["c1", "p"], "s", {}),
        ("Relu", "r1", ["s"], "r1", {}),
        ("Conv", "c2", ["r1", "w2", "b2"], "c2", {}),
        ("Conv", "c3", ["r1", "w3", "b3"], "c3", same),
        ("Concat", "join", ["c2", "c3"], "j", {"axis": 1}),
        ("Relu", "r2", ["j"], "r2", {}),
        ("GlobalAveragePool", "mean", ["r2"], "m", {}),
        ("Flatten", "flat", ["m"], "f", {}),
        ("Gemm", "fc", ["f", "w4", "b4"], "g", {"transB": 1}),
        ("Softmax", "softmax", ["g"], "y", {"axis": -1}),
    ]
    return float_graph(nodes, {"x": (batch, 3, 12, 12)}, constants)


def mlp(bias: bool = True, seed: int = 2) -> Graph:
    """A normalization and two products of a tensor of three axes, followed by biases."""
    rng = np.random.default_rng(seed)
    constants = {"scale": rng.uniform(0.5, 2, 24).astype(np.float32), "shift": _normal(rng, (24,))}
    constants |= {"w0": _normal(rng, (24, 40), 24), "w1": _normal(rng, (40, 24), 40)}
    nodes: list[tuple[str, str, list[str], str, dict[str, Any]]] = [
        ("LayerNormalization", "norm", ["x", "scale", "shift"], "n", {"axis": -1}),
        ("MatMul", "up", ["n", "w0"], "u", {}),
    ]
    hidden = "u"
    if bias:
        constants["b0"] = _normal(rng, (40,))
        nodes.append(("Add", "shifted", ["u", "b0"], "a", {}))
        hidden = "a"
    nodes += [("Relu", "relu", [hidden], "r", {}), ("MatMul", "down", ["r", "w1"], "d", {})]
    nodes.append(("Add", "residual", ["d", "x"], "y", {}))
    return float_graph(nodes, {"x": (2, 8, 24)}, constants)


def _normal(rng: np.random.Generator, shape: tuple[int, ...], terms: int | None = None) -> Array:
    terms = int(np.prod(shape[1:])) if terms is None else terms
    return np.asarray(rng.standard_normal(shape) / np.sqrt(max(terms, 1)), np.float32)


def float_graph(
    nodes: list[tuple[str, str, list[str], str, dict[str, Any]]],
    inputs: Mapping[str, tuple[int, ...]],
    constants: Mapping[str, Array],
    output: str = "y",
    name: str = "net",
) -> Graph:
    """A graph of (operator, name, operands, result, attributes) with float32 inputs."""
    made = tuple(Node(op, node, tuple(given), (out,), attrs) for op, node, given, out, attrs in nodes)
    tensors = tuple(Tensor(item, "float32", shape) for item, shape in inputs.items())
    return build_graph(Description(name, name, _OPSET, tensors, (output,), dict(constants), made))


def samples(graph: Graph, count: int = 16, seed: int = 7) -> dict[str, Array]:
    """Normally distributed samples of the inputs of a graph."""
    rng = np.random.default_rng(seed)
    return {t.name: rng.standard_normal((count, *t.shape)).astype(np.float32) for t in graph.inputs}


def as_onnx(graph: Graph) -> Any:
    """A graph of standard operators as an ONNX model."""
    nodes = [helper.make_node(n.op, n.inputs, n.outputs, n.name, **_given(n)) for n in graph.nodes]
    known = [numpy_helper.from_array(np.asarray(array), name) for name, array in graph.constants.items()]
    inputs = [value(t.name, t.shape, np.dtype(t.dtype)) for t in graph.inputs]
    outputs = [value(t.name, t.shape, np.dtype(t.dtype)) for t in graph.outputs]
    made = helper.make_graph(nodes, "made", inputs, outputs, known)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=10)


def _given(node: Node) -> dict[str, Any]:
    """The attributes that the operator has in the operator set of these models."""
    known = {attribute.name for attribute in OPERATORS[node.op].attributes if attribute.known_to(_OPSET)}
    return {name: found for name, found in node.attrs.items() if name in known}


def by_onnxruntime(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs by onnxruntime, node by node, because fused products of bytes may saturate."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        as_onnx(graph).SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return dict(zip([t.name for t in graph.outputs], session.run(None, dict(inputs)), strict=True))


def cosine(a: Array, b: Array) -> float:
    """The cosine of the angle between two arrays."""
    first, second = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    return float(np.dot(first, second) / np.sqrt(np.dot(first, first) * np.dot(second, second)))
