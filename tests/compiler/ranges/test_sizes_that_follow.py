"""Sizes derived from others: extents after windows with strides, then their products and sums."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto

import tx8
from range_models import ModelWriter

LINES = {"batch": (1, 1, 2), "width": (20, 60, 160)}
WIDTHS = [(1, 60), (1, 20), (2, 21), (1, 159), (2, 160), (2, 77)]


def reader(kernel: int = 3, pads: Sequence[int] = (1, 1, 1, 1), batch: int | str = "batch") -> ModelProto:
    """Three convolutions of stride 2, the mean of the rows, then attention over the remaining width."""
    w = ModelWriter(4)
    x, inner = "x", 1
    for outer in (8, 16, 32):
        weights = w.constant(w.normal(outer, inner, kernel, kernel) / np.float32(kernel * np.sqrt(inner)))
        x, inner = w.add("Relu", w.add("Conv", x, weights, strides=[2, 2], pads=list(pads))), outer
    words = w.add("Transpose", w.add("ReduceMean", x, w.integers(2), keepdims=0), perm=[0, 2, 1])
    shape = w.integers(0, 0, 2, 16)
    orders = ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
    q, k, v = (
        w.add("Transpose", w.add("Reshape", w.add("MatMul", words, w.weights(32, 32)), shape), perm=order)
        for order in orders
    )
    scores = w.add("Softmax", w.add("Mul", w.add("MatMul", q, k), w.constant(np.float32(0.25))))
    seen = w.add("Transpose", w.add("MatMul", scores, v), perm=[0, 2, 1, 3])
    last = w.add("Reshape", seen, w.integers(0, 0, 32))
    return w.model(
        {"x": (TensorProto.FLOAT, [batch, 1, 32, "width"])}, {last: (TensorProto.FLOAT, [batch, "words", 32])}
    )


def patches() -> ModelProto:
    """Attention over patches of 8 x 8 pixels of an image of any size, with a token before them."""
    w = ModelWriter(5)
    weights = w.constant(w.normal(16, 3, 8, 8) / np.float32(14))
    rows = w.add("Reshape", w.add("Conv", "x", weights, strides=[8, 8]), w.integers(0, 0, -1))
    rows = w.add("Transpose", rows, perm=[0, 2, 1])
    batch = w.add("Slice", w.add("Shape", "x"), w.integers(0), w.integers(1))
    token = w.add("Expand", w.constant(w.normal(1, 1, 16)), w.add("Concat", batch, w.integers(1, 16), axis=0))
    rows = w.add("Concat", token, rows, axis=1)
    q, k = (w.add("MatMul", rows, w.weights(16, 16)) for _ in range(2))
    scores = w.add("Softmax", w.add("MatMul", q, w.add("Transpose", k, perm=[0, 2, 1])))
    last = w.add("MatMul", scores, rows)
    sizes = ["batch", 3, "height", "width"]
    return w.model({"x": (TensorProto.FLOAT, sizes)}, {last: (TensorProto.FLOAT, ["batch", "words", 16])})


def joined() -> ModelProto:
    """Two joined texts of any length."""
    w = ModelWriter(6)
    last = w.add("Softmax", w.add("Concat", "x", "z", axis=1), axis=1)
    inputs = {name: (TensorProto.FLOAT, ["batch", size, 16]) for name, size in (("x", "n"), ("z", "m"))}
    return w.model(inputs, {last: (TensorProto.FLOAT, ["batch", "all", 16])})


def compare(
    model: ModelProto,
    dims: Mapping[str, tuple[int, int, int]],
    sizes: Sequence[tuple[int, ...]],
    error: float = 5e-3,
    dtype: str = "fp16",
) -> tx8.Program:
    program = tx8.compile(model, dtype=dtype, dims=dims)
    session, rng = onnxruntime.InferenceSession(model.SerializeToString()), np.random.default_rng(2)
    for at in (dict(zip(dims, each, strict=True)) for each in sizes):
        shapes = {each.name: [at.get(size, size) for size in each.shape] for each in session.get_inputs()}
        inputs = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
        run, (wanted,) = program.run(inputs, timed=False), session.run(None, inputs)
        assert run[0].shape == wanted.shape, at
        assert np.abs(run[0] - wanted).max() < error * max(np.abs(wanted).max(), 1e-2), at
        assert run.hazards == (), at
    return program


def test_attention_over_what_strides_leave_of_a_width() -> None:
    """At widths below 16 one word remains, for which graphs have another structure; formulas hold there,
    too."""
    program = compare(reader(batch=1), {"width": (8, 24, 48)}, [(24,), (8,), (9,), (47,), (48,), (15,)])
    assert re.search(r'.extents output, "\w+", 1, "@1", 32', program.text)


@pytest.mark.long
@pytest.mark.parametrize(
    ("kernel", "pads", "dtype", "error"),
    [(3, (0, 0, 0, 0), "fp16", 5e-3), (5, (2, 1, 2, 1), "fp16", 1e-2), (3, (1, 1, 1, 1), "fp32", 1e-5)],
)
def test_other_windows(kernel: int, pads: Sequence[int], dtype: str, error: float) -> None:
    compare(reader(kernel, pads), LINES, WIDTHS, error, dtype)


@pytest.mark.long
def test_patches_of_images_of_any_height_and_width() -> None:
    dims = {"batch": (1, 1, 2), "height": (16, 32, 50), "width": (16, 40, 60)}
    compare(patches(), dims, [(1, 32, 40), (1, 16, 16), (2, 50, 60), (1, 33, 59), (2, 47, 23)])


def test_a_length_that_is_the_sum_of_two() -> None:
    dims = {"batch": (1, 1, 2), "n": (1, 4, 9), "m": (1, 7, 20)}
    compare(joined(), dims, [(1, 4, 7), (2, 1, 1), (2, 9, 20), (1, 3, 17)], 2e-3)
