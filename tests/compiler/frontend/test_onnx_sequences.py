"""Sequences of tensors, against onnxruntime, and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from compiler.driver import compile_graph
from compiler.evaluation.reference import run_reference
from compiler.frontend.onnx.importer import graph_of_bytes
from compiler.graph import Graph, GraphError
from compiler.tools.run import execute
from control_models import constant, count, declared, made, node, truth


def graph_of(model: Any) -> Graph:
    return graph_of_bytes(model.SerializeToString(), "model")


def sequence(name: str) -> Any:
    kind = helper.make_tensor_type_proto(1, None)
    return helper.make_value_info(name, helper.make_sequence_type_proto(kind))


def grown(steps: int) -> Any:
    """A loop that inserts ``x`` times the number of the step in front of a sequence."""
    nodes = [
        node("Cast", ["i"], ["f"], to=1),
        node("Mul", ["x", "f"], ["m"]),
        node("SequenceInsert", ["s", "m", "zero"], ["t"]),
    ]
    takes, gives = [count("i"), truth("go"), sequence("s")], [truth("go"), sequence("t")]
    body = helper.make_graph(nodes, "body", takes, gives)
    parts = [
        node("SequenceConstruct", ["x"], ["first"]),
        node("Loop", ["steps", "", "first"], ["all"], "loop", body=body),
        node("SequenceErase", ["all", "one"], ["fewer"]),
        node("Identity", ["fewer"], ["same"]),
        node("SequenceAt", ["same", "last"], ["a"]),
        node("SequenceAt", ["same", "k"], ["b"]),
        node("ConcatFromSequence", ["same"], ["c"], axis=1),
        node("ConcatFromSequence", ["same"], ["d"], axis=-1, new_axis=1),
        node("SequenceLength", ["same"], ["e"]),
        node("Add", ["e", "k"], ["g"]),
    ]
    numbers = {"steps": steps, "zero": 0, "one": 1, "last": -1}
    outputs = [*(declared(name, None) for name in "abcd"), count("g")]
    known = [constant(name, number) for name, number in numbers.items()]
    return made(parts, [declared("x"), count("k")], outputs, known)


def divided(**attributes: int) -> Any:
    """A tensor in pieces: the second piece and the last one."""
    parts = [
        node(
            "SplitToSequence", ["x", *(["by"] if "keepdims" not in attributes else [])], ["s"], **attributes
        ),
        node("SequenceAt", ["s", "one"], ["a"]),
        node("SequenceAt", ["s", "last"], ["b"]),
    ]
    known = [constant("one", 1), constant("last", -1), constant("by", 3)]
    return made(parts, [declared("x"), count("k")], [declared("a", None), declared("b", None)], known)


def read_in_a_loop() -> Any:
    """The sum of the first ``k`` elements of a sequence: a loop of the program that reads it by its step."""
    body = helper.make_graph(
        [node("SequenceAt", ["s", "i"], ["row"]), node("Add", ["sum", "row"], ["more"])],
        "body",
        [count("i"), truth("go"), declared("sum", [8])],
        [truth("go"), declared("more", [8])],
    )
    parts = [
        node("SplitToSequence", ["x"], ["s"], keepdims=0),
        node("Loop", ["k", "", "zeros"], ["a"], "loop", body=body),
    ]
    known = [constant("zeros", np.zeros(8, np.float32))]
    return made(parts, [declared("x"), count("k")], [declared("a", [8])], known)


MODELS = {
    "grown in a loop": lambda: grown(3),
    "pieces": lambda: divided(axis=1),
    "rows": lambda: divided(axis=0, keepdims=0),
    "read in a loop": read_in_a_loop,
}


@pytest.mark.parametrize("what", MODELS)
def test_sequences(what: str) -> None:
    model = MODELS[what]()
    session = onnxruntime.InferenceSession(model.SerializeToString())
    names = [output.name for output in session.get_outputs()]
    graph = graph_of(model)
    program = compile_graph(graph, "fp32", 2)
    x = np.random.default_rng(1).standard_normal((4, 8)).astype(np.float32)
    for k in (0, 2):
        inputs = {"x": x, "k": np.array(k)}
        read = {tensor.name: inputs[tensor.name] for tensor in graph.inputs}
        found, reference = execute(program, read)[0], run_reference(graph, read)
        for name, wanted in zip(names, session.run(names, inputs), strict=True):
            assert found[name].shape == wanted.shape
            np.testing.assert_allclose(found[name], wanted, rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(reference[name], wanted, rtol=1e-5, atol=1e-5)


def refused(*parts: Any, outputs: Any = None) -> str:
    known = [constant("five", 5), constant("two", 2)]
    model = made(parts, [declared("x"), count("k")], [outputs or declared("y", None)], known)
    with pytest.raises(GraphError) as found:
        graph_of(model)
    assert "\n" not in str(found.value)
    return str(found.value)


PAIR = node("SequenceConstruct", ["x", "x"], ["s"])


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([node("SequenceAt", ["s", "five"], ["y"], "n")], "(node 'n'): position 5 is not in a sequence of 2"),
        ([node("Relu", ["s"], ["y"], "n")], "(node 'n'): operand 's' is a sequence; expected a tensor"),
        (
            [node("SequenceErase", ["s", "k"], ["t"], "n"), node("SequenceAt", ["t", "k"], ["y"])],
            "(node 'n'): its operand 'k' must be known when compiling",
        ),
        (
            [
                node("Transpose", ["x"], ["r"], perm=[1, 0]),
                node("SequenceInsert", ["s", "r"], ["t"]),
                node("SequenceAt", ["t", "k"], ["y"], "n"),
            ],
            "(node 'n'): its position is computed, and the elements have shapes [[4, 8], [8, 4]]",
        ),
    ],
)
def test_refused(parts: list[Any], message: str) -> None:
    assert message in refused(PAIR, *parts)


def test_a_sequence_is_no_output() -> None:
    assert refused(PAIR, outputs=sequence("s")) == "model: output 's' is sequence; only tensors are supported"


def test_the_program_chooses_no_sequences() -> None:
    inside = helper.make_graph([node("SequenceConstruct", ["x"], ["z"])], "branch", [], [sequence("z")])
    parts = [
        node("Less", ["k", "two"], ["c"]),
        node("If", ["c"], ["s"], "choice", then_branch=inside, else_branch=inside),
        node("SequenceAt", ["s", "k"], ["y"]),
    ]
    message = "If (node 'choice'): 'choice/then_branch/z' is a sequence; only tensors are supported here"
    assert message in refused(*parts)


def test_a_loop_of_the_program_carries_none() -> None:
    body = helper.make_graph(
        [node("SequenceInsert", ["t", "x"], ["u"])],
        "body",
        [count("i"), truth("go"), sequence("t")],
        [truth("go"), sequence("u")],
    )
    loop = node("Loop", ["k", "", "s"], ["t"], "loop", body=body)
    message = "Loop (node 'loop'): 's' is a sequence; only tensors are supported here"
    assert message in refused(PAIR, loop, node("SequenceAt", ["t", "k"], ["y"]))
