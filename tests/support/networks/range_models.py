"""ONNX models with free dimensions, as exporters write them, for programs that run a range of sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

Tensors = dict[str, tuple[int, Sequence[Any]]]
"""Element type and extents of tensors by name."""

_OPSET = helper.make_opsetid("", 20)


class ModelWriter:
    """Nodes and seeded weights of a model, node by node."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}

    def weights(self, *shape: int) -> str:
        scale = np.sqrt(shape[0])
        return self.constant((self.random.standard_normal(shape) / scale).astype(np.float32))

    def normal(self, *shape: int) -> Any:
        return self.random.standard_normal(shape).astype(np.float32)

    def constant(self, value: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = numpy_helper.from_array(np.asarray(value), name)
        return name

    def integers(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def model(self, inputs: Tensors, outputs: Tensors) -> ModelProto:
        infos = [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()]
        results = [
            helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in outputs.items()
        ]
        graph = helper.make_graph(self.nodes, "ranged", infos, results, list(self.constants.values()))
        return helper.make_model(graph, opset_imports=[_OPSET], ir_version=9)


def perceptron() -> ModelProto:
    """Rows of any number: two products, a residual, a normalization, a softmax."""
    w = ModelWriter(1)
    hidden = w.add("Relu", w.add("Add", w.add("MatMul", "x", w.weights(96, 160)), w.weights(160)))
    total = w.add("Add", w.add("MatMul", hidden, w.weights(160, 96)), "x")
    normal = w.add("LayerNormalization", total, w.weights(96), w.weights(96), axis=-1)
    last = w.add("Softmax", normal)
    return w.model({"x": (TensorProto.FLOAT, ["rows", 96])}, {last: (TensorProto.FLOAT, ["rows", 96])})


def residual_products(width: int = 256) -> ModelProto:
    """Rows of any number and of whole planes: two products and a residual."""
    w = ModelWriter(3)
    hidden = w.add("Relu", w.add("MatMul", "x", w.weights(width, 2 * width)))
    last = w.add("Add", w.add("MatMul", hidden, w.weights(2 * width, width)), "x")
    return w.model({"x": (TensorProto.FLOAT, ["rows", width])}, {last: (TensorProto.FLOAT, ["rows", width])})


def encoder(width: int = 64, heads: int = 2, longest: int = 160) -> ModelProto:
    """A block of a transformer over ``batch`` texts of ``seq`` words, with positions and a mask."""
    w = ModelWriter(2)
    shape = w.add("Shape", "ids")
    batch, seq = (w.add("Gather", shape, w.constant(np.array(at, np.int64))) for at in (0, 1))
    batch, seq = (w.add("Unsqueeze", size, w.integers(0)) for size in (batch, seq))
    words = w.add("Gather", w.weights(50, width), "ids")
    places = w.add("Slice", w.weights(longest, width), w.integers(0), seq, w.integers(0))
    x = w.add("Add", words, places)
    hidden = w.add("Cast", w.add("Unsqueeze", "mask", w.integers(1, 2)), to=TensorProto.FLOAT)
    hidden = w.add("Mul", w.add("Sub", w.constant(np.float32(1)), hidden), w.constant(np.float32(-1e9)))
    each = w.integers(heads), w.integers(width // heads)

    def projected() -> str:
        shaped = w.add("Concat", batch, seq, *each, axis=0)
        return w.add("Transpose", w.add("Reshape", _linear(w, x, width, width), shaped), perm=[0, 2, 1, 3])

    q, k, v = projected(), projected(), projected()
    scores = w.add("MatMul", q, w.add("Transpose", k, perm=[0, 1, 3, 2]))
    scores = w.add("Add", w.add("Div", scores, w.constant(np.float32(np.sqrt(width // heads)))), hidden)
    mixed = w.add("Transpose", w.add("MatMul", w.add("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
    merged = w.add("Reshape", mixed, w.add("Concat", batch, seq, w.integers(width), axis=0))
    x = _normal(w, w.add("Add", x, _linear(w, merged, width, width)), width)
    inner = w.add("Gelu", _linear(w, x, width, 2 * width))
    last = _normal(w, w.add("Add", x, _linear(w, inner, 2 * width, width)), width)
    tokens = TensorProto.INT64, ["batch", "seq"]
    return w.model({"ids": tokens, "mask": tokens}, {last: (TensorProto.FLOAT, ["batch", "seq", width])})


def _linear(w: ModelWriter, x: str, inner: int, outer: int) -> str:
    return w.add("Add", w.add("MatMul", x, w.weights(inner, outer)), w.weights(outer))


def _normal(w: ModelWriter, x: str, width: int) -> str:
    return w.add("LayerNormalization", x, w.weights(width), w.weights(width), axis=-1)


def text_line(channels: int = 16, letters: int = 40) -> ModelProto:
    """A recogniser of lines of text: images of ``width`` columns, letters for every four of them."""
    w = ModelWriter(3)
    x = _pooled(w, _convolved(w, "x", 1, channels), (2, 2))
    x = _pooled(w, _convolved(w, x, channels, 2 * channels), (2, 2))
    x = w.add("Add", _convolved(w, x, 2 * channels, 2 * channels), x)
    x = _pooled(w, x, (8, 1))
    columns = w.add("Transpose", w.add("Squeeze", x, w.integers(2)), perm=[0, 2, 1])
    last = w.add("Softmax", _linear(w, columns, 2 * channels, letters), axis=-1)
    images, found = ["batch", 1, 32, "width"], ["batch", "columns", letters]
    return w.model({"x": (TensorProto.FLOAT, images)}, {last: (TensorProto.FLOAT, found)})


def picture(channels: int = 16) -> ModelProto:
    """Images of any height and width: a convolution of each separate channel, squeeze and excite."""
    w = ModelWriter(4)
    x = _convolved(w, "x", 3, channels, strides=[2, 2])
    x = w.add("HardSwish", _convolved(w, x, channels, channels, group=channels, strides=[2, 2]))
    squeezed = w.add("GlobalAveragePool", x)
    gate = w.add("HardSigmoid", w.add("Conv", squeezed, w.weights(channels, channels, 1, 1)))
    x = w.add("Conv", w.add("Mul", x, gate), w.weights(24, channels, 1, 1))
    sizes = ["batch", 3, "height", "width"]
    return w.model({"x": (TensorProto.FLOAT, sizes)}, {x: (TensorProto.FLOAT, ["batch", 24, "h", "w"])})


def _convolved(w: ModelWriter, x: str, inner: int, outer: int, group: int = 1, **attributes: Any) -> str:
    weights = w.constant(w.normal(outer, inner // group, 3, 3) / np.float32(3 * np.sqrt(inner / group)))
    bias = w.constant(w.normal(outer) / np.float32(8))
    return w.add("Relu", w.add("Conv", x, weights, bias, pads=[1, 1, 1, 1], group=group, **attributes))


def _pooled(w: ModelWriter, x: str, window: tuple[int, int]) -> str:
    return w.add("MaxPool", x, kernel_shape=window, strides=window)


CAUSAL = ("rows of a table", "Trilu", "compared positions")
"""The exporters' forms of a causal mask; each gives a constant for each size."""
MASKS = (*CAUSAL, "numbers", "truth values", "causal and of the text")
"""Masks with a row for each query."""


def masked_attention(mask: str, heads: int = 2, width: int = 16, longest: int = 96) -> ModelProto:
    """Attention of ``batch`` texts of ``seq`` words with a mask that has a row for each query."""
    w = ModelWriter(5)
    inputs: Tensors = {name: (TensorProto.FLOAT, ["batch", heads, "seq", width]) for name in "qkv"}
    scores = w.add("MatMul", "q", w.add("Transpose", "k", perm=[0, 1, 3, 2]))
    scores = w.add("Mul", scores, w.constant(np.float32(1 / np.sqrt(width))))
    low = w.constant(np.float32(-1e9))
    if mask == "numbers":
        inputs["mask"] = TensorProto.FLOAT, ["batch", 1, "seq", "seq"]
        scores = w.add("Add", scores, "mask")
    elif mask == "truth values":
        inputs["mask"] = TensorProto.BOOL, ["batch", 1, "seq", "seq"]
        scores = w.add("Where", "mask", scores, low)
    elif mask == "Trilu":
        scores = w.add("Add", scores, _future(w))
    elif mask == "causal and of the text":
        inputs["seen"] = TensorProto.INT64, ["batch", "seq"]
        seen = w.add("Unsqueeze", w.add("Cast", "seen", to=TensorProto.BOOL), w.integers(1, 2))
        seen = w.add("And", _past(w), seen)
        scores = w.add("Add", scores, w.add("Where", seen, w.constant(np.float32(0)), low))
    else:
        seen = _past(w) if mask == "compared positions" else _part_of_table(w, longest)
        scores = w.add("Where", seen, scores, low)
    last = w.add("MatMul", w.add("Softmax", scores, axis=-1), "v")
    return w.model(inputs, {last: (TensorProto.FLOAT, ["batch", heads, "seq", width])})


def _words(w: ModelWriter) -> str:
    """The number of words, [1]."""
    return w.add("Slice", w.add("Shape", "q"), w.integers(2), w.integers(3), w.integers(0))


def _part_of_table(w: ModelWriter, longest: int) -> str:
    """The mask of each word, from a table for the longest text."""
    seq, table = _words(w), w.constant(np.tri(longest, dtype=bool)[None, None])
    rows = w.add("Slice", table, w.integers(0), seq, w.integers(2))
    return w.add("Slice", rows, w.integers(0), seq, w.integers(3))


def _past(w: ModelWriter) -> str:
    """The mask of each word, by comparing positions."""
    zero, one = (w.constant(np.array(number, np.int64)) for number in (0, 1))
    places = w.add("Range", zero, w.add("Squeeze", _words(w)), one)
    return w.add(
        "LessOrEqual", w.add("Unsqueeze", places, w.integers(0)), w.add("Unsqueeze", places, w.integers(1))
    )


def _future(w: ModelWriter) -> str:
    """Minus infinity where a word is hidden, else 0."""
    seq, low = _words(w), helper.make_tensor("low", TensorProto.FLOAT, [1], [-np.inf])
    every = w.add("ConstantOfShape", w.add("Concat", seq, seq, axis=0), value=low)
    return w.add("Trilu", every, w.constant(np.array(1, np.int64)), upper=1)


def decoder_step(room: int = 24, width: int = 32, tokens: int = 40) -> ModelProto:
    """A step of a decoder: ``new`` tokens from position ``at`` on, over caches of a fixed room.

    The states are keys=new_keys and values=new_values.
    """
    w = ModelWriter(6)
    steps = w.add("Slice", w.add("Shape", "ids"), w.integers(0), w.integers(1), w.integers(0))
    zero, one = (w.constant(np.array(number, np.int64)) for number in (0, 1))
    places = w.add("Add", "at", w.add("Range", zero, w.add("Squeeze", steps), one))
    index = w.add("Unsqueeze", places, w.integers(1))
    x = w.add("Gather", w.weights(tokens, width), "ids")
    x = w.add("Add", x, w.add("Gather", w.weights(room, width), places))
    caches = {}
    for cache in ("keys", "values"):
        row = w.add("MatMul", x, w.weights(width, width))
        caches[cache] = f"new_{cache}"
        w.nodes.append(helper.make_node("ScatterND", [cache, index, row], [f"new_{cache}"], f"put_{cache}"))
    scores = w.add("MatMul", w.add("MatMul", x, w.weights(width, width)), w.add("Transpose", "new_keys"))
    scores = w.add("Mul", scores, w.constant(np.float32(1 / np.sqrt(width))))
    seen = w.add("LessOrEqual", w.constant(np.arange(room)[None]), index)
    scores = w.add("Where", seen, scores, w.constant(np.float32(-1e9)))
    x = w.add("Add", x, w.add("MatMul", w.add("Softmax", scores, axis=-1), "new_values"))
    last = w.add("MatMul", _normal(w, x, width), w.weights(width, tokens))
    floats = TensorProto.FLOAT, [room, width]
    inputs: Tensors = {"ids": (TensorProto.INT64, ["new"]), "at": (TensorProto.INT64, [1])}
    results: Tensors = {last: (TensorProto.FLOAT, ["new", tokens])}
    past, present = {"keys": floats, "values": floats}, {"new_keys": floats, "new_values": floats}
    return w.model({**inputs, **past}, {**results, **present})


def recurrent_cell(streams: Sequence[Any] = ("streams",), width: int = 32) -> ModelProto:
    """A step of a recurrent network of any number of streams, each with a state of its own: h=new_h.

    ``streams``: the axes of the input and the state before their numbers.
    """
    w = ModelWriter(7)
    read, kept = w.add("MatMul", "x", w.weights(24, width)), w.add("MatMul", "h", w.weights(width, width))
    w.nodes.append(helper.make_node("Tanh", [w.add("Add", read, kept)], ["new_h"], "cell"))
    last = w.add("MatMul", "new_h", w.weights(width, 8))
    x, h, y = ((TensorProto.FLOAT, [*streams, size]) for size in (24, width, 8))
    return w.model({"x": x, "h": h}, {last: y, "new_h": h})


def backwards() -> ModelProto:
    """A constant for each size with ones in its last corner: none is the beginning or a corner of another."""
    w = ModelWriter(8)
    seq = w.add("Slice", w.add("Shape", "x"), w.integers(0), w.integers(1), w.integers(0))
    one = helper.make_tensor("one", TensorProto.FLOAT, [1], [1])
    ones = w.add("ConstantOfShape", w.add("Concat", seq, seq, axis=0), value=one)
    corner = w.add("Trilu", ones, w.add("Squeeze", w.add("Sub", seq, w.integers(2))), upper=1)
    last = w.add("Add", "x", corner)
    square = TensorProto.FLOAT, ["seq", "seq"]
    return w.model({"x": square}, {last: square})


def one_node(op: str, shape: Sequence[Any], *, name: str = "node", **attributes: Any) -> ModelProto:
    """A model of one node over an input ``x``."""
    node = helper.make_node(op, ["x"], ["y"], name=name, **attributes)
    info = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "one", [info], [result])
    return helper.make_model(graph, opset_imports=[_OPSET], ir_version=9)
