"""Make transformers with seeded weights, as PyTorch's exporter writes them: one block, and an encoder of
several.

A block is a layer normalization, attention, a second normalization and an MLP with the exact GELU, each half
with its residual. Nothing was trained; every weight is drawn with a seed, which is a hash of its name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Size:
    """The extents of a transformer; the MLP is four times as wide as the rest."""

    tokens: int
    width: int
    heads: int
    layers: int


SIZES = {
    "transformer-128x256": Size(128, 256, 8, 1),
    "transformer-512x768": Size(512, 768, 12, 1),
    "encoder": Size(64, 384, 12, 6),
}
"""A block of 128 tokens x 256, one of 512 x 768, and an encoder like BERT of six layers, 64 tokens x 384."""


class Writer:
    """Collects the nodes and constants of a model; every method returns the name of a value."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        name = f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], name=name, **attributes))
        return name

    def constant(self, name: str, values: Array) -> str:
        self.constants.append(numpy_helper.from_array(values, name))
        return name

    def normal(self, name: str, shape: Sequence[int], deviation: float, mean: float = 0.0) -> str:
        seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
        drawn = np.random.default_rng(seed).normal(mean, deviation, shape)
        return self.constant(name, drawn.astype(np.float32))

    def linear(self, x: str, name: str, rows: int, columns: int) -> str:
        product = self.node("MatMul", x, self.normal(f"{name}.weight", (rows, columns), rows**-0.5))
        return self.node("Add", product, self.normal(f"{name}.bias", (columns,), 0.1))

    def normalization(self, x: str, name: str, width: int) -> str:
        scale = self.normal(f"{name}.scale", (width,), 0.1, mean=1.0)
        return self.node("LayerNormalization", x, scale, self.normal(f"{name}.shift", (width,), 0.1), axis=-1)

    def shape(self, extents: Sequence[int]) -> str:
        name = "shape_" + "x".join(map(str, extents))
        if all(tensor.name != name for tensor in self.constants):
            self.constant(name, np.array(extents, np.int64))
        return name

    def scalar(self, value: float) -> str:
        name = f"scalar_{len(self.constants)}"
        return self.constant(name, np.array(value, np.float32))


def transformer(size: Size) -> onnx.ModelProto:
    """The model: ``x`` and ``y`` are [1, tokens, width]."""
    write = Writer()
    value = "x"
    for layer in range(size.layers):
        value = block(write, value, f"layer{layer}", size)
    write.nodes[-1].output[0] = "y"
    shape = [1, size.tokens, size.width]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", "y")]
    graph = helper.make_graph(write.nodes, "transformer", ends[:1], ends[1:], write.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    return model


def block(write: Writer, x: str, name: str, size: Size) -> str:
    """Attention and an MLP on ``x`` [1, tokens, width], each with its residual."""
    return _mlp(write, _attention(write, x, name, size), name, size.width)


def tokens(size: Size) -> Array:
    """An input for the model, float32 [1, tokens, width]."""
    return np.random.default_rng(0).normal(0, 1, (1, size.tokens, size.width)).astype(np.float32)


def _attention(write: Writer, x: str, name: str, size: Size) -> str:
    depth = size.width // size.heads
    normal = write.normalization(x, f"{name}.before", size.width)

    def heads(part: str, order: Sequence[int]) -> str:
        wide = write.linear(normal, f"{name}.{part}", size.width, size.width)
        split = write.node("Reshape", wide, write.shape((1, size.tokens, size.heads, depth)))
        return write.node("Transpose", split, perm=order)

    scores = write.node("MatMul", heads("query", (0, 2, 1, 3)), heads("key", (0, 2, 3, 1)))
    scaled = write.node("Mul", scores, write.scalar(depth**-0.5))
    mixed = write.node("MatMul", write.node("Softmax", scaled, axis=-1), heads("value", (0, 2, 1, 3)))
    joined = write.node("Transpose", mixed, perm=(0, 2, 1, 3))
    flat = write.node("Reshape", joined, write.shape((1, size.tokens, size.width)))
    return write.node("Add", x, write.linear(flat, f"{name}.output", size.width, size.width))


def _mlp(write: Writer, x: str, name: str, width: int) -> str:
    normal = write.normalization(x, f"{name}.middle", width)
    inner = write.linear(normal, f"{name}.up", width, 4 * width)
    error = write.node("Erf", write.node("Div", inner, write.scalar(2**0.5)))
    shifted = write.node("Add", error, write.scalar(1.0))
    gelu = write.node("Mul", write.node("Mul", inner, shifted), write.scalar(0.5))
    return write.node("Add", x, write.linear(gelu, f"{name}.down", 4 * width, width))
