"""Windows and strides beyond the engines' limits, on the emulated chip against onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

import compiler
from compiler.graph import Array
from compiler.tools import run
from onnx_models import draw, imported, model
from onnx_oracle import onnxruntime

Shape = tuple[int, ...]


def sums_of(op: str, shapes: dict[str, Shape], **attrs: Any) -> tuple[Any, dict[str, Array]]:
    """A model of one operator whose weights are constants, and its input."""
    arrays = draw(shapes)
    known = {name: array for name, array in arrays.items() if name != "x"}
    node = helper.make_node(op, list(shapes), ["y"], name="n", **attrs)
    return model([node], {"x": shapes["x"]}, constants=known, opset=21), {"x": arrays["x"]}


def by_onnxruntime(made: Any, feeds: dict[str, Array]) -> Array:
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, feeds)[0])


def on_chip(made: Any, feeds: dict[str, Array], folder: Path, dtype: str) -> Array:
    program = compiler.compile(imported(made, folder), dtype, tiles=4)
    return np.asarray(run.execute(program, feeds)[0]["y"])


def assert_as_onnxruntime(made: Any, feeds: dict[str, Array], folder: Path, dtype: str = "fp32") -> None:
    wanted, found = by_onnxruntime(made, feeds), on_chip(made, feeds, folder, dtype)
    assert found.shape == wanted.shape
    tolerance = {"fp32": 1e-5, "fp16": 2e-3}[dtype] * np.abs(wanted).max()
    np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
@pytest.mark.parametrize(
    ("x", "w", "attrs"),
    [
        ((1, 1, 1500), (6, 1, 512), {"strides": [128]}),
        ((2, 3, 700), (4, 3, 256), {}),
        ((1, 2, 900), (3, 2, 600), {"pads": [299, 300], "strides": [2]}),
        ((1, 2, 5000), (5, 2, 100), {"strides": [1200], "pads": [20, 0]}),
        ((1, 2, 6000), (5, 2, 1500), {"strides": [1100]}),
        ((1, 2, 3000), (3, 2, 3), {"dilations": [1100]}),
        ((1, 1, 2000), (3, 1, 300), {"dilations": [3], "pads": [5, 6]}),
        ((1, 4, 600), (8, 1, 300), {"group": 4, "strides": [3]}),
        ((1, 2, 700, 5), (3, 2, 300, 3), {"strides": [4, 2], "pads": [1, 1, 2, 1]}),
        ((1, 1, 4, 800), (3, 1, 2, 257), {"dilations": [2, 1]}),
        ((1, 2, 1200), (3, 2, 1200), {}),
        ((1, 1, 2600), (2, 1, 200), {"pads": [1100, 0], "dilations": [7]}),
    ],
    ids=str,
)
def test_convolutions(x: Shape, w: Shape, attrs: dict[str, Any], dtype: str, tmp_path: Path) -> None:
    made, feeds = sums_of("Conv", {"x": x, "w": w, "b": w[:1]}, **attrs)
    assert_as_onnxruntime(made, feeds, tmp_path, dtype)


@pytest.mark.long
def test_computed_weights(tmp_path: Path) -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="n", strides=[2], dilations=[2])
    shapes = {"x": (1, 2, 900), "w": (3, 2, 260)}
    assert_as_onnxruntime(model([node], shapes, opset=21), draw(shapes), tmp_path)


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(
    ("x", "attrs"),
    [
        ((2, 3, 900), {"kernel_shape": [256]}),
        ((1, 3, 900), {"kernel_shape": [700], "strides": [3], "pads": [100, 50]}),
        ((1, 3, 5000), {"kernel_shape": [200], "strides": [1300]}),
        ((1, 3, 5000), {"kernel_shape": [1500], "strides": [1200], "ceil_mode": 1}),
        ((1, 3, 300, 6), {"kernel_shape": [260, 2], "strides": [8, 2]}),
        ((1, 3, 5, 700), {"kernel_shape": [3, 300], "strides": [1, 200], "pads": [1, 20, 1, 20]}),
        ((1, 3, 6, 4000), {"kernel_shape": [3, 10], "strides": [2, 1024]}),
    ],
    ids=str,
)
def test_pools(op: str, x: Shape, attrs: dict[str, Any], tmp_path: Path) -> None:
    made, feeds = sums_of(op, {"x": x}, **attrs)
    assert_as_onnxruntime(made, feeds, tmp_path)


def test_an_average_that_counts_the_padding(tmp_path: Path) -> None:
    made, feeds = sums_of(
        "AveragePool", {"x": (1, 3, 600)}, kernel_shape=[300], pads=[80, 9], count_include_pad=1
    )
    assert_as_onnxruntime(made, feeds, tmp_path)
    assert_as_onnxruntime(made, feeds, tmp_path, "fp16")


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_a_pool_of_bytes(dtype: Any, tmp_path: Path) -> None:
    made, feeds = sums_of("MaxPool", {"x": (1, 5, 700)}, kernel_shape=[300], strides=[7])
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    made.graph.input[0].type.tensor_type.elem_type = kind
    feeds = {"x": np.random.default_rng(3).integers(-100, 100, (1, 5, 700)).astype(dtype)}
    np.testing.assert_array_equal(on_chip(made, feeds, tmp_path, "fp16"), by_onnxruntime(made, feeds))


def test_a_convolution_of_bytes(tmp_path: Path) -> None:
    """The bytes become floats: products of bytes have kernels of at most 255."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "ws"], ["wd"]),
        helper.make_node("Conv", ["d", "wd"], ["y"], strides=[5]),
    ]
    known = {
        "s": np.float32(0.03),
        "z": np.uint8(128),
        "w": np.random.default_rng(4).integers(-63, 64, (3, 2, 300)).astype(np.int8),
        "ws": np.float32(0.01),
    }
    made = model(nodes, {"x": (1, 2, 700)}, constants=known, opset=21)
    assert_as_onnxruntime(made, draw({"x": (1, 2, 700)}), tmp_path)
