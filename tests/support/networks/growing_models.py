"""Decoders whose cache a step makes longer, as exporters write them: past and present keys and values."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper

from range_models import ModelWriter, Tensors

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
TOTAL = "past + new"
"""What exporters call the length of the cache after a step."""
WORDS, LONGEST = 50, 128


def states(layers: int = 1) -> dict[str, str]:
    """The states of a model, outputs by inputs."""
    return {
        f"past_key_values.{layer}.{what}": f"present.{layer}.{what}"
        for layer in range(layers)
        for what in ("key", "value")
    }


class _Decoder:
    """The nodes of a decoder; ``heads`` share ``groups`` of keys and values of ``width`` columns each."""

    def __init__(self, heads: int, groups: int, width: int, new: str | int, mask: str) -> None:
        self.w = ModelWriter(11)
        self.heads, self.groups, self.width, self.mask = heads, groups, width, mask
        self.columns = heads * width
        total = TOTAL if isinstance(new, str) else f"past + {new}"
        self.inputs: Tensors = {"input_ids": (INT64, [1, new]), "position_ids": (INT64, [1, new])}
        if mask == "attention_mask":
            self.inputs["attention_mask"] = INT64, [1, total]
        self.outputs: Tensors = {}
        self.total, self.new = total, new

    def size(self, name: str, axis: int) -> str:
        w = self.w
        return w.add("Gather", w.add("Shape", name), w.constant(np.array(axis, np.int64)))

    def vector(self, size: str) -> str:
        return self.w.add("Unsqueeze", size, self.w.integers(0))

    def seen(self) -> str:
        """What is added to scores, [1, 1, new, total]: 0 for keys up to the place of the query."""
        w = self.w
        past, new = self.size("past_key_values.0.key", 2), self.size("input_ids", 1)
        total = w.add("Add", past, new)
        one, zero = (w.constant(np.array(n, np.int64)) for n in (1, 0))
        keys = w.add("Range", zero, total, one)
        places = w.add("Unsqueeze", w.add("Range", past, total, one), w.integers(1))
        if self.mask == "position_ids":
            places = w.add("Unsqueeze", "position_ids", w.integers(1, 3))
        seen = w.add("LessOrEqual", keys, places)
        if self.mask == "attention_mask":
            kept = w.add("Cast", w.add("Unsqueeze", "attention_mask", w.integers(1, 2)), to=TensorProto.BOOL)
            seen = w.add("And", seen, kept)
        low = w.constant(np.float32(np.finfo(np.float32).min))
        return w.add("Where", seen, w.constant(np.float32(0)), low)

    def normal(self, x: str) -> str:
        """An RMS norm."""
        w = self.w
        mean = w.add("ReduceMean", w.add("Pow", x, w.constant(np.float32(2))), w.integers(-1), keepdims=1)
        root = w.add("Sqrt", w.add("Add", mean, w.constant(np.float32(1e-5))))
        return w.add("Mul", w.weights(self.columns), w.add("Mul", x, w.add("Reciprocal", root)))

    def projected(self, x: str, heads: int) -> str:
        w, width = self.w, self.width
        rows = w.add("MatMul", x, w.weights(self.columns, heads * width))
        shape = w.add(
            "Concat", w.integers(1), self.vector(self.size("input_ids", 1)), w.integers(heads, width), axis=0
        )
        return w.add("Transpose", w.add("Reshape", rows, shape), perm=[0, 2, 1, 3])

    def turned(self, x: str) -> str:
        """A rotary embedding by position_ids."""
        w, half = self.w, self.width // 2
        angles = np.outer(np.arange(LONGEST), 10000.0 ** (-np.arange(half) / half))
        tables = (np.concatenate([f(angles)] * 2, axis=1).astype(np.float32) for f in (np.cos, np.sin))
        cos, sin = (
            w.add("Unsqueeze", w.add("Gather", w.constant(t), "position_ids"), w.integers(1)) for t in tables
        )
        ends = w.integers(0), w.integers(half), w.integers(self.width)
        first = w.add("Slice", x, ends[0], ends[1], w.integers(3))
        second = w.add("Slice", x, ends[1], ends[2], w.integers(3))
        other = w.add("Concat", w.add("Neg", second), first, axis=-1)
        return w.add("Add", w.add("Mul", x, cos), w.add("Mul", other, sin))

    def grown(self, layer: int, what: str, new: str) -> str:
        """The cache with what is new, an output."""
        past, present = f"past_key_values.{layer}.{what}", f"present.{layer}.{what}"
        for name, rows in ((past, "past"), (present, self.total)):
            found = self.inputs if name == past else self.outputs
            found[name] = FLOAT, [1, self.groups, rows, self.width]
        self.w.nodes.append(helper.make_node("Concat", [past, new], [present], name=present, axis=2))
        return present

    def for_queries(self, x: str) -> str:
        """Keys or values repeated for the heads that share them."""
        if self.groups == self.heads:
            return x
        w, size = self.w, self.vector(self.size(x, 2))
        repeats, width = w.integers(self.heads // self.groups), w.integers(self.width)
        wide = w.add("Concat", w.integers(1, self.groups), repeats, size, width, axis=0)
        flat = w.add("Concat", w.integers(1, self.heads), size, width, axis=0)
        return w.add("Reshape", w.add("Expand", w.add("Unsqueeze", x, w.integers(2)), wide), flat)

    def attended(self, layer: int, x: str) -> str:
        """Attention written out."""
        w = self.w
        q, k = self.turned(self.projected(x, self.heads)), self.turned(self.projected(x, self.groups))
        k = self.for_queries(self.grown(layer, "key", k))
        v = self.for_queries(self.grown(layer, "value", self.projected(x, self.groups)))
        scores = w.add("MatMul", q, w.add("Transpose", k, perm=[0, 1, 3, 2]))
        scores = w.add("Mul", scores, w.constant(np.float32(self.width**-0.5)))
        scores = w.add("Add", scores, self.seen())
        return w.add("MatMul", w.add("Softmax", scores, axis=-1), v)

    def operator(self, layer: int, x: str) -> str:
        """The operator Attention, which appends to the cache itself."""
        q, k = self.turned(self.projected(x, self.heads)), self.turned(self.projected(x, self.groups))
        v = self.projected(x, self.groups)
        pasts, presents = (
            [f"{name}.{layer}.{what}" for what in ("key", "value")] for name in ("past_key_values", "present")
        )
        for past, present in zip(pasts, presents, strict=True):
            self.inputs[past] = FLOAT, [1, self.groups, "past", self.width]
            self.outputs[present] = FLOAT, [1, self.groups, self.total, self.width]
        y = f"attended{layer}"
        self.w.nodes.append(
            helper.make_node("Attention", [q, k, v, "", *pasts], [y, *presents], name=y, is_causal=1)
        )
        return y

    def layer(self, layer: int, x: str, written_out: bool) -> str:
        w, columns = self.w, self.columns
        rows = self.normal(x)
        y = w.add(
            "Transpose", (self.attended if written_out else self.operator)(layer, rows), perm=[0, 2, 1, 3]
        )
        shape = w.add(
            "Concat", w.integers(1), self.vector(self.size("input_ids", 1)), w.integers(columns), axis=0
        )
        x = w.add("Add", x, w.add("MatMul", w.add("Reshape", y, shape), w.weights(columns, columns)))
        rows = self.normal(x)
        gate = w.add("MatMul", rows, w.weights(columns, 2 * columns))
        inner = w.add(
            "Mul",
            w.add("Mul", gate, w.add("Sigmoid", gate)),
            w.add("MatMul", rows, w.weights(columns, 2 * columns)),
        )
        return w.add("Add", x, w.add("MatMul", inner, w.weights(2 * columns, columns)))


def decoder(
    layers: int = 1,
    *,
    heads: int = 4,
    groups: int = 2,
    width: int = 16,
    new: str | int = "new",
    mask: str = "attention_mask",
    written_out: bool = True,
) -> ModelProto:
    """A decoder of Llama's kind; ``mask`` is what says which keys a query sees: ``attention_mask`` and the
    places, ``position_ids``, or ``places`` alone; without ``written_out`` attention is one operator."""
    made = _Decoder(heads, groups, width, new, mask)
    w = made.w
    x = w.add("Gather", w.constant(w.normal(WORDS, made.columns)), "input_ids")
    for layer in range(layers):
        x = made.layer(layer, x, written_out)
    logits = w.add("MatMul", made.normal(x), w.weights(made.columns, WORDS))
    outputs = {logits: (FLOAT, [1, new, WORDS]), **made.outputs}
    model = w.model(made.inputs, outputs)
    if not written_out:
        del model.opset_import[:]
        model.opset_import.append(helper.make_opsetid("", 23))
        model.ir_version = 10
    return model


class Expected:
    """A model in onnxruntime, step by step with the cache that really grows."""

    def __init__(self, model: ModelProto, groups: int = 2, width: int = 16) -> None:
        import onnxruntime

        self.session = onnxruntime.InferenceSession(model.SerializeToString())
        self.names = [info.name for info in self.session.get_outputs()]
        self.inputs = {info.name for info in self.session.get_inputs()}
        empty = np.zeros((1, groups, 0, width), np.float32)
        self.cache = {name: empty for name in sorted(self.inputs) if name.startswith("past")}

    def step(self, **inputs: Any) -> Any:
        given = {name: array for name, array in inputs.items() if name in self.inputs}
        found = dict(zip(self.names, self.session.run(None, {**given, **self.cache}), strict=True))
        self.cache = {name: found[name.replace("past_key_values", "present")] for name in self.cache}
        return found[self.names[0]]


def step_inputs(words: Any, past: int) -> dict[str, Any]:
    """The inputs of a step with these words after ``past`` others."""
    ids = np.asarray(words, np.int64)[None]
    places = np.arange(past, past + ids.shape[1])[None]
    return {
        "input_ids": ids,
        "position_ids": places,
        "attention_mask": np.ones((1, past + ids.shape[1]), np.int64),
    }
