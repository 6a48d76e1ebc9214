"""The checks that apply to every node: operands, attributes, dtypes, constants; with the exact messages."""

from __future__ import annotations

import pytest

from compiler.evaluation.infer import build_graph
from compiler.graph import Description, GraphError, Node, Tensor
from node_refusal import Refusal, W, X, check_refused, identity

GENERAL = [
    Refusal("Relu", [X, X], {}, "takes 1 input (X) in opset 20; found 2"),
    Refusal("Relu", [], {}, "takes 1 input (X) in opset 20; found 0"),
    Refusal("Conv", [X], {}, "takes 2 to 3 inputs (X, W, optional B) in opset 20; found 1"),
    Refusal("Max", [], {}, "takes 1 or more inputs (data_0) in opset 20; found 0"),
    Refusal("ReduceMean", [X, [1]], {}, "takes 1 input (data) in opset 17; found 2", opset=17),
    Refusal("Conv", [X, None, (6,)], {}, "input 1 (W) is required; found an empty name"),
    Refusal("Max", [X, None], {}, "input 1 (data_0) is required; found an empty name"),
    Refusal("Relu", [X], {}, "has 1 output (Y); found 2", outputs=("y", "z")),
    Refusal("MaxPool", [X], {}, "output 0 (Y) is required; found an empty name", outputs=("", "y")),
    Refusal("MaxPool", [X], {}, "attribute kernel_shape is required"),
    Refusal("Softmax", [X], {"axes": 1}, "unknown attribute 'axes'; known are axis; did you mean 'axis'?"),
    Refusal("Relu", [X], {"alpha": 0.5}, "unknown attribute 'alpha'; known are none"),
    Refusal(
        "ReduceMax",
        [X],
        {"axes": (1,)},
        "attribute axes exists up to opset 17; the graph declares opset 20; it is an input now",
    ),
    Refusal(
        "AveragePool",
        [X],
        {"kernel_shape": (2, 2), "dilations": (1, 1)},
        "attribute dilations exists since opset 19; the graph declares opset 18",
        opset=18,
    ),
    Refusal("Softmax", [X], {"axis": 1.5}, "attribute axis must be an integer; found 1.5"),
    Refusal("LeakyRelu", [X], {"alpha": "a"}, "attribute alpha must be a float32 number; found 'a'"),
    Refusal("LeakyRelu", [X], {"alpha": 1e39}, "attribute alpha must be a float32 number; found 1e+39"),
    Refusal("Gelu", [X], {"approximate": 1}, "attribute approximate must be a string; found 1"),
    Refusal(
        "Gelu", [X], {"approximate": "erf"}, "attribute approximate must be one of none, tanh; found 'erf'"
    ),
    Refusal(
        "Transpose", [X], {"perm": (0, 1.5)}, "attribute perm must be a list of integers; found [0, 1.5]"
    ),
    Refusal("Transpose", [X], {"perm": 3}, "attribute perm must be a list of integers; found 3"),
    Refusal(
        "Conv",
        [X, W],
        {"strides": (1, 0)},
        "attribute strides must be a list of integers, at least 1; found [1, 0]",
    ),
    Refusal("Conv", [X, W], {"group": 0}, "attribute group must be an integer, at least 1; found 0"),
    Refusal(
        "Sigmoid", [("int32", (3,))], {}, "input X ('i0') is int32; allowed are float32, float16, bfloat16"
    ),
    Refusal(
        "Add",
        [("int32", (3,)), (3,)],
        {},
        "inputs A ('i0') and B ('i1') must have one dtype; found int32 and float32",
    ),
    Refusal(
        "Concat",
        [(3,), (3,), ("int8", (3,))],
        {"axis": 0},
        "inputs inputs ('i0') and inputs ('i2') must have one dtype; found float32 and int8",
    ),
    Refusal(
        "Reshape",
        [X, ("int64", (2,))],
        {},
        "input shape must be a constant, because it fixes a shape or value; found 'i1'",
    ),
]


@pytest.mark.parametrize("refusal", GENERAL, ids=identity)
def test_refused_with_the_exact_message(refusal: Refusal) -> None:
    check_refused(refusal)


def test_several_mistakes_are_counted() -> None:
    with pytest.raises(GraphError) as caught:
        Refusal("Conv", [X, W], {"group": 0, "stride": (1, 1), "auto_pad": "SAME"}, "").build()
    assert len(caught.value.messages) == 3
    assert str(caught.value) == caught.value.messages[0] + " (and 2 more errors)"


def test_nodes_behind_a_refused_one_are_not_blamed() -> None:
    nodes = (
        Node("Relu", "first", ("x",), ("a",), {"alpha": 1}),
        Node("Relu", "second", ("a",), ("b",), {}),
        Node("Gemm", "third", ("x", "x"), ("y",), {}),
    )
    description = Description("g", "g", 20, (Tensor("x", "float32", (2, 3)),), ("y",), {}, nodes)
    with pytest.raises(GraphError) as caught:
        build_graph(description)
    assert [text.split(":")[1] for text in caught.value.messages] == [
        " node 'first' (Relu)",
        " node 'third' (Gemm)",
    ]
