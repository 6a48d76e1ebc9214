"""Values without elements: loops without steps, branches and loops that carry them, operators on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from compiler.frontend.onnx.importer import graph_of_bytes
from compiler.graph import Array, GraphError
from control_models import constant, count, declared, made, node, truth
from onnx_calls import OnnxCall, assert_model

X = np.random.default_rng(2).standard_normal((3, 4)).astype(np.float32)
NOTHING = np.zeros((0, 4), np.float32)


def step(*more: Any, takes: Any = (), gives: Any = ()) -> Any:
    """A body that computes relu(v) from v, and collects its sum and itself."""
    nodes = [
        node("Identity", ["c"], ["d"]),
        node("Relu", ["v"], ["w"]),
        node("ReduceSum", ["w"], ["sum"], keepdims=0),
    ]
    inputs = [count("i"), truth("c"), declared("v", (3, 4)), *takes]
    outputs = [truth("d"), declared("w", (3, 4)), *gives]
    return helper.make_graph([*nodes, *more], "body", inputs, outputs)


COLLECTING = step(
    node("Cast", ["w"], ["bytes"], to=3), gives=[declared("sum", ()), declared("bytes", (3, 4), 3)]
)


def loop(body: Any, *operands: str, results: str = "y sums all", **known: Any) -> Any:
    names = results.split()
    nodes = [node("Loop", operands, names, "loop", body=body)]
    constants = [constant(name, array) for name, array in known.items()]
    kinds = {"all": 3}
    outputs = [declared(name, None, kinds.get(name, 1)) for name in names]
    inputs = [declared("x", (3, 4)), *([count("n")] if "n" in operands else [])]
    return made(nodes, inputs, outputs, constants)


@pytest.mark.parametrize(
    ("operands", "known"),
    [
        (("m", "", "x"), {"m": 0}),
        (("m", "", "x"), {"m": -3}),
        (("m", "k", "x"), {"m": 5, "k": False}),
        (("", "k", "x"), {"k": False}),
    ],
)
def test_a_loop_without_steps_collects_nothing(operands: tuple[str, ...], known: dict[str, Any]) -> None:
    expected = {"y": X, "sums": np.zeros(0, np.float32), "all": np.zeros((0, 3, 4), np.int8)}
    assert_model(loop(COLLECTING, *operands, **known), {"x": X}, expected)


def test_what_was_not_collected_is_read() -> None:
    nodes = [
        node("Loop", ["m", "", "x"], ["y", "sums", "all"], "loop", body=COLLECTING),
        node("Concat", ["sums", "two"], ["joined"], axis=0),
        node("ReduceSum", ["sums"], ["total"], keepdims=0),
        node("Shape", ["all"], ["shape"]),
    ]
    kinds = {"y": 1, "joined": 1, "total": 1, "shape": 7}
    outputs = [declared(name, None, kind) for name, kind in kinds.items()]
    known = [constant("m", 0), constant("two", np.float32([1, 2]))]
    assert_model(made(nodes, [declared("x", (3, 4))], outputs, known), {"x": X})


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_scan_of_nothing(axis: int) -> None:
    """onnxruntime refuses it."""
    shape = list(X.shape)
    shape.insert(axis % 3, 0)
    body = helper.make_graph(
        [node("Add", ["s", "v"], ["t"]), node("ReduceSum", ["t", "one"], ["o"], keepdims=0)],
        "body",
        [declared("s", (3, 4)), declared("v", (3, 4))],
        [declared("t", (3, 4)), declared("o", (3,))],
    )
    axes = {"scan_input_axes": [axis], "scan_output_axes": [axis % 2]}
    nodes = [node("Scan", ["x", "e"], ["y", "all"], "scan", body=body, num_scan_inputs=1, **axes)]
    inputs = [declared("x", (3, 4)), declared("e", shape)]
    model = made(nodes, inputs, [declared("y", None), declared("all", None)], [constant("one", [1])])
    found = [3]
    found.insert(axis % 2, 0)
    expected = {"y": X, "all": np.zeros(found, np.float32)}
    assert_model(model, {"x": X, "e": np.zeros(shape, np.float32)}, expected)


def branch(op: str) -> Any:
    nodes = [node(op, ["x"], ["z"]), node("Slice", ["x", "zero", "zero"], ["e"])]
    return helper.make_graph(nodes, "branch", [], [declared("z", (3, 4)), declared("e", (0, 4))])


@pytest.mark.parametrize("names", [["y", "e"], ["e"]])
@pytest.mark.parametrize("holds", [True, False])
def test_branches_give_nothing(names: list[str], holds: bool) -> None:
    choice = node("If", ["c"], ["y", "e"], "choice", then_branch=branch("Relu"), else_branch=branch("Neg"))
    outputs = [declared(name, None) for name in names]
    model = made([choice], [declared("x", (3, 4)), truth("c")], outputs, [constant("zero", [0])])
    assert_model(model, {"x": X, "c": np.array(holds)})


CARRIED = step(node("Relu", ["u"], ["q"]), takes=[declared("u", None)], gives=[declared("q", None)])


@pytest.mark.parametrize("steps", [0, 2])
def test_a_loop_carries_nothing(steps: int) -> None:
    model = loop(CARRIED, "n", "", "x", "e", results="y e2", e=NOTHING)
    assert_model(model, {"x": X, "n": np.array(steps)})


def test_many_steps_collect_nothing() -> None:
    body = step(takes=[declared("u", None)], gives=[declared("u", None), declared("u", None)])
    assert_model(loop(body, "m", "", "x", "e", results="y e2 none", m=1001, e=NOTHING), {"x": X})


GROWING = step(
    node("Concat", ["u", "row"], ["q"], axis=0), takes=[declared("u", None)], gives=[declared("q", None)]
)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            loop(GROWING, "n", "", "x", "e", results="y e2", e=NOTHING, row=X[:1]),
            "its carried value 1 has shape [0, 4] before a step and [1, 4] after it",
        ),
        (
            loop(
                step(takes=[declared("u", None)], gives=[declared("u", None), declared("u", None)]),
                "n",
                "k",
                "x",
                "e",
                results="y e2 none",
                e=NOTHING,
                k=True,
            ),
            "nothing bounds their number: --bound loop=STEPS",
        ),
    ],
)
def test_refused(model: Any, message: str) -> None:
    with pytest.raises(GraphError) as found:
        graph_of_bytes(model.SerializeToString(), "model")
    assert message in str(found.value) and "\n" not in str(found.value)


def test_no_axis_of_what_would_be_collected() -> None:
    body = helper.make_graph(
        [node("Relu", ["v"], ["o"])], "body", [declared("v", (4,))], [declared("o", (4,))]
    )
    nodes = [node("Scan", ["e"], ["y"], "scan", body=body, num_scan_inputs=1, scan_output_axes=[2])]
    model = made(nodes, [declared("e", (0, 4))], [declared("y", None)])
    with pytest.raises(GraphError, match="axis 2 is not an axis of a result, whose slices have shape"):
        graph_of_bytes(model.SerializeToString(), "model")


@pytest.mark.parametrize(
    ("op", "operands", "attrs"),
    [
        ("Conv", {"x": np.zeros((0, 3, 5, 5)), "w": np.ones((4, 3, 3, 3))}, {}),
        ("MatMul", {"x": np.zeros((3, 0)), "w": np.zeros((0, 4))}, {}),
        ("Softmax", {"x": NOTHING}, {}),
        ("Concat", {"x": NOTHING, "z": X}, {"axis": 0}),
        ("ReduceProd", {"x": NOTHING}, {}),
    ],
)
def test_operators_on_nothing(op: str, operands: dict[str, Array], attrs: dict[str, Any]) -> None:
    call = OnnxCall(op, {name: array.astype(np.float32) for name, array in operands.items()}, attrs)
    assert_model(call.model(), call.feeds)
