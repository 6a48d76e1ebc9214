"""Nodes of old operator sets keep their meaning, compared with onnxruntime, or with NumPy if it lacks
them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from compiler.evaluation.reference import run_reference
from compiler.operators import OPERATORS
from onnx_models import assert_same, draw, imported, model, operators
from onnx_oracle import onnxruntime

SHAPES = {"x": (2, 3, 4, 5)}


@pytest.mark.parametrize(
    ("op", "opset", "attrs", "outputs"),
    [
        ("Softmax", 7, {}, 1),
        ("Softmax", 11, {"axis": 2}, 1),
        ("Softmax", 12, {"axis": -1}, 1),
        ("Softmax", 12, {"axis": 0}, 1),
        ("Softmax", 13, {"axis": 1}, 1),
        ("LogSoftmax", 11, {"axis": 1}, 1),
        ("Unsqueeze", 11, {"axes": [0, 3]}, 1),
        ("ReduceSum", 11, {"axes": [1, -1], "keepdims": 0}, 1),
        ("ReduceMean", 13, {"axes": [2]}, 1),
        ("ReduceMax", 12, {}, 1),
        ("Split", 11, {"axis": 2, "split": [1, 3]}, 2),
        ("Split", 13, {"axis": 2}, 2),
        ("Slice", 9, {"starts": [1, 0], "ends": [3, 4], "axes": [2, 3]}, 1),
        ("Pad", 10, {"pads": [0, 0, 1, 2, 0, 0, 0, 3], "value": 1.5}, 1),
        ("Clip", 6, {"min": -0.5, "max": 0.25}, 1),
        ("Clip", 10, {"max": 0.25}, 1),
        ("AveragePool", 10, {"kernel_shape": [2, 2]}, 1),
        ("Flatten", 9, {"axis": 2}, 1),
    ],
)
def test_attributes_of_old_sets(
    op: str, opset: int, attrs: dict[str, Any], outputs: int, tmp_path: Path
) -> None:
    names = ["y", "z"][:outputs]
    made = model([helper.make_node(op, ["x"], names, **attrs)], SHAPES, names, opset=opset, ir_version=8)
    graph, inputs = imported(made, tmp_path), draw(SHAPES)
    got = run_reference(graph, inputs)
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    for name, want in zip(names, session.run(names, inputs), strict=True):
        assert got[name].shape == want.shape
        np.testing.assert_allclose(got[name], want, rtol=1e-5, atol=1e-6)


def test_squeeze_of_old_sets(tmp_path: Path) -> None:
    node = helper.make_node("Squeeze", ["x"], ["y"], axes=[1])
    assert_same(model([node], {"x": (3, 1, 5)}, opset=11), {"x": (3, 1, 5)}, tmp_path)


@pytest.mark.parametrize("opset", [7, 9, 14])
def test_batch_normalization(opset: int, tmp_path: Path) -> None:
    shapes = {"x": (2, 3, 4, 5)}
    constants = {name: array[0] for name, array in draw(dict.fromkeys("abc", (1, 3))).items()}
    constants["v"] = np.array([0.5, 1.0, 2.0], np.float32)
    node = helper.make_node("BatchNormalization", ["x", "a", "b", "c", "v"], ["y"], epsilon=1e-3)
    made = model([node], shapes, constants=constants, opset=opset)
    x = draw(shapes)["x"]
    a, b, c, v = (constants[name].reshape(3, 1, 1) for name in "abcv")
    got = run_reference(imported(made, tmp_path), {"x": x})["y"]
    np.testing.assert_allclose(got, (x - c) / np.sqrt(v + 1e-3) * a + b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("opset", [7, 10, 12, 13])
def test_dropout_is_the_identity_and_its_mask_keeps_all(opset: int, tmp_path: Path) -> None:
    made = model([helper.make_node("Dropout", ["x"], ["y", "mask"])], SHAPES, ("y", "mask"), opset=opset)
    graph, inputs = imported(made, tmp_path), draw(SHAPES)
    got = run_reference(graph, inputs)
    assert np.array_equal(got["y"], inputs["x"])
    assert got["mask"].shape == (2, 3, 4, 5) and np.all(got["mask"] == 1)
    assert graph.tensors["mask"].dtype == ("bool" if opset >= 10 else "float32")


@pytest.mark.parametrize("op", ["Add", "Mul", "Sub", "Div"])
@pytest.mark.parametrize("axis", [0, 1, 2, None])
def test_broadcasting_before_opset_7(op: str, axis: int | None, tmp_path: Path) -> None:
    rank = {0: (2, 3), 1: (3, 4), 2: (4, 5), None: (4, 5)}[axis]
    attrs = {"broadcast": 1} | ({} if axis is None else {"axis": axis})
    made = model([helper.make_node(op, ["x", "s"], ["y"], **attrs)], {**SHAPES, "s": rank}, opset=6)
    inputs = draw({**SHAPES, "s": rank})
    behind = (1,) * (4 - (2 if axis is None else axis) - 2)
    function = {"Add": np.add, "Mul": np.multiply, "Sub": np.subtract, "Div": np.divide}[op]
    wide = [inputs["x"].astype(np.float64), inputs["s"].astype(np.float64).reshape(*rank, *behind)]
    np.testing.assert_allclose(run_reference(imported(made, tmp_path), inputs)["y"], function(*wide))


def test_slope_per_channel_before_opset_7(tmp_path: Path) -> None:
    if "PRelu" not in OPERATORS:
        pytest.skip("PRelu has no record")
    slope = np.array([0.1, 0.2, 0.3], np.float32)
    made = model([helper.make_node("PRelu", ["x", "s"], ["y"])], SHAPES, constants={"s": slope}, opset=6)
    x = draw(SHAPES)["x"]
    want = np.where(x < 0, x * slope.reshape(3, 1, 1), x)
    np.testing.assert_allclose(run_reference(imported(made, tmp_path), {"x": x})["y"], want, rtol=1e-6)


def test_initializers_among_the_inputs_are_constants(tmp_path: Path) -> None:
    made = model(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        {"x": (3,), "w": (3,)},
        constants={"w": np.ones(3, np.float32)},
        opset=9,
        ir_version=3,
    )
    graph = imported(made, tmp_path)
    assert [tensor.name for tensor in graph.inputs] == ["x"]
    assert operators(graph) == ["Add"]


def test_a_new_enough_node_stays_as_it_is(tmp_path: Path) -> None:
    node = helper.make_node("Relu", ["x"], ["y"], name="r")
    for opset in (7, 13, 20):
        graph = imported(model([node], SHAPES, opset=opset), tmp_path)
        assert [(n.op, n.name) for n in graph.nodes] == [("Relu", "r")]


@pytest.mark.parametrize("opset", [1, 2, 3, 4, 5])
def test_sets_for_which_onnx_names_no_version_of_its_format(opset: int, tmp_path: Path) -> None:
    """Operators that have not changed since are the same (found by ``models 8150``)."""
    made = model(
        [helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0])], {"x": (3, 5)}, opset=opset, ir_version=3
    )
    graph, inputs = imported(made, tmp_path), draw({"x": (3, 5)})
    np.testing.assert_array_equal(run_reference(graph, inputs)["y"], inputs["x"].T)


@pytest.mark.parametrize("opset", [18, 19, 20])
def test_group_normalization_before_opset_21(opset: int, tmp_path: Path) -> None:
    """ONNX has withdrawn it, with one scale for each group; onnxruntime still runs it."""
    scale, bias = np.array([2.0, 0.5], np.float32), np.array([1.0, -1.0], np.float32)
    constants = {"s": scale, "b": bias}
    node = helper.make_node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=2)
    made = model([node], {"x": (2, 6, 3, 4)}, constants=constants, opset=opset, ir_version=8)
    x = draw({"x": (2, 6, 3, 4)})["x"]
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, {"x": x})
    np.testing.assert_allclose(run_reference(imported(made, tmp_path), {"x": x})["y"], wanted, atol=1e-5)
