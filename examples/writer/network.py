"""Make the writer as networks for the compiler: ONNX models that read a block of tokens, or write one more
token.

All of them have the same caches of keys and values as states. A block of ``rows`` tokens begins at position
``at``; its queries look at the first ``seen`` positions of the caches, of which a mask hides the later ones.
So a step for a short text reads a small part of the caches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from shape import DecoderShape

Array = NDArray[Any]
Weights = Mapping[str, Array]
OPSET = 24
HIDDEN = -1e4
"""The mask adds this to the score of a position that a query must not see."""


def states(shape: DecoderShape) -> dict[str, str]:
    """The caches, as inputs and outputs that are the same memory."""
    names = [f"{kind}{layer}" for layer in range(shape.layers) for kind in ("keys", "values")]
    return {name: f"new_{name}" for name in names}


def tables(shape: DecoderShape) -> tuple[Array, Array]:
    """Cosines and sines of rotary embeddings, [room, head / 2]."""
    half = shape.head // 2
    angles = np.arange(shape.room)[:, None] * shape.base ** -(np.arange(half) / half)
    return np.float32(np.cos(angles)), np.float32(np.sin(angles))


class Network:
    """Nodes and constants of a model that takes ``rows`` tokens and sees ``seen`` positions."""

    def __init__(self, shape: DecoderShape, weights: Weights, rows: int, seen: int) -> None:
        self.shape, self.weights, self.rows, self.seen = shape, weights, rows, seen
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, Array] = {}

    def add(self, operator: str, inputs: Sequence[str], name: str, **attributes: Any) -> str:
        """A node with one result of the same name."""
        self.nodes.append(helper.make_node(operator, inputs, [name], name, **attributes))
        return name

    def constant(self, name: str, value: Array) -> str:
        """A constant under a name."""
        self.constants[name] = value
        return name

    def ints(self, *values: int) -> str:
        """Integers as a constant."""
        return self.constant("ints_" + "_".join(map(str, values)), np.array(values, np.int64))

    def product(self, x: str, names: Sequence[str], name: str) -> str:
        """Rows times the transposed weights of some linear layers, side by side in the result."""
        joined = np.concatenate([self.weights[f"{each}.weight"] for each in names])
        weight = self.constant(f"{name}.weight", np.ascontiguousarray(np.float32(joined).T))
        return self.add("MatMul", [x, weight], name)

    def norm(self, x: str, name: str) -> str:
        """RMS normalization of rows."""
        scale = self.constant(f"{name}.weight", np.float32(self.weights[f"{name}.weight"]))
        return self.add("RMSNormalization", [x, scale], name, epsilon=self.shape.epsilon)

    def split(self, x: str, widths: Sequence[int], name: str) -> list[str]:
        """Columns of rows [rows, columns], side by side."""
        parts = [f"{name}.{number}" for number in range(len(widths))]
        sizes = self.ints(*widths)
        self.nodes.append(helper.make_node("Split", [x, sizes], parts, f"{name}.split", axis=1))
        return parts

    def heads(self, x: str, count: int, name: str) -> str:
        """Columns of rows [rows, count * head] as heads [1, count, rows, head]."""
        apart = self.add("Reshape", [x, self.ints(1, self.rows, count, self.shape.head)], f"{name}.apart")
        return self.add("Transpose", [apart], f"{name}.heads", perm=[0, 2, 1, 3])

    def cached(self, new: str, cache: str) -> str:
        """Write rows into a cache; returns the positions that are seen."""
        full = self.add("TensorScatter", [cache, new, "at"], f"new_{cache}", axis=2)
        if self.seen == self.shape.room:
            return full
        bounds = [self.ints(0), self.ints(self.seen), self.ints(2)]
        return self.add("Slice", [full, *bounds], f"{cache}.seen")

    def attention(self, x: str, layer: int, positions: str, mask: str) -> str:
        """The rows after the attention of a layer, without the residual sum."""
        shape, name = self.shape, f"layers.{layer}"
        q_size, k_size = shape.heads * shape.head, shape.groups * shape.head
        rows = self.product(x, [f"{name}.{part}" for part in "qkv"], f"{name}.qkv")
        turned, v = self.split(rows, [q_size + k_size, k_size], f"{name}.parts")
        both = self.heads(turned, shape.heads + shape.groups, f"{name}.qk")
        cos, sin = tables(shape)
        given = [both, self.constant("cos", cos), self.constant("sin", sin), positions]
        both = self.add("RotaryEmbedding", given, f"{name}.turned")
        q, k = f"{name}.q", f"{name}.k"
        sizes = self.ints(shape.heads, shape.groups)
        self.nodes.append(helper.make_node("Split", [both, sizes], [q, k], f"{name}.qk.split", axis=1))
        keys = self.cached(k, f"keys{layer}")
        values = self.cached(self.heads(v, shape.groups, f"{name}.v"), f"values{layer}")
        seen = self.add("Attention", [q, keys, values, mask], f"{name}.attention")
        together = self.add("Transpose", [seen], f"{name}.together", perm=[0, 2, 1, 3])
        flat = self.add("Reshape", [together, self.ints(self.rows, q_size)], f"{name}.flat")
        return self.product(flat, [f"{name}.o"], f"{name}.o")

    def swiglu(self, x: str, layer: int) -> str:
        """The rows after the second half of a layer, without the residual sum."""
        name, hidden = f"layers.{layer}", self.shape.hidden
        both = self.product(x, [f"{name}.gate", f"{name}.up"], f"{name}.gate_up")
        gate, up = self.split(both, [hidden, hidden], f"{name}.gates")
        gate = self.add("Mul", [gate, self.add("Sigmoid", [gate], f"{name}.sigmoid")], f"{name}.silu")
        return self.product(self.add("Mul", [gate, up], f"{name}.gated"), [f"{name}.down"], f"{name}.down")

    def build(self) -> None:
        """All nodes from ``tokens`` and ``at`` to ``logits`` and ``next``."""
        shape = self.shape
        embedding = self.constant("embedding", np.float32(self.weights["embedding.weight"]))
        offsets = self.constant("offsets", np.arange(self.rows))
        places = self.add("Add", ["at", offsets], "places")
        positions = self.add("Reshape", [places, self.ints(1, self.rows)], "positions")
        after = np.where(np.tri(shape.room, self.seen) > 0, 0, HIDDEN)
        mask = self.add("Gather", [self.constant("hidden", np.float32(after)), places], "mask.rows")
        mask = self.add("Reshape", [mask, self.ints(1, 1, self.rows, self.seen)], "mask")
        x = self.add("Gather", [embedding, "tokens"], "embedded")
        for layer in range(shape.layers):
            y = self.attention(self.norm(x, f"layers.{layer}.attention_norm"), layer, positions, mask)
            x = self.add("Add", [x, y], f"layers.{layer}.middle")
            y = self.swiglu(self.norm(x, f"layers.{layer}.mlp_norm"), layer)
            x = self.add("Add", [x, y], f"layers.{layer}.end")
        last = self.constant("last.weight", np.ascontiguousarray(self.constants[embedding].T))
        logits = self.add("MatMul", [self.norm(x, "norm"), last], "logits")
        self.add("ArgMax", [logits], "next", axis=1, keepdims=0)


def model(shape: DecoderShape, weights: Weights, rows: int, seen: int) -> ModelProto:
    """The model of a block of tokens [rows] at position ``at`` [1].

    Its results are logits [rows, tokens] and the most probable next tokens [rows]; caches are
    [1, groups, room, head].
    """
    network = Network(shape, weights, rows, seen)
    network.build()
    cache = [1, shape.groups, shape.room, shape.head]
    pairs = states(shape)
    inputs = [
        helper.make_tensor_value_info("tokens", TensorProto.INT64, [rows]),
        helper.make_tensor_value_info("at", TensorProto.INT64, [1]),
        *(helper.make_tensor_value_info(name, TensorProto.FLOAT, cache) for name in pairs),
    ]
    outputs = [
        helper.make_tensor_value_info("logits", TensorProto.FLOAT, [rows, shape.tokens]),
        helper.make_tensor_value_info("next", TensorProto.INT64, [rows]),
        *(helper.make_tensor_value_info(name, TensorProto.FLOAT, cache) for name in pairs.values()),
    ]
    constants = [numpy_helper.from_array(value, name) for name, value in network.constants.items()]
    graph = helper.make_graph(network.nodes, f"writer_{rows}_{seen}", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
