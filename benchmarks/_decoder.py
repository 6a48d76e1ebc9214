"""Make decoders of the Llama kind as ONNX models in float16, with all weights in one file beside them.

A model reads a block of tokens [rows] at position ``at`` [1] and returns the logits [1, tokens] of the token
that follows. Its caches, [1, groups, room, head], are states; its queries see the first ``seen`` positions of
them. The embedding is the last product too. The weights are seeded random numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

HIDDEN = -1e4
"""The mask adds this to the score of a position that a query must not see."""
_FILE, _PAGE, _CHUNK = "weights.bin", 4096, 1 << 22


@dataclass(frozen=True)
class Shape:
    """The extents of a decoder; the defaults are those of a model with half a billion parameters."""

    layers: int = 24
    width: int = 896
    heads: int = 14
    groups: int = 2
    head: int = 64
    hidden: int = 4864
    tokens: int = 151_936
    room: int = 2048
    base: float = 1e6
    epsilon: float = 1e-6

    def weights(self) -> Iterator[tuple[str, tuple[int, int], float]]:
        """Name, extents and spread of each matrix."""
        both, rows = self.heads + 2 * self.groups, self.heads * self.head
        yield "embedding", (self.tokens, self.width), self.width**-0.5
        for layer in range(self.layers):
            yield f"{layer}.qkv", (self.width, both * self.head), self.width**-0.5
            yield f"{layer}.o", (rows, self.width), rows**-0.5
            yield f"{layer}.gate_up", (self.width, 2 * self.hidden), self.width**-0.5
            yield f"{layer}.down", (self.hidden, self.width), self.hidden**-0.5

    @property
    def bytes(self) -> int:
        """Bytes of all matrices, two for each element."""
        return sum(2 * math.prod(extents) for _, extents, _ in self.weights())

    def states(self) -> dict[str, str]:
        """The caches, as inputs and outputs that are the same memory."""
        names = [f"{kind}{layer}" for layer in range(self.layers) for kind in ("keys", "values")]
        return {name: f"new_{name}" for name in names}


def write_weights(shape: Shape, folder: Path) -> dict[str, TensorProto]:
    """Write the file of the weights; returns the initializers that refer to it."""
    random, found, at = np.random.default_rng(0), dict[str, TensorProto](), 0
    with (folder / _FILE).open("wb") as file:
        for name, extents, spread in shape.weights():
            file.seek(at)
            size = math.prod(extents)
            for begin in range(0, size, _CHUNK):
                some = random.standard_normal(min(_CHUNK, size - begin), np.float32)
                file.write((some * np.float32(spread)).astype(np.float16).data)
            found[name] = _external(name, extents, at)
            at += -(-2 * size // _PAGE) * _PAGE
        file.truncate(at)
    return found


def _external(name: str, extents: tuple[int, int], at: int) -> TensorProto:
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT16, dims=extents)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", _FILE), ("offset", at), ("length", 2 * math.prod(extents))):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


class Network:
    """The nodes and constants of a model of ``rows`` tokens that sees ``seen`` positions."""

    def __init__(self, shape: Shape, weights: dict[str, TensorProto], rows: int, seen: int) -> None:
        self.shape, self.weights, self.rows, self.seen = shape, weights, rows, seen
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, TensorProto] = {}

    def add(self, operator: str, inputs: Sequence[str], name: str, **attributes: Any) -> str:
        """A node with one result of the same name."""
        self.nodes.append(helper.make_node(operator, inputs, [name], name, **attributes))
        return name

    def constant(self, name: str, value: Any) -> str:
        """A constant under a name."""
        self.constants[name] = numpy_helper.from_array(np.asarray(value), name)
        return name

    def ints(self, *values: int) -> str:
        """Integers as a constant."""
        return self.constant("ints_" + "_".join(map(str, values)), np.array(values, np.int64))

    def weight(self, name: str) -> str:
        """One of the matrices in the file."""
        self.constants[name] = self.weights[name]
        return name

    def norm(self, x: str, name: str) -> str:
        """RMS normalization of rows."""
        scale = self.constant(f"{name}.scale", np.ones(self.shape.width, np.float16))
        return self.add("RMSNormalization", [x, scale], name, epsilon=self.shape.epsilon)

    def split(self, x: str, sizes: Sequence[int], name: str) -> list[str]:
        """Parts of a value along axis 1."""
        parts = [f"{name}.{number}" for number in range(len(sizes))]
        self.nodes.append(helper.make_node("Split", [x, self.ints(*sizes)], parts, name, axis=1))
        return parts

    def heads(self, x: str, count: int, name: str) -> str:
        """Columns of rows [rows, count * head] as heads [1, count, rows, head]."""
        apart = self.add("Reshape", [x, self.ints(1, self.rows, count, self.shape.head)], f"{name}.apart")
        return self.add("Transpose", [apart], name, perm=[0, 2, 1, 3])

    def cached(self, new: str, cache: str) -> str:
        """Write rows into a cache; returns the positions that are seen."""
        full = self.add("TensorScatter", [cache, new, "at"], f"new_{cache}", axis=2)
        if self.seen == self.shape.room:
            return full
        return self.add("Slice", [full, self.ints(0), self.ints(self.seen), self.ints(2)], f"{cache}.seen")

    def attention(self, x: str, layer: int, mask: str) -> str:
        """The output of the attention of a layer, with a row for each of ``x``, before it is added."""
        shape = self.shape
        rows = self.add("MatMul", [x, self.weight(f"{layer}.qkv")], f"{layer}.rows")
        both = shape.heads + shape.groups
        turned, v = self.split(rows, [both * shape.head, shape.groups * shape.head], f"{layer}.parts")
        given = [self.heads(turned, both, f"{layer}.qk"), "cos", "sin", "positions"]
        both_turned = self.add("RotaryEmbedding", given, f"{layer}.turned")
        q, k = self.split(both_turned, [shape.heads, shape.groups], f"{layer}.heads")
        keys = self.cached(k, f"keys{layer}")
        values = self.cached(self.heads(v, shape.groups, f"{layer}.v"), f"values{layer}")
        seen = self.add("Attention", [q, keys, values, mask], f"{layer}.attention")
        together = self.add("Transpose", [seen], f"{layer}.together", perm=[0, 2, 1, 3])
        flat = self.add(
            "Reshape", [together, self.ints(self.rows, shape.heads * shape.head)], f"{layer}.flat"
        )
        return self.add("MatMul", [flat, self.weight(f"{layer}.o")], f"{layer}.attended")

    def swiglu(self, x: str, layer: int) -> str:
        """The output of the MLP of a layer (SwiGLU), with a row for each of ``x``, before it is added."""
        both = self.add("MatMul", [x, self.weight(f"{layer}.gate_up")], f"{layer}.both")
        gate, up = self.split(both, [self.shape.hidden] * 2, f"{layer}.gates")
        gate = self.add("Mul", [gate, self.add("Sigmoid", [gate], f"{layer}.sigmoid")], f"{layer}.silu")
        gated = self.add("Mul", [gate, up], f"{layer}.gated")
        return self.add("MatMul", [gated, self.weight(f"{layer}.down")], f"{layer}.down_rows")

    def positions(self) -> str:
        """The mask of the block, and tables of rotary embeddings."""
        shape, half = self.shape, self.shape.head // 2
        angles = np.arange(shape.room)[:, None] * shape.base ** -(np.arange(half) / half)
        self.constant("cos", np.cos(angles).astype(np.float16))
        self.constant("sin", np.sin(angles).astype(np.float16))
        places = self.add("Add", ["at", self.constant("offsets", np.arange(self.rows))], "places")
        self.add("Reshape", [places, self.ints(1, self.rows)], "positions")
        after = np.where(np.tri(shape.room, self.seen) > 0, 0, HIDDEN).astype(np.float16)
        rows = self.add("Gather", [self.constant("hidden", after), places], "mask.rows")
        return self.add("Reshape", [rows, self.ints(1, 1, self.rows, self.seen)], "mask")

    def build(self) -> None:
        """All nodes from ``tokens`` and ``at`` to ``logits``."""
        mask, embedding = self.positions(), self.weight("embedding")
        x = self.add("Gather", [embedding, "tokens"], "embedded")
        for layer in range(self.shape.layers):
            y = self.attention(self.norm(x, f"{layer}.norm"), layer, mask)
            x = self.add("Add", [x, y], f"{layer}.middle")
            y = self.swiglu(self.norm(x, f"{layer}.norm2"), layer)
            x = self.add("Add", [x, y], f"{layer}.end")
        if self.rows > 1:
            x = self.add("Slice", [x, self.ints(self.rows - 1), self.ints(self.rows), self.ints(0)], "last")
        columns = self.add("Transpose", [embedding], "columns", perm=[1, 0])
        self.add("MatMul", [self.norm(x, "norm"), columns], "logits")


def write_model(shape: Shape, weights: dict[str, TensorProto], rows: int, seen: int, folder: Path) -> Path:
    """Write a model of ``rows`` tokens that sees ``seen`` positions into the folder of the weights."""
    network = Network(shape, weights, rows, seen)
    network.build()
    cache = [1, shape.groups, shape.room, shape.head]
    whole, half, pairs = TensorProto.INT64, TensorProto.FLOAT16, shape.states()
    info = helper.make_tensor_value_info
    inputs = [info("tokens", whole, [rows]), info("at", whole, [1]), *(info(n, half, cache) for n in pairs)]
    outputs = [info("logits", half, [1, shape.tokens]), *(info(n, half, cache) for n in pairs.values())]
    name = f"decoder_{rows}_{seen}"
    graph = helper.make_graph(network.nodes, name, inputs, outputs, list(network.constants.values()))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10)
    onnx.save(model, folder / f"{name}.onnx")
    return folder / f"{name}.onnx"
