"""Operators that read values of data-dependent sizes, against onnxruntime: empty, partial and full ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from control_models import declared, node
from found_models import FLOAT, INT64, boxes_and_scores, check_found, sparse, suppression, with_outputs

X, ROWS, VECTOR = declared("x", [4, 8]), declared("rows", [9, 2]), declared("v", [6])
NUMBERS: dict[str, Any] = {
    "zero": 0,
    "one": 1,
    "two": 2,
    "three": 3,
    "at 0": [0],
    "at 1": [1],
    "at 3": [3],
    "ten": [10],
    "-1": [-1],
    "half": np.float32(0.5),
    "ones": np.ones((1, 3), np.float32),
    "weights": np.random.default_rng(1).standard_normal((2, 5)).astype(np.float32),
    "pair": [[7, 8]],
}
FOUND = [node("NonZero", ["x"], ["n"], "nz"), node("Transpose", ["n"], ["t"])]
ALONG = [node("NonZero", ["v"], ["m"], "nz"), node("Squeeze", ["m", "at 0"], ["i"])]

Case = tuple[Sequence[Any], Sequence[Any], Mapping[str, int]]
CASES: dict[str, Case] = {
    "elements and pointwise operators": (
        [
            *FOUND,
            node("GatherND", ["x", "t"], ["g"]),
            node("Mul", ["g", "half"], ["h"]),
            node("Exp", ["h"], ["y"]),
        ],
        [X],
        {"y": FLOAT, "t": INT64, "n": INT64},
    ),
    "elements that go back": (
        [
            *FOUND,
            node("GatherND", ["x", "t"], ["g"]),
            node("Neg", ["g"], ["h"]),
            node("ScatterND", ["x", "t", "h"], ["y"]),
        ],
        [X],
        {"y": FLOAT},
    ),
    "rows, a product and softmax": (
        [
            *ALONG,
            node("Gather", ["rows", "i"], ["g"]),
            node("MatMul", ["g", "weights"], ["p"]),
            node("Softmax", ["p"], ["y"]),
            node("ReduceMean", ["p", "at 1"], ["z"], keepdims=0),
        ],
        [VECTOR, ROWS],
        {"y": FLOAT, "z": FLOAT},
    ),
    "indices that are computed": (
        [*ALONG, node("Sub", ["i", "three"], ["k"]), node("Gather", ["rows", "k"], ["y"])],
        [VECTOR, ROWS],
        {"y": FLOAT},
    ),
    "scattered from the end, added up": (
        [
            *ALONG,
            node("Sub", ["m", "three"], ["k"]),
            node("Transpose", ["k"], ["kt"]),
            node("Gather", ["v", "i"], ["g"]),
            node("ScatterND", ["v", "kt", "g"], ["y"], reduction="add"),
            node("ScatterElements", ["v", "i", "g"], ["z"], reduction="max"),
        ],
        [VECTOR],
        {"y": FLOAT, "z": FLOAT},
    ),
    "behind what is known": (
        [*ALONG, node("Concat", ["pair", "m"], ["y"], axis=1), node("Unsqueeze", ["i", "at 1"], ["z"])],
        [VECTOR],
        {"y": INT64, "z": INT64},
    ),
    "folded": (
        [
            *ALONG,
            node("Gather", ["rows", "i"], ["g"]),
            node("ReduceSum", ["g", "at 0"], ["y"], keepdims=0),
            node("ReduceMax", ["g", "at 0"], ["z"]),
            node("Softmax", ["g"], ["s"], axis=0),
        ],
        [VECTOR, ROWS],
        {"y": FLOAT, "z": FLOAT, "s": FLOAT},
    ),
    "as many as there are, at most some": (
        [
            *ALONG,
            node("Slice", ["i", "at 0", "at 3", "at 0"], ["y"]),
            node("Slice", ["i", "at 1", "-1", "at 0"], ["z"]),
            node("Shape", ["m"], ["s"]),
            node("Size", ["m"], ["c"]),
        ],
        [VECTOR],
        {"y": INT64, "z": INT64, "s": INT64, "c": INT64},
    ),
    "shapes of shapes": (
        [
            *ALONG,
            node("Shape", ["i"], ["s"]),
            node("Concat", ["s", "at 3"], ["target"], axis=0),
            node("Expand", ["ones", "target"], ["e"]),
            node("ConstantOfShape", ["target"], ["z"]),
            node("Gather", ["s", "zero"], ["c"]),
            node("Range", ["zero", "c", "one"], ["r"]),
            node("Gather", ["rows", "i"], ["g"]),
            node("Reshape", ["g", "-1"], ["flat"]),
        ],
        [VECTOR, ROWS],
        {"e": FLOAT, "z": FLOAT, "r": INT64, "flat": FLOAT},
    ),
    "the part of an axis that data says": (
        [node("Slice", ["rows", "at 1", "k", "at 0"], ["y"])],
        [ROWS, declared("k", [1], INT64)],
        {"y": FLOAT},
    ),
}


@pytest.mark.parametrize("what", CASES)
def test_readers(what: str) -> None:
    nodes, inputs, outputs = CASES[what]
    rows = np.random.default_rng(2).standard_normal((9, 2)).astype(np.float32)
    runs = []
    for x, v, k in zip(sparse(3, 4, 8), sparse(4, 6), (0, 4, -2), strict=True):
        given = {"x": x, "v": v, "rows": rows, "k": np.array([k])}
        runs.append({info.name: given[info.name] for info in inputs})
    check_found(with_outputs(nodes, inputs, outputs, _used(nodes)), runs, tiles=3)


def _used(nodes: Sequence[Any]) -> dict[str, Any]:
    names = {name for each in nodes for name in each.input}
    return {name: np.asarray(value) for name, value in NUMBERS.items() if name in names}


def detector() -> tuple[list[Any], list[Any], dict[str, Any]]:
    """The end of a detector after its suppression: boxes, classes and scores of the selected ones."""
    known = {"most": np.array([5]), "iou": np.float32([0.3]), "score": np.float32([0.5])}
    inputs, first = suppression((1, 3, 24), **known)
    nodes = [
        first,
        node("Gather", ["found", "two"], ["box"], axis=1),
        node("Squeeze", ["boxes", "at 0"], ["all"]),
        node("Gather", ["all", "box"], ["chosen"]),
        node("GatherND", ["scores", "found"], ["value"]),
        node("Slice", ["found", "at 0", "both", "at 1"], ["where"]),
        node("Cast", ["where"], ["class"], to=1),
        node("Unsqueeze", ["value", "at 1"], ["column"]),
        node("Concat", ["column", "class", "chosen"], ["table"], axis=1),
        node("Shape", ["value"], ["count"]),
        node("Concat", ["count", "ten"], ["two counts"], axis=0),
        node("ReduceMin", ["two counts"], ["k"], keepdims=1),
        node("TopK", ["value", "k"], ["best", "which"], "top", axis=0),
        node("Gather", ["table", "which"], ["y"]),
    ]
    return nodes, inputs, {**known, **_used(nodes), "both": np.array([2])}


@pytest.mark.parametrize(("dtype", "tiles"), [("fp32", 16), ("fp16", 4)])
def test_the_end_of_a_detector(dtype: str, tiles: int) -> None:
    nodes, inputs, known = detector()
    few = boxes_and_scores(6, 1, 3, 24)
    few["scores"] = np.where(few["scores"] > 0.9, few["scores"], 0).astype(np.float32)
    none = {**few, "scores": few["scores"] * 0}
    model = with_outputs(nodes, inputs, {"table": FLOAT, "y": FLOAT, "best": FLOAT}, known)
    check_found(model, [boxes_and_scores(5, 1, 3, 24), few, none], dtype, tiles)
