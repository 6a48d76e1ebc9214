"""Unsupported uses of data-dependent sizes are refused in one line with the place and a remedy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import helper

from compiler.graph import GraphError
from control_models import count, declared, node, truth
from found_models import BOOL, FLOAT, INT64, found_graph, with_outputs

FIRST = [
    node("NonZero", ["v"], ["m"], "nz"),
    node("Squeeze", ["m", "at 0"], ["i"]),
    node("Cast", ["i"], ["f"], to=1),
]
V, X = declared("v", [6]), declared("x", [6, 6])
KNOWN: dict[str, Any] = {
    "at 0": [0],
    "at 1": [1],
    "at 7": [7],
    "-3": [-3],
    "two": [2],
    "six": [6],
    "rows": [2, 3],
}
AND = " has a size that data decides, at most 6, and "
DO = "make '{}' an output, or give it a known size (TopK with a known k, or Slice and Pad)"


def carried() -> list[Any]:
    body = helper.make_graph(
        [node("Neg", ["a"], ["b"])],
        "body",
        [count("i"), truth("go"), declared("a", None)],
        [truth("go"), declared("b", None)],
    )
    return [*FIRST, node("Loop", ["n", "", "f"], ["y"], "loop", body=body)]


def branched() -> list[Any]:
    parts = [
        helper.make_graph([node(op, ["f"], ["z"])], op, [], [declared("z", None)]) for op in ("Neg", "Abs")
    ]
    return [*FIRST, node("If", ["c"], ["y"], "choice", then_branch=parts[0], else_branch=parts[1])]


CASES: dict[str, tuple[Sequence[Any], Sequence[Any], str]] = {
    "an operator that uses all of it": (
        [
            node("Unsqueeze", ["v", "at 0"], ["u"]),
            node("NonZero", ["u"], ["m"], "nz"),
            node("Cast", ["m"], ["f"], to=1),
            node("Unsqueeze", ["f", "at 0"], ["b"]),
            node("InstanceNormalization", ["b", "scale", "scale"], ["y"], "norm"),
        ],
        [V, declared("scale", [2])],
        f"InstanceNormalization (node 'norm'): axis 2 of operand 'b'{AND}"
        f"the operator may use all of it; {DO.format('b')}",
    ),
    "in front of something else": (
        [*FIRST, node("Concat", ["i", "two"], ["y"], "cat", axis=0)],
        [V],
        f"Concat (node 'cat'): axis 0 of operand 'i'{AND}Concat needs all of it; {DO.format('i')}",
    ),
    "backwards": (
        [*FIRST, node("Slice", ["i", "-3", "six"], ["y"], "last")],
        [V],
        f"Slice (node 'last'): axis 0 of operand 'i'{AND}it is sliced "
        f"from -3 with step 1; expected from 0 or more with step 1; {DO.format('i')}",
    ),
    "beside a known size": (
        [*FIRST, node("Add", ["f", "v"], ["y"], "sum")],
        [V],
        f"Add (node 'sum'): axis 0 of operand 'f'{AND}at a size of 7: ",
    ),
    "beside another such size": (
        [*FIRST, node("NonZero", ["w"], ["o"], "other"), node("Add", ["m", "o"], ["y"], "sum")],
        [V, declared("w", [6])],
        f"Add (node 'sum'): axis 1 of operand 'm'{AND}at a size of 7: ",
    ),
    "a shape for the most": (
        [*FIRST, node("Reshape", ["i", "rows"], ["y"], "shape")],
        [V],
        f"Reshape (node 'shape'): axis 0 of operand 'i'{AND}at a size of 7: ",
    ),
    "unique of it": (
        [*FIRST, node("Unique", ["i"], ["y"], "u")],
        [V],
        f"Unique (node 'u'): axis 0 of operand 'i'{AND}Unique needs all",
    ),
    "a loop that carries it": (
        carried(),
        [V, count("n")],
        "Loop (node 'loop'): its operand 'f' has a size that data decides; branches and loops of the program "
        "carry known sizes: take as many as there can be of it before, by TopK with a known k",
    ),
    "a branch that gives it": (
        branched(),
        [V, truth("c")],
        "If (node 'choice'): its result 'choice/then_branch/z' has a size that data decides",
    ),
    "a start that is computed": (
        [node("Slice", ["x", "k", "six"], ["y"], "part"), node("Slice", ["x", "k", "k"], ["z"], "other")],
        [X, declared("k", [1], INT64)],
        "Slice (node 'part'): input starts must be a constant",
    ),
    "an end beside a start that is computed": (
        [node("Slice", ["x", "k", "k"], ["y"], "part")],
        [X, declared("k", [1], INT64)],
        "Slice (node 'part'): its starts 'k' must be known when compiling; computed may be its ends",
    ),
    "a condition that is too long": (
        [node("Compress", ["x", "c"], ["y"], "few", axis=0)],
        [X, declared("c", [7], BOOL)],
        "Compress (node 'few'): its condition has 7 elements; axis 0 has 6",
    ),
    "overlap out of range": (
        [node("NonMaxSuppression", ["b", "s", "two", "iou"], ["y"], "nms")],
        [declared("b", [1, 6, 4]), declared("s", [1, 1, 6])],
        "NonMaxSuppression (node 'nms'): iou_threshold must be 0 to 1; found 1.5",
    ),
    "boxes without scores": (
        [node("NonMaxSuppression", ["b", "s", "two"], ["y"], "nms")],
        [declared("b", [1, 6, 4]), declared("s", [1, 1, 5])],
        "NonMaxSuppression (node 'nms'): boxes must be images x boxes x 4, and scores images x classes x "
        "boxes; found [1, 6, 4] and [1, 1, 5]",
    ),
}


@pytest.mark.parametrize("what", CASES)
def test_refused(what: str) -> None:
    nodes, inputs, message = CASES[what]
    known = {name: np.array(value) for name, value in KNOWN.items()} | {"iou": np.float32([1.5])}
    model = with_outputs(nodes, inputs, {"y": FLOAT}, known)
    model.graph.output[0].type.tensor_type.elem_type = 0  # of any type
    with pytest.raises(GraphError) as refused:
        found_graph(model)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"nz": 0}, "a bound is given for 'nz': 0; expected 1 or more"),
        (
            {"first": 4},
            "a bound is given for 'first', which is not a Loop and has no result of data-dependent size; "
            "nodes that can have one: nz",
        ),
    ],
)
def test_wrong_bounds(bounds: dict[str, int], message: str) -> None:
    model = with_outputs([node("NonZero", ["v"], ["y"], "nz")], [V], {"y": INT64})
    with pytest.raises(GraphError) as refused:
        found_graph(model, **bounds)
    assert message in str(refused.value)
