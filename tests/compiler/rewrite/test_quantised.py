"""Quantised graphs in operators on bytes: those that are found, and those that are not changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

from compiler.graph import Array, Graph
from compiler.operators.expansion.expander import expand_graph
from compiler.rewrite import RewrittenGraph
from compiler.rewrite.quantised import TABLES, between_bytes
from onnx_models import imported, value

Nodes = list[tuple[str, list[str], list[str], dict[str, Any]]]

KNOWN: dict[str, Any] = {
    "s": np.float32(0.02),
    "z": np.int8(3),
    "t": np.float32(0.05),
    "u": np.int8(-128),
    "w": np.ones((4, 2, 3, 3), np.int8),
    "ws": np.full(4, 0.01, np.float32),
    "wz": np.zeros(4, np.int8),
}
BEFORE: Nodes = [
    ("QuantizeLinear", ["x", "s", "z"], ["xq"], {}),
    ("DequantizeLinear", ["xq", "s", "z"], ["xd"], {}),
    ("DequantizeLinear", ["w", "ws", "wz"], ["wd"], {"axis": 0}),
]
CONV: Nodes = [("Conv", ["xd", "wd"], ["c"], {"pads": [1, 1, 1, 1]})]
LAST: Nodes = [("QuantizeLinear", ["c", "t", "u"], ["y"], {})]


def rewritten(
    nodes: Nodes, folder: Path, known: dict[str, Any] | None = None, outputs: tuple[str, ...] = ("y",)
) -> Graph:
    """The graph of a model with input x [1, 2, 5, 5], in operators on bytes."""
    constants: dict[str, Array] = {name: np.asarray(array) for name, array in (KNOWN | (known or {})).items()}
    used = {name for _, inputs, _, _ in nodes for name in inputs}
    made = helper.make_graph(
        [helper.make_node(op, i, o, f"n{at}", **attrs) for at, (op, i, o, attrs) in enumerate(nodes)],
        "g",
        [value("x", (1, 2, 5, 5))],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in constants.items() if name in used],
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    graph = imported(model, folder)
    for table in TABLES:
        graph = RewrittenGraph(graph).run(table)
    return graph


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def test_a_convolution_between_bytes_is_one_operator(tmp_path: Path) -> None:
    graph = rewritten([*BEFORE, *CONV, *LAST], tmp_path)
    assert ops(graph) == ["QuantizeLinear", "Int8Conv"]
    attrs = graph.nodes[-1].attrs
    assert (attrs["x_zero"], attrs["y_zero"], attrs["low"], attrs["high"]) == (3, -128, -128, 127)
    scale = graph.constants[graph.nodes[-1].inputs[3]]
    np.testing.assert_array_equal(scale, np.float32(0.02) * KNOWN["ws"] / np.float32(0.05))


def test_weights_may_be_unsigned_bytes(tmp_path: Path) -> None:
    """They are the signed bytes that are 128 less, with zero points that are 128 less too."""
    unsigned = {"w": np.full((4, 2, 3, 3), 131, np.uint8), "wz": np.array([128, 130, 131, 200], np.uint8)}
    graph = rewritten([*BEFORE, *CONV, *LAST], tmp_path, unsigned)
    assert ops(graph) == ["QuantizeLinear", "Int8Conv"]
    weights = graph.constants[graph.nodes[-1].inputs[1]]
    assert weights.dtype == np.int8
    np.testing.assert_array_equal(weights[:, 0, 0, 0], [3, 1, 0, -69])


@pytest.mark.parametrize(
    ("activation", "known", "limits"),
    [
        (("Relu", ["c"], ["r"], {}), {"u": np.int8(-10)}, (-10, 127)),
        (("Clip", ["c", "", "high"], ["r"], {}), {"high": np.float32(1.02), "u": np.int8(0)}, (-128, 20)),
        (
            ("Clip", ["c", "low", "high"], ["r"], {}),
            {"low": np.float32(-1), "high": np.float32(1), "u": np.int8(1)},
            (-19, 21),
        ),
    ],
)
def test_activations_are_limits(
    activation: Any, known: dict[str, Any], limits: tuple[int, int], tmp_path: Path
) -> None:
    last: Nodes = [("QuantizeLinear", ["r", "t", "u"], ["y"], {})]
    graph = rewritten([*BEFORE, *CONV, activation, *last], tmp_path, known)
    assert ops(graph) == ["QuantizeLinear", "Int8Conv"]
    assert (graph.nodes[-1].attrs["low"], graph.nodes[-1].attrs["high"]) == limits


def test_a_result_that_stays_a_float(tmp_path: Path) -> None:
    graph = rewritten([*BEFORE, *CONV], tmp_path, outputs=("c",))
    assert ops(graph) == ["QuantizeLinear", "Int8Conv"]
    assert graph.tensors["c"].dtype == "float32"


def test_unsigned_bytes_change_where_the_graph_begins_and_ends(tmp_path: Path) -> None:
    known = {"z": np.uint8(131), "u": np.uint8(0)}
    graph = rewritten([*BEFORE, *CONV, *LAST], tmp_path, known)
    assert ops(graph) == ["QuantizeLinear", "Int8Conv", "OffsetBinary"]
    assert graph.nodes[1].attrs["x_zero"] == 3


@pytest.mark.parametrize(
    "change",
    [
        {"w": np.full((4, 2, 3, 3), 127, np.int8), "wz": np.full(4, -5, np.int8)},
        {"ws": np.full(2, 0.01, np.float32), "wz": np.zeros(2, np.int8), "axis": 1},
    ],
    ids=["weights of nine bits", "scales of input channels"],
)
def test_weights_that_are_left(change: dict[str, Any], tmp_path: Path) -> None:
    axis = change.pop("axis", 0)
    before: Nodes = [*BEFORE[:2], ("DequantizeLinear", ["w", "ws", "wz"], ["wd"], {"axis": axis})]
    assert "Conv" in ops(rewritten([*before, *CONV, *LAST], tmp_path, change))


def test_a_result_that_is_used_twice_stays_a_float(tmp_path: Path) -> None:
    graph = rewritten([*BEFORE, *CONV, *LAST], tmp_path, outputs=("y", "c"))
    assert ops(graph) == ["QuantizeLinear", "Int8Conv", "QuantizeLinear"]


def test_a_scale_per_axis_of_the_image_is_left(tmp_path: Path) -> None:
    known = {"s": np.full(2, 0.02, np.float32), "z": np.zeros(2, np.int8)}
    assert "Conv" in ops(rewritten([*BEFORE, *CONV, *LAST], tmp_path, known))


@pytest.mark.parametrize("op", ["MaxPool", "Transpose"])
def test_bytes_of_one_scale_are_moved(op: str, tmp_path: Path) -> None:
    attrs = {"kernel_shape": [2, 2]} if op == "MaxPool" else {"perm": [0, 2, 3, 1]}
    nodes: Nodes = [*BEFORE[:2], (op, ["xd"], ["m"], attrs), ("QuantizeLinear", ["m", "s", "z"], ["y"], {})]
    found = [name for name in ops(rewritten(nodes, tmp_path)) if name != "Identity"]
    assert found == ["QuantizeLinear", op]


def test_parts_of_other_scales_are_quantised_before_they_are_joined(tmp_path: Path) -> None:
    nodes: Nodes = [
        *BEFORE[:2],
        ("Relu", ["xd"], ["r"], {}),
        ("QuantizeLinear", ["r", "t", "u"], ["rq"], {}),
        ("DequantizeLinear", ["rq", "t", "u"], ["rd"], {}),
        ("Concat", ["xd", "rd"], ["c"], {"axis": 1}),
        ("QuantizeLinear", ["c", "t", "u"], ["y"], {}),
    ]
    found = rewritten(nodes, tmp_path)
    assert ops(found).count("QuantizeLinear") == 3
    assert ops(found)[-1] == "Concat"


def test_what_is_quantised_is_computed_in_fp32(tmp_path: Path) -> None:
    """Except values that an output needs, too, and values from floats."""
    nodes: Nodes = [
        *BEFORE[:2],
        ("Relu", ["xd"], ["r"], {}),
        ("Exp", ["x"], ["e"], {}),
        ("Add", ["r", "e"], ["a"], {}),
        ("QuantizeLinear", ["r", "t", "u"], ["y"], {}),
        ("QuantizeLinear", ["a", "t", "u"], ["b"], {}),
        ("Neg", ["xd"], ["n"], {}),
        ("QuantizeLinear", ["n", "t", "u"], ["o"], {}),
    ]
    graph = rewritten(nodes, tmp_path, outputs=("y", "b", "o"))
    assert between_bytes(graph) == {"n7"}


def test_constants_become_floats_where_nobody_wants_their_bytes(tmp_path: Path) -> None:
    nodes: Nodes = [BEFORE[2], ("Conv", ["x", "wd"], ["y"], {})]
    graph = rewritten(nodes, tmp_path)
    assert ops(graph) == ["DequantizeLinear", "Conv"]
    assert ops(expand_graph(graph, ("DequantizeLinear",))) == ["Conv"]


SECOND: Nodes = [
    ("Neg", ["x"], ["n"], {}),
    ("QuantizeLinear", ["n", "t", "u"], ["nq"], {}),
    ("DequantizeLinear", ["nq", "t", "u"], ["nd"], {}),
]


def test_a_sum_with_limits_is_one_operator(tmp_path: Path) -> None:
    """A Clip becomes limits: 0.35 is 7 steps of 0.05 above the zero point, -1 is beyond the lowest byte."""
    nodes: Nodes = [
        *BEFORE[:2],
        *SECOND,
        ("Add", ["nd", "xd"], ["c"], {}),
        ("Clip", ["c", "low", "high"], ["r"], {}),
        ("QuantizeLinear", ["r", "t", "u"], ["y"], {}),
    ]
    graph = rewritten(nodes, tmp_path, {"low": np.float32(-1), "high": np.float32(0.35)})
    assert ops(graph) == ["QuantizeLinear", "Neg", "QuantizeLinear", "Int8Sum"]
    attrs = graph.nodes[-1].attrs
    assert (attrs["a_scale"], attrs["b_scale"]) == (float(np.float32(0.05)), float(np.float32(0.02)))
    assert [attrs[name] for name in ("a_zero", "b_zero", "y_zero", "low", "high")] == [
        -128,
        3,
        -128,
        -128,
        -121,
    ]


@pytest.mark.parametrize("case", ["broadcast", "per axis", "used twice", "three"])
def test_sums_that_are_left(case: str, tmp_path: Path) -> None:
    """An operand is repeated or has scales of channels; the sum is an output; there are three."""
    first, known = list(BEFORE[:2]), dict[str, Any]()
    if case == "per axis":
        known = {"s": np.full(2, 0.02, np.float32), "z": np.zeros(2, np.int8)}
    if case == "broadcast":
        first[0:0] = [("ReduceMax", ["x"], ["m"], {"keepdims": 1})]
        first[1] = ("QuantizeLinear", ["m", "s", "z"], ["xq"], {})
    terms = ["nd", "xd", "xd"] if case == "three" else ["nd", "xd"]
    nodes: Nodes = [*first, *SECOND, ("Sum", terms, ["c"], {}), *LAST]
    graph = rewritten(nodes, tmp_path, known, ("y", "c") if case == "used twice" else ("y",))
    assert "Int8Sum" not in ops(graph)
