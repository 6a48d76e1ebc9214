"""Control flow and its subgraphs: every mistake in them is reported in one line."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from compiler.frontend import load
from compiler.graph import GraphError
from onnx_models import model, saved, value
from refused_models import one, refusal

node = helper.make_node


def body(op: str, reads: tuple[str, ...] = ("x",), inputs: tuple[str, ...] = (), results: int = 1) -> Any:
    """A subgraph of one node, whose result is returned ``results`` times."""
    declared = [value(name, (3,)) for name in inputs]
    return helper.make_graph(
        [node(op, reads, ["b"], name="inner")], "body", declared, [value("b", None)] * results
    )


def choice(*inputs: str, then: Any = None) -> Any:
    return one("If", *inputs, then_branch=body("Relu") if then is None else then, else_branch=body("Exp"))


def loop(inner: Any, *inputs: str) -> Any:
    return one("Loop", *(inputs or ("m", "", "x")), body=inner)


def scan(**more: Any) -> Any:
    return one("Scan", "x", body=body("Relu", ("v",), ("v",)), **({"num_scan_inputs": 1} | more))


STEP = body("Relu", ("v",), ("i", "go", "v"), 2)
FOREVER = helper.make_graph(
    [node("Relu", ["v"], ["b"])],
    "body",
    [value(name, None) for name in ("i", "go", "v")],
    [value(name, None) for name in ("go", "b")],
)
FLOW: dict[str, tuple[Any, dict[str, Any], str]] = {
    "two conditions": (
        choice("c"),
        {"c": np.array([True, False])},
        "its condition must be one value; found 2",
    ),
    "no condition": (choice("c"), {"c": np.zeros(0, bool)}, "its condition must be one value; found 0"),
    "no else": (
        one("If", "c", then_branch=body("Relu")),
        {"c": np.array(True)},
        "Required attribute 'else_branch'",
    ),
    "a condition too many": (choice("c", "c"), {"c": np.array(True)}, "(If): Node"),
    "a branch that is not a graph": (choice("c", then=7), {"c": np.array(True)}, "Mismatched attribute type"),
    "a wrong node in a branch": (
        choice("c", then=body("Relu", ("x", "x"))),
        {"c": np.array(True)},
        "node 'n3/0/inner' (Relu): Node",
    ),
    "no number of steps": (
        loop(STEP),
        {"m": np.zeros(0, np.int64)},
        "its number of steps must be one value; found 0",
    ),
    "steps without end": (
        loop(FOREVER, "", "", "x"),
        {},
        "nothing ends it: it has no number of steps, and its condition stays true",
    ),
    "a body that gives too little": (
        loop(body("Relu", ("v",), ("i", "go", "v"))),
        {"m": np.array(2)},
        "its body gives 1 values; at least 2 are needed",
    ),
    "a body that takes too much": (
        loop(body("Relu", ("v",), ("i", "go", "v", "w"), 2)),
        {"m": np.array(2)},
        "its body takes 4 values, 3 are given",
    ),
    "scanning more than there is": (
        scan(num_scan_inputs=5),
        {},
        "num_scan_inputs must be 1 to 1, its inputs; found 5",
    ),
    "scanning nothing": (scan(num_scan_inputs=0), {}, "num_scan_inputs must be 1 to 1"),
    "an axis beyond": (scan(scan_input_axes=[4]), {}, "scan_input_axes: 4 is not an axis of 'x' [3]"),
    "a list too long": (scan(scan_input_axes=[0, 0]), {}, "scan_input_axes has other than 1 entries"),
}


@pytest.mark.parametrize("what", FLOW)
def test_control_flow_that_is_wrong(what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong, constants, message = FLOW[what]
    assert message in refusal(saved(model([wrong], {"x": (3,)}, constants=constants), tmp_path), capsys)


def change(chance: random.Random, made: Any) -> None:
    """Change something about a node of a model, or of one of its subgraphs."""
    graphs = [
        made.graph,
        *(item.g for part in made.graph.node for item in part.attribute if item.HasField("g")),
    ]
    part = chance.choice(chance.choice(graphs).node)
    kind = chance.randrange(7)
    if kind == 0 and part.input:
        part.input[chance.randrange(len(part.input))] = chance.choice(["", "x", "nowhere"])
    elif kind == 1:
        part.input.append(chance.choice(["", "x"]))
    elif kind == 2 and part.input:
        part.input.pop()
    elif kind == 3:
        part.output.append("more")
    elif kind == 4 and part.attribute:
        del part.attribute[chance.randrange(len(part.attribute))]
    elif kind == 5:
        for item in part.attribute:
            item.i = chance.choice([-1, 0, 5, 1 << 40])
    elif kind == 6:
        part.op_type = chance.choice(["Shape", "Concat", "Loop", "CastLike", "Split", "Reshape", "If"])


def test_nodes_changed_at_random_never_end_in_a_traceback(tmp_path: Path) -> None:
    constants = {"m": np.array(2), "c": np.array(True), "s": np.array([3, -1], np.int64)}
    going = body("Relu", ("v",), ("i", "go", "v"))
    going.output.insert(0, value("go", ()))
    nodes = [
        node("Reshape", ["x", "s"], ["r"]),
        node("Concat", ["r", "r"], ["k"], axis=1),
        node("Scan", ["k"], ["t"], body=body("Relu", ("v",), ("v",)), num_scan_inputs=1),
        node("If", ["c"], ["f"], then_branch=body("Relu", ("t",)), else_branch=body("Exp")),
        node("Loop", ["m", "", "f"], ["y"], body=going),
    ]
    whole = model(nodes, {"x": (6,)}, constants=constants)
    assert load(saved(whole, tmp_path)).outputs[0].shape == (3, 4)
    chance, refused = random.Random(5), 0
    for _ in range(300):
        made = onnx.ModelProto()
        made.CopyFrom(whole)
        for _ in range(chance.choice([1, 1, 2])):
            change(chance, made)
        try:
            load(saved(made, tmp_path))
        except GraphError:
            refused += 1
    assert 100 < refused < 300
