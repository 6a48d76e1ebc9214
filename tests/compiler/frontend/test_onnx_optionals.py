"""Optionals: the reader knows which ones have an element, in agreement with onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ValueInfoProto, helper, numpy_helper

from compiler.frontend.onnx.importer import graph_of_bytes
from compiler.graph import GraphError
from control_models import count, node, truth
from onnx_calls import assert_model
from onnx_models import value

X = np.random.default_rng(3).standard_normal((3, 4)).astype(np.float32)
TENSOR = helper.make_tensor_type_proto(1, [3, 4])
FULL, EMPTY = node("Optional", ["x"], ["o"]), node("Optional", [], ["o"], type=TENSOR)
HAS, GET = node("OptionalHasElement", ["o"], ["has"]), node("OptionalGetElement", ["o"], ["e"])
NEG, RELU = node("Neg", ["e"], ["y"]), node("Relu", ["x"], ["y"])
KINDS = {"y": np.float32, "has": np.bool_}


def optional(name: str) -> Any:
    return helper.make_value_info(name, helper.make_optional_type_proto(TENSOR))


def made(*nodes: Any, opset: int = 18, computed: Any = (), known: Any = ()) -> Any:
    """A model whose outputs are ``y``, and ``has`` where there is such a value."""
    given = {name for each in nodes for name in each.output}
    outputs = [value(name, None, kind) for name, kind in KINDS.items() if name in given]
    constants = [numpy_helper.from_array(np.asarray(array), name) for name, array in dict(known).items()]
    graph = helper.make_graph(nodes, "made", [value("x", X.shape), *computed], outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def graph(*nodes: Any, inputs: Any = (), outputs: Any = ()) -> Any:
    return helper.make_graph(nodes, "body", inputs, outputs)


def choice(then: Any, other: Any) -> Any:
    """An If on ``c`` that gives an optional."""
    branches = [graph(*nodes, outputs=[optional("z")]) for nodes in (then, other)]
    return node("If", ["c"], ["o"], "choice", then_branch=branches[0], else_branch=branches[1])


THE_X, NOTHING = node("Optional", ["x"], ["z"]), node("Optional", [], ["z"], type=TENSOR)
THE_OTHER = (node("Neg", ["x"], ["n"]), node("Optional", ["n"], ["z"]))
AFTER = graph(
    node("Identity", ["c"], ["d"]),
    node("Neg", ["x"], ["n"]),
    node("Optional", ["n"], ["p"]),
    inputs=[count("i"), truth("c"), optional("q")],
    outputs=[truth("d"), optional("p")],
)
LOOP = node("Loop", ["steps", "", "before"], ["o"], "loop", body=AFTER)
BEFORE = node("Optional", [], ["before"], type=TENSOR)
ONE_OF_TWO = node(
    "If",
    ["has"],
    ["y"],
    then_branch=graph(GET, node("Neg", ["e"], ["a"]), outputs=[value("a", X.shape)]),
    else_branch=graph(node("Relu", ["x"], ["b"]), outputs=[value("b", X.shape)]),
)


@pytest.mark.parametrize("opset", [15, 18, 21])
@pytest.mark.parametrize(
    "nodes", [(FULL, HAS, GET, NEG), (EMPTY, HAS, RELU), (FULL, HAS, ONE_OF_TWO), (EMPTY, HAS, ONE_OF_TWO)]
)
def test_optionals(nodes: tuple[Any, ...], opset: int) -> None:
    assert_model(made(*nodes, opset=opset), {"x": X})


@pytest.mark.parametrize(
    "nodes",
    [
        (node("OptionalHasElement", ["x"], ["has"]), node("OptionalGetElement", ["x"], ["e"]), NEG),
        (node("OptionalHasElement", [""], ["has"]), RELU),
        (node("OptionalHasElement", [], ["has"]), RELU),
        (FULL, node("Identity", ["o"], ["i"]), node("OptionalGetElement", ["i"], ["e"]), NEG),
        (EMPTY, node("Identity", ["o"], ["i"]), node("OptionalHasElement", ["i"], ["has"]), RELU),
    ],
)
def test_since_18_operands_may_be_tensors_or_omitted(nodes: tuple[Any, ...]) -> None:
    assert_model(made(*nodes), {"x": X})


def test_an_optional_sequence() -> None:
    nodes = [
        node("SequenceConstruct", ["x", "m"], ["s"]),
        node("Optional", ["s"], ["o"]),
        HAS,
        node("OptionalGetElement", ["o"], ["t"]),
        node("SequenceAt", ["t", "one"], ["e"]),
        NEG,
    ]
    assert_model(made(*nodes, known={"one": 1, "m": X[::-1]}), {"x": X})


@pytest.mark.parametrize("holds", [True, False])
def test_a_known_branch_gives_one(holds: bool) -> None:
    assert_model(made(choice([THE_X], [NOTHING]), HAS, RELU, known={"c": holds}), {"x": X})


@pytest.mark.parametrize("holds", [True, False])
def test_a_computed_branch_gives_one_that_has_an_element(holds: bool) -> None:
    model = made(choice([THE_X], THE_OTHER), HAS, GET, NEG, computed=[truth("c")])
    assert_model(model, {"x": X, "c": np.array(holds)})


@pytest.mark.parametrize("steps", [0, 2])
def test_a_loop_carries_one(steps: int) -> None:
    assert_model(made(BEFORE, LOOP, HAS, ONE_OF_TWO, known={"steps": steps}), {"x": X})


NO_ELEMENT = "is an optional without an element"


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            made(EMPTY, GET, NEG),
            f"OptionalGetElement (node 'OptionalGetElement_1'): operand 'o' {NO_ELEMENT}",
        ),
        (
            made(EMPTY, node("Relu", ["o"], ["y"], "n")),
            f"(node 'n'): operand 'o' {NO_ELEMENT}; expected a tensor",
        ),
        (
            made(choice([THE_X], [NOTHING]), HAS, RELU, computed=[truth("c")]),
            f"If (node 'choice'): 'choice/else_branch/z' {NO_ELEMENT}; only tensors are supported here",
        ),
        (
            made(BEFORE, LOOP, HAS, RELU, computed=[count("steps")]),
            f"Loop (node 'loop'): 'before' {NO_ELEMENT}; only tensors are supported here",
        ),
        (made(RELU, computed=[optional("q")]), "input 'q' is optional; only tensors are supported"),
    ],
)
def test_refused(model: Any, message: str) -> None:
    with pytest.raises(GraphError) as found:
        graph_of_bytes(model.SerializeToString(), "model")
    assert message in str(found.value) and "\n" not in str(found.value)


def test_none_is_an_output() -> None:
    model = made(node("Optional", [], ["y"], type=TENSOR))
    model.graph.output[0].CopyFrom(ValueInfoProto(name="y"))
    with pytest.raises(GraphError, match="output 'y' is a result that is not supported"):
        graph_of_bytes(model.SerializeToString(), "model")
