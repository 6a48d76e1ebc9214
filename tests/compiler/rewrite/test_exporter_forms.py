"""Models written by the exporters of PyTorch: the operators that they become, and onnxruntime's numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

import compiler
from compiler.graph import Array, Graph
from compiler.rewrite import rewrite_graph
from compiler.tools import run
from compiler_harness import NodeSpec, draw
from onnx_models import draw as drawn
from onnx_models import imported, model, operators
from onnx_oracle import onnxruntime
from rewrite_harness import becomes, number, stays

Shapes = Mapping[str, Sequence[int]]
LIMITS = {"fp32": 0.9999, "fp16": 0.999, "bf16": 0.995}
"""The least cosine by compute format."""

node = helper.make_node


def by_onnxruntime(made: Any, inputs: Mapping[str, Array]) -> Array:
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(["y"], dict(inputs))[0], np.float64)


def assert_runs(made: Any, shapes: Shapes, folder: Path, dtype: str, scale: float = 1.0) -> Graph:
    """Compare the model on the emulated chip with onnxruntime; the graph after the rewrites."""
    graph = imported(made, folder)
    inputs = {name: array * np.float32(scale) for name, array in drawn(shapes).items()}
    wanted = by_onnxruntime(made, inputs)
    found = np.asarray(run.execute(compiler.compile(graph, dtype), inputs)[0]["y"], np.float64)
    assert found.shape == wanted.shape and np.isfinite(found).all()
    cosine = (found * wanted).sum() / np.sqrt((found**2).sum() * (wanted**2).sum())
    assert cosine >= LIMITS[dtype]
    np.testing.assert_allclose(np.linalg.norm(found), np.linalg.norm(wanted), rtol=2e-2)
    return rewrite_graph(graph)


def causal(length: int) -> Array:
    """Minus infinity above the diagonal."""
    return np.triu(np.full((length, length), -np.inf, np.float32), 1)[None, None]


# --- attention -------------------------------------------------------------------------------------------


def attention(masked: bool) -> list[Any]:
    """scaled_dot_product_attention of q, k, v [1, 4, 12, 8]: K is transposed as three axes, both factors are
    scaled, and rows without weights are zeros."""
    return [
        node("Reshape", ["k", "three"], ["k3"]),
        node("Transpose", ["k3"], ["t3"], perm=[0, 2, 1]),
        node("Reshape", ["t3", "four"], ["t"]),
        node("Mul", ["q", "root"], ["qs"]),
        node("Mul", ["t", "root"], ["ts"]),
        node("MatMul", ["qs", "ts"], ["p"]),
        *([node("Add", ["p", "mask"], ["s"])] if masked else []),
        node("Softmax", ["s" if masked else "p"], ["w"], axis=-1),
        node("IsNaN", ["w"], ["n"]),
        node("Where", ["n", "zero", "w"], ["g"]),
        node("MatMul", ["g", "v"], ["y"]),
    ]


HEADS: Shapes = dict.fromkeys("qkv", (1, 4, 12, 8))
NUMBERS = {
    "three": np.array([-1, 12, 8]),
    "four": np.array([1, 4, 8, 12]),
    "root": number(8**-0.25),
    "zero": number(0),
}


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("masked", [False, True])
def test_scaled_dot_product_attention(masked: bool, dtype: str, tmp_path: Path) -> None:
    made = model(attention(masked), HEADS, constants={**NUMBERS, "mask": causal(12)}, ir_version=10)
    after = assert_runs(made, HEADS, tmp_path, dtype)
    (fused,) = (item for item in after.nodes if item.op == "FusedAttention")
    assert fused.attrs["scale"] == pytest.approx(8**-0.5)
    assert {"Softmax", "IsNaN", "Where", "MatMul"}.isdisjoint(operators(after))


def test_rows_without_weights_stay_zeros(tmp_path: Path) -> None:
    """The mask hides all scores of a row, so its softmax is NaN, and the attention makes the row 0."""
    mask = causal(12)
    mask[..., 5, :] = -np.inf
    made = model(attention(True), HEADS, constants={**NUMBERS, "mask": mask}, ir_version=10)
    after = assert_runs(made, HEADS, tmp_path, "fp32")
    (fused,) = after.nodes
    assert fused.op == "FusedAttention" and fused.attrs["zero_rows"] == 1


@pytest.mark.parametrize("dtype", LIMITS)
def test_two_masks_and_keys_that_all_heads_share(dtype: str, tmp_path: Path) -> None:
    """A bias of positions and a mask; K and V have one head."""
    nodes = [
        node("Transpose", ["k"], ["t"], perm=[0, 1, 3, 2]),
        node("MatMul", ["q", "t"], ["p"]),
        node("Div", ["p", "eight"], ["s"]),
        node("Add", ["s", "bias"], ["b"]),
        node("Add", ["mask", "b"], ["m"]),
        node("Softmax", ["m"], ["w"], axis=-1),
        node("MatMul", ["w", "v"], ["y"]),
    ]
    shapes: Shapes = {"q": (2, 4, 12, 8), "k": (2, 1, 9, 8), "v": (2, 1, 9, 8), "mask": (2, 1, 1, 9)}
    constants = {"eight": number(8**0.5), "bias": draw(1, 4, 12, 9, seed=7)}
    after = assert_runs(model(nodes, shapes, constants=constants, ir_version=10), shapes, tmp_path, dtype)
    assert "FusedAttention" in operators(after) and "Softmax" not in operators(after)


def test_queries_that_heads_share_are_no_attention() -> None:
    nodes: list[NodeSpec] = [
        ("MatMul", ["q", "k"], ["p"], {}),
        ("Softmax", ["p"], ["w"], {}),
        ("MatMul", ["w", "v"], ["y"], {}),
    ]
    stays(nodes, {"q": (2, 1, 5, 8), "k": (2, 4, 8, 9), "v": (2, 4, 9, 8)}, {})


def taken(x: tuple[int, ...], indices: Any) -> tuple[list[NodeSpec], dict[str, Any], dict[str, Array]]:
    return [("GatherND", ["x", "i"], ["y"], {})], {"x": x}, {"i": np.array(indices)}


def test_elements_that_are_taken_by_known_indices() -> None:
    """PyTorch writes x[:, [-2]] and padding masks in this form."""
    becomes(*taken((6, 2, 3), [[-2]]), ["Slice"])
    becomes(*taken((6, 2, 3), [[4], [1]]), ["Gather"])
    everything = np.stack(np.meshgrid(np.arange(2), np.arange(5), indexing="ij"), -1)
    becomes(*taken((2, 5, 3), everything[:, None]), ["Reshape"])
    becomes(*taken((2, 5, 3), everything - [2, 5]), ["Identity"])
    stays(*taken((2, 5, 3), everything[:, ::-1]))
    stays(*taken((2, 5, 3), everything[:1]))


GUARDED: list[NodeSpec] = [
    ("Add", ["p", "mask"], ["s"], {}),
    ("Softmax", ["s"], ["w"], {"axis": -1}),
    ("IsNaN", ["w"], ["n"], {}),
    ("Where", ["n", "zero", "w"], ["y"], {}),
]


def guarded(**changed: Any) -> list[NodeSpec]:
    """The guard after a product; operators are given by their results."""
    nodes: list[NodeSpec] = [("MatMul", ["q", "k"], ["p"], {}), *GUARDED]
    return [changed.get(spec[2][0], spec) for spec in nodes]


def test_a_guard_that_nothing_needs() -> None:
    shapes, mask = {"q": (2, 3, 5), "k": (2, 5, 4)}, draw(3, 4)
    numbers = {"mask": mask, "zero": number(0)}
    becomes(guarded(), shapes, numbers, ["MatMul", "Add", "Softmax", "Identity"])
    mask[1, 1:] = -np.inf
    becomes(guarded(), shapes, numbers, ["MatMul", "Add", "Softmax", "Identity"])


def test_a_mask_that_is_computed_of_finite_numbers(tmp_path: Path) -> None:
    """A padding mask replaces scores by the lowest FP32 number; fully masked rows get equal weights."""
    nodes = [
        node("Greater", ["m", "zero"], ["taken"]),
        node("Where", ["taken", "zero", "lowest"], ["mask"]),
        *attention(True),
    ]
    shapes: Shapes = {**HEADS, "m": (1, 1, 12, 12)}
    numbers = {**NUMBERS, "lowest": number(np.finfo(np.float32).min)}
    made = model(nodes, shapes, constants=numbers, ir_version=10)
    for dtype in LIMITS:
        after = assert_runs(made, shapes, tmp_path, dtype)
        assert "FusedAttention" in operators(after) and "IsNaN" not in operators(after)
    numbers["lowest"] = number(-np.inf)
    after = assert_runs(model(nodes, shapes, constants=numbers, ir_version=10), shapes, tmp_path, "fp32")
    assert "IsNaN" not in operators(after) and after.nodes[-1].attrs["zero_rows"] == 1


def test_a_guard_that_something_may_need() -> None:
    shapes, numbers = {"q": (2, 3, 5), "k": (2, 5, 4)}, {"mask": causal(4)[0, 0, :3], "zero": number(0)}
    stays(guarded(), {**shapes, "mask": (3, 4)}, {"zero": number(0)})
    stays(guarded(), shapes, {**numbers, "zero": number(1)})
    stays(guarded(y=("Where", ["n", "w", "zero"], ["y"], {})), shapes, numbers)
    stays(guarded(w=("Softmax", ["s"], ["w"], {"axis": 1})), shapes, numbers)
    stays(guarded(n=("IsNaN", ["p"], ["n"], {})), shapes, numbers)
    stays(GUARDED, {"p": (2, 3, 4)}, numbers)
    stays(guarded(), shapes, numbers, outputs=("y", "w"))


def test_a_shape_between_transposes_of_matrices() -> None:
    """A transpose between reshapes to three axes and back is a transpose of the matrices."""
    nodes: list[NodeSpec] = [
        ("Reshape", ["x", "a"], ["r"], {}),
        ("Transpose", ["r"], ["t"], {"perm": (0, 2, 1)}),
        ("Reshape", ["t", "b"], ["y"], {}),
    ]
    becomes(
        nodes, {"x": (2, 3, 4, 5)}, {"a": np.array([6, 4, 5]), "b": np.array([2, 3, 5, 4])}, ["Transpose"]
    )
    becomes(
        nodes,
        {"x": (6, 20)},
        {"a": np.array([6, 4, 5]), "b": np.array([2, 3, 5, 4])},
        ["Reshape", "Transpose"],
    )


@pytest.mark.parametrize(
    ("before", "perm", "behind"),
    [
        ([6, 4, 5], (0, 2, 1), [6, 20]),  # the matrices are split
        ([6, 4, 5], (0, 2, 1), [2, 15, 4]),
        ([4, 6, 5], (1, 0, 2), [2, 3, 4, 5]),  # the first axis moves
    ],
)
def test_shapes_that_stay_behind_transposes(
    before: list[int], perm: tuple[int, ...], behind: list[int]
) -> None:
    nodes: list[NodeSpec] = [
        ("Reshape", ["x", "a"], ["r"], {}),
        ("Transpose", ["r"], ["t"], {"perm": perm}),
        ("Reshape", ["t", "b"], ["y"], {}),
    ]
    stays(nodes, {"x": (8, 15)}, {"a": np.array(before), "b": np.array(behind)})


# --- groups of channels ----------------------------------------------------------------------------------


def group_norm(groups: int, channels: int) -> tuple[list[NodeSpec], dict[str, Array]]:
    """GroupNorm of an image [2, channels, 3, 5], expressed with InstanceNormalization."""
    nodes: list[NodeSpec] = [
        ("Reshape", ["x", "flat"], ["f"], {}),
        ("InstanceNormalization", ["f", "ones", "zeros"], ["i"], {"epsilon": 1e-3}),
        ("Reshape", ["i", "shape"], ["r"], {}),
        ("Mul", ["r", "gamma"], ["m"], {}),
        ("Add", ["beta", "m"], ["y"], {}),
    ]
    constants = {
        "flat": np.array([0, groups, -1]),
        "shape": np.array([2, channels, 3, 5]),
        "ones": draw(groups, seed=1),
        "zeros": draw(groups, seed=2),
        "gamma": draw(channels, 1, 1, seed=3),
        "beta": draw(1, channels, 1, 1, seed=4),
    }
    return nodes, constants


@pytest.mark.parametrize(("groups", "channels"), [(4, 12), (1, 6), (6, 6)])
def test_group_normalization(groups: int, channels: int) -> None:
    nodes, constants = group_norm(groups, channels)
    after = becomes(nodes, {"x": (2, channels, 3, 5)}, constants, ["NormalizedGroups"])
    assert after.nodes[0].attrs == {"groups": groups, "epsilon": pytest.approx(1e-3)}


def test_what_is_no_group_normalization() -> None:
    nodes, constants = group_norm(4, 12)
    shapes = {"x": (2, 12, 3, 5)}
    whole = {**constants, "gamma": draw(1, 12, 3, 1, seed=3)}
    becomes(nodes, shapes, whole, ["NormalizedGroups", "Mul", "Add"])
    becomes(nodes, shapes, constants, ["NormalizedGroups", "Mul", "Add"], outputs=("y", "r"))
    stays(nodes, shapes, constants, outputs=("y", "i"))
    stays(nodes, {**shapes, "ones": (4,)}, {n: a for n, a in constants.items() if n != "ones"})
    uneven = {**constants, "flat": np.array([8, 4, -1]), "shape": np.array([2, 12, 3, 5])}
    stays(nodes, shapes, {**uneven, "flat": np.array([1, 8, -1]), "ones": draw(8), "zeros": draw(8)})


FLOOR = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}


@pytest.mark.parametrize("dtype", LIMITS)
def test_a_residual_block_with_group_normalization(dtype: str, tmp_path: Path) -> None:
    """Convolution, GroupNorm, SiLU, upsampling: the normalization and what follows are one phase."""
    nodes = [
        node("Conv", ["x", "weights"], ["c"], pads=[1, 1, 1, 1]),
        node("Reshape", ["c", "flat"], ["f"]),
        node("InstanceNormalization", ["f", "ones", "zeros"], ["i"], epsilon=1e-5),
        node("Reshape", ["i", "shape"], ["r"]),
        node("Mul", ["r", "gamma"], ["m"]),
        node("Add", ["m", "beta"], ["a"]),
        node("Sigmoid", ["a"], ["s"]),
        node("Mul", ["a", "s"], ["g"]),
        node("Resize", ["g", "", "scales"], ["y"], mode="nearest", **FLOOR),
    ]
    constants = {
        "weights": draw(16, 5, 3, 3, seed=1),
        "flat": np.array([0, 4, -1]),
        "shape": np.array([1, 16, 6, 7]),
        "ones": np.ones(4, np.float32),
        "zeros": np.zeros(4, np.float32),
        "gamma": draw(16, 1, 1, seed=2),
        "beta": draw(16, 1, 1, seed=3),
        "scales": np.array([1, 1, 2, 3], np.float32),
    }
    made = model(nodes, {"x": (1, 5, 6, 7)}, constants=constants, ir_version=10)
    after = assert_runs(made, {"x": (1, 5, 6, 7)}, tmp_path, dtype)
    assert operators(after) == ["Conv", "NormalizedGroups", "Swish", "Resize"]


# --- numbers that a format does not have -----------------------------------------------------------------


@pytest.mark.parametrize("dtype", LIMITS)
def test_a_tiny_divisor_is_not_0(dtype: str, tmp_path: Path) -> None:
    """torch.nn.functional.normalize of rows, some of them zeros: FP16 cannot hold 1e-12."""
    nodes = [
        node("Mul", ["x", "some"], ["r"]),
        node("ReduceL2", ["r", "last"], ["l"], keepdims=1),
        node("Clip", ["l", "least"], ["c"]),
        node("Div", ["r", "c"], ["y"]),
    ]
    some = np.array([[1], [0], [1]], np.float32)
    constants = {"some": some, "last": np.array([-1]), "least": number(1e-12)}
    made = model(nodes, {"x": (3, 7)}, constants=constants, ir_version=10)
    assert_runs(made, {"x": (3, 7)}, tmp_path, dtype)
