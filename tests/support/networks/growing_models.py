"""Decoders whose cache grows with each step, as exporters write them: past and present keys and values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper

from range_models import ModelWriter, Tensors

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
TOTAL = "past + new"
"""The exporters' name for the length of the cache after a step."""
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

    def __init__(
        self, heads: int, groups: int, width: int, new: str | int, mask: str, tables: str = "position_ids"
    ) -> None:
        self.w = ModelWriter(11)
        self.heads, self.groups, self.width, self.mask, self.tables = heads, groups, width, mask, tables
        self.columns = heads * width
        self.rotary, self.more = True, dict[str, Any]()
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
        """The addend of scores, [1, 1, new, total]: 0 for keys up to the place of the query."""
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

    def rows_of_tables(self) -> list[str]:
        """Cosines and sines of the rows of a step, from the source that ``tables`` names."""
        w, half = self.w, self.width // 2
        frequencies = 10000.0 ** (-np.arange(half) / half)
        angles = np.outer(np.arange(LONGEST), frequencies)
        tables = [np.concatenate([f(angles)] * 2, axis=1).astype(np.float32) for f in (np.cos, np.sin)]
        if self.tables == "position_ids":
            taken = [w.add("Gather", w.constant(table), "position_ids") for table in tables]
            return [w.add("Unsqueeze", rows, w.integers(1)) for rows in taken]
        past = self.size("past_key_values.0.key", 2)
        total = w.add("Add", past, self.size("input_ids", 1))
        if self.tables == "sliced":
            ends = self.vector(past), self.vector(total), w.integers(0)
            return [w.add("Slice", w.constant(table), *ends) for table in tables]
        places = w.add("Range", past, total, w.constant(np.array(1, np.int64)))
        if self.tables == "gathered":
            return [w.add("Gather", w.constant(table), places, axis=0) for table in tables]
        column = w.add("Unsqueeze", w.add("Cast", places, to=FLOAT), w.integers(1))
        turned = w.add("Mul", column, w.constant(frequencies.astype(np.float32)))
        return [w.add(op, w.add("Concat", turned, turned, axis=1)) for op in ("Cos", "Sin")]

    def turned(self, x: str) -> str:
        """A rotary embedding."""
        w, half = self.w, self.width // 2
        cos, sin = self.rows_of_tables()
        ends = w.integers(0), w.integers(half), w.integers(self.width)
        first = w.add("Slice", x, ends[0], ends[1], w.integers(3))
        second = w.add("Slice", x, ends[1], ends[2], w.integers(3))
        other = w.add("Concat", w.add("Neg", second), first, axis=-1)
        return w.add("Add", w.add("Mul", x, cos), w.add("Mul", other, sin))

    def grown(self, layer: int, what: str, new: str) -> str:
        """The cache with its new rows, an output."""
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
        return self.merged(w.add("MatMul", w.add("Softmax", scores, axis=-1), v))

    def merged(self, y: str) -> str:
        """The heads of a row side by side."""
        w, new = self.w, self.vector(self.size("input_ids", 1))
        shape = w.add("Concat", w.integers(1), new, w.integers(self.columns), axis=0)
        return w.add("Reshape", w.add("Transpose", y, perm=[0, 2, 1, 3]), shape)

    def caches(self, layer: int) -> tuple[list[str], list[str]]:
        """Names of the keys and values before and after, inputs and outputs."""
        pasts, presents = (
            [f"{name}.{layer}.{what}" for what in ("key", "value")] for name in ("past_key_values", "present")
        )
        for past, present in zip(pasts, presents, strict=True):
            self.inputs[past] = FLOAT, [1, self.groups, "past", self.width]
            self.outputs[present] = FLOAT, [1, self.groups, self.total, self.width]
        return pasts, presents

    def operator(self, layer: int, x: str) -> str:
        """The operator Attention, which appends to the cache itself."""
        q, k = self.turned(self.projected(x, self.heads)), self.turned(self.projected(x, self.groups))
        v = self.projected(x, self.groups)
        pasts, presents = self.caches(layer)
        y = f"attended{layer}"
        self.w.nodes.append(
            helper.make_node("Attention", [q, k, v, "", *pasts], [y, *presents], name=y, is_causal=1)
        )
        return self.merged(y)

    def group_query(self, layer: int, x: str) -> str:
        """GroupQueryAttention as onnxruntime-genai writes it, lengths from the attention mask."""
        w, half = self.w, self.width // 2
        q, k, v = (
            w.add("MatMul", x, w.weights(self.columns, heads * self.width))
            for heads in (self.heads, self.groups, self.groups)
        )
        ones = w.add("ReduceSum", "attention_mask", w.integers(1))
        last = w.add("Cast", w.add("Sub", ones, w.integers(1)), to=TensorProto.INT32)
        total = w.add("Cast", self.size("attention_mask", 1), to=TensorProto.INT32)
        angles = np.outer(np.arange(LONGEST), 10000.0 ** (-np.arange(half) / half))
        tables = [w.constant(f(angles).astype(np.float32)) for f in (np.cos, np.sin)] if self.rotary else []
        pasts, presents = self.caches(layer)
        y = f"attended{layer}"
        node = helper.make_node(
            "GroupQueryAttention",
            [q, k, v, *pasts, last, total, *tables],
            [y, *presents],
            name=y,
            domain="com.microsoft",
            num_heads=self.heads,
            kv_num_heads=self.groups,
            do_rotary=int(self.rotary),
            **self.more,
        )
        w.nodes.append(node)
        return y

    def layer(self, layer: int, x: str, attended: Callable[[int, str], str]) -> str:
        w, columns = self.w, self.columns
        y = attended(layer, self.normal(x))
        x = w.add("Add", x, w.add("MatMul", y, w.weights(columns, columns)))
        rows = self.normal(x)
        gate = w.add("MatMul", rows, w.weights(columns, 2 * columns))
        inner = w.add(
            "Mul",
            w.add("Mul", gate, w.add("Sigmoid", gate)),
            w.add("MatMul", rows, w.weights(columns, 2 * columns)),
        )
        return w.add("Add", x, w.add("MatMul", inner, w.weights(2 * columns, columns)))

    def model(self, x: str) -> ModelProto:
        """The model that predicts words from the last rows."""
        logits = self.w.add("MatMul", self.normal(x), self.w.weights(self.columns, WORDS))
        return self.w.model(self.inputs, {logits: (FLOAT, [1, self.new, WORDS]), **self.outputs})


def decoder(
    layers: int = 1,
    *,
    heads: int = 4,
    groups: int = 2,
    width: int = 16,
    new: str | int = "new",
    mask: str = "attention_mask",
    written_out: bool = True,
    tables: str = "position_ids",
) -> ModelProto:
    """A decoder of Llama's kind. ``mask`` is the source of the mask: ``attention_mask`` and the places,
    ``position_ids``, or only ``places``. Without ``written_out`` attention is one operator.

    ``tables`` is the source of a step's rotary embedding: rows by ``position_ids``, rows ``gathered`` or
    ``sliced`` by the lengths, or rows ``computed`` from these.
    """
    made = _Decoder(heads, groups, width, new, mask, tables)
    w = made.w
    x = w.add("Gather", w.constant(w.normal(WORDS, made.columns)), "input_ids")
    for layer in range(layers):
        x = made.layer(layer, x, made.attended if written_out else made.operator)
    model = made.model(x)
    if not written_out:
        del model.opset_import[:]
        model.opset_import.append(helper.make_opsetid("", 23))
        model.ir_version = 10
    return model


def group_query_decoder(
    layers: int = 1, *, new: str | int = "new", rotary: bool = True, **attrs: Any
) -> ModelProto:
    """A decoder of GroupQueryAttention, with ``attrs``, as the exporters of onnxruntime write it."""
    made = _Decoder(4, 2, 16, new, "attention_mask")
    made.rotary, made.more = rotary, attrs
    x = made.w.add("Gather", made.w.constant(made.w.normal(WORDS, made.columns)), "input_ids")
    for layer in range(layers):
        x = made.layer(layer, x, made.group_query)
    model = made.model(x)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
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
