"""Attention over texts of any length, with heads of any width: against onnxruntime."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper

import tx8

TEXTS = {"batch": (1, 1, 2), "seq": (1, 20, 90)}
SIZES = [(1, 20), (1, 1), (2, 90), (1, 67), (2, 3)]
HEADS = ((32, 2), (80, 2), (64, 4), (96, 4), (128, 2), (256, 2), (256, 4))
LONG = [pytest.param(*case, marks=pytest.mark.long) for case in HEADS]


def attention(queries: Any, keys: Any, **attributes: Any) -> ModelProto:
    """Attention of queries [batch, heads, rows, width] over keys and values [batch, groups, columns, ...]."""

    def value(name: str, shape: Any) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    inputs = [value("q", ["batch", *queries]), *(value(name, ["batch", *keys]) for name in "kv")]
    node = helper.make_node("Attention", ["q", "k", "v"], ["y"], name="attend", **attributes)
    outputs = [value("y", ["batch", *queries[:-1], keys[-1]])]
    graph = helper.make_graph([node], "attention", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)


@cache
def texts(width: int, heads: int, dtype: str = "fp16", tiles: int = 16) -> tuple[ModelProto, tx8.Program]:
    """The mask is causal, and heads share keys."""
    model = attention((heads, "seq", width), (2, "seq", width), is_causal=int(heads > 2))
    return model, tx8.compile(model, dtype=dtype, tiles=tiles, dims=TEXTS)


def compared(model: ModelProto, program: tx8.Program, error: float, **sizes: int) -> tx8.Run:
    """A run at some sizes, whose result is that of onnxruntime."""
    session, rng = onnxruntime.InferenceSession(model.SerializeToString()), np.random.default_rng(7)
    shapes = {each.name: [sizes.get(size, size) for size in each.shape] for each in session.get_inputs()}
    inputs = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    run, (wanted,) = program.run(inputs, timed=False), session.run(None, inputs)
    assert run[0].shape == wanted.shape
    assert np.abs(run[0] - wanted).max() < error * max(np.abs(wanted).max(), 1)
    return run


@pytest.mark.parametrize(("width", "heads"), [(128, 4), *LONG])
def test_heads_of_any_width(width: int, heads: int) -> None:
    model, program = texts(width, heads)
    for batch, seq in SIZES:
        compared(model, program, 2e-3, batch=batch, seq=seq)


@pytest.mark.parametrize(
    ("dtype", "error"), [("fp32", 2e-6), pytest.param("bf16", 2e-2, marks=pytest.mark.long)]
)
def test_in_other_formats(dtype: str, error: float) -> None:
    model, program = texts(128, 4, dtype)
    for batch, seq in SIZES:
        compared(model, program, error, batch=batch, seq=seq)


@pytest.mark.long
@pytest.mark.parametrize("tiles", [1, 2])
def test_on_fewer_tiles(tiles: int) -> None:
    model, program = texts(80, 2, tiles=tiles)
    for batch, seq in SIZES:
        compared(model, program, 2e-3, batch=batch, seq=seq)


def test_queries_and_keys_of_two_lengths() -> None:
    model = attention((2, "rows", 128), (2, "columns", 128))
    program = tx8.compile(
        model, dtype="fp16", dims={"batch": (1, 1, 2), "rows": (1, 9, 40), "columns": (1, 30, 70)}
    )
    for batch, rows, columns in ((1, 1, 1), (2, 40, 70), (1, 37, 5), (2, 2, 67)):
        compared(model, program, 2e-3, batch=batch, rows=rows, columns=columns)


@pytest.mark.long
@pytest.mark.parametrize("free", ["queries", "keys"])
def test_one_of_the_lengths_is_known(free: str) -> None:
    rows, columns = ("n", 50) if free == "queries" else (5, "n")
    model = attention((2, rows, 128), (2, columns, 128))
    program = tx8.compile(model, dtype="fp16", dims={"batch": (1, 1, 2), "n": (1, 9, 40)})
    for batch, n in ((1, 1), (2, 40), (1, 37), (2, 2)):
        compared(model, program, 2e-3, batch=batch, n=n)


def test_the_sanitizer_finds_nothing() -> None:
    model, program = texts(128, 4)
    assert compared(model, program, 2e-3, batch=2, seq=67).hazards == ()
