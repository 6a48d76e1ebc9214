"""Non-maximum suppression selects the boxes that onnxruntime selects, in its order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from control_models import declared, node
from found_models import FLOAT, INT64, boxes_and_scores, check_found, suppression, with_outputs

SHAPE = (2, 3, 40)


def model(shape: tuple[int, int, int], more: Any = (), **known: Any) -> Any:
    inputs, nodes = suppression(shape, more, **known)
    return with_outputs([nodes], inputs, {"found": INT64}, known)


@pytest.mark.parametrize(
    ("known", "center"),
    [
        ({"most": [3], "iou": [0.3], "score": [0.4]}, 0),
        ({"most": [100], "iou": [0.5]}, 1),
        ({"most": [7], "score": [-np.inf]}, 0),
        ({"most": [5], "iou": [1.0], "score": [2.0]}, 1),
        ({"most": [0]}, 0),
        ({"iou": [0.5]}, 0),
    ],
)
def test_known_limits(known: dict[str, list[float]], center: int) -> None:
    arrays = {n: np.array(v, np.int64 if n == "most" else np.float32) for n, v in known.items()}
    runs = [boxes_and_scores(seed, *SHAPE) for seed in (1, 2)]
    check_found(model(SHAPE, {"center_point_box": center}.items(), **arrays), runs, tiles=5)


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_short_formats_select_what_their_boxes_say(dtype: str) -> None:
    limits = {"most": np.array([6]), "iou": np.float32([0.45]), "score": np.float32([0.3])}
    check_found(model(SHAPE, **limits), [boxes_and_scores(3, *SHAPE)], dtype, tiles=16)


def test_limits_that_are_computed() -> None:
    nodes = [node("NonMaxSuppression", ["boxes", "scores", "most", "iou", "score"], ["found"], "nms")]
    inputs, _ = suppression((1, 2, 30))
    more = [declared("most", [1], INT64), declared("iou", [1]), declared("score", [])]
    runs = [
        {
            **boxes_and_scores(most, 1, 2, 30),
            "most": np.array([most]),
            "iou": np.float32([0.5]),
            "score": np.array(0.3, np.float32),
        }
        for most in (0, 2, 100)
    ]
    # One tile for the images and classes, and one without any.
    check_found(with_outputs(nodes, [*inputs, *more], {"found": INT64}), runs, tiles=3)


def test_boxes_that_touch_are_flipped_or_have_no_area() -> None:
    corners = [[0, 0, 1, 1], [1, 1, 0, 0], [0, 1, 1, 2], [0, 0, 0, 5], [0, 0.5, 1, 1.5], [-1, -1, 2, 2]]
    given = {
        "boxes": np.array([corners], np.float32),
        "scores": np.array([[[0.5, 0.5, 0.5, 0.9, 0.5, 0.0]]], np.float32),
    }
    limits = {"most": np.array([6]), "iou": np.float32([1 / 3]), "score": np.float32([-1])}
    check_found(model((1, 1, 6), **limits), [given])


def test_boxes_whose_number_data_decides() -> None:
    inputs, nodes = suppression((1, 3, 24), most=[5], iou=[0.3])
    before = [
        node("ReduceMax", ["scores", "axes"], ["best"], keepdims=0),
        node("Greater", ["best", "least"], ["keep"]),
        node("Compress", ["boxes", "keep"], ["few boxes"], "boxes", axis=1),
        node("Compress", ["scores", "keep"], ["few scores"], "scores", axis=2),
    ]
    nodes.input[:2] = ["few boxes", "few scores"]
    known = {
        "most": np.array([5]),
        "iou": np.float32([0.3]),
        "axes": np.array([0, 1]),
        "least": np.array(0.8, np.float32),
    }
    nothing = boxes_and_scores(5, 1, 3, 24)
    nothing["scores"] /= 2
    runs = [boxes_and_scores(4, 1, 3, 24), nothing]
    check_found(with_outputs([*before, nodes], inputs, {"found": INT64, "few boxes": FLOAT}, known), runs)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(60))
def test_more_random_boxes(seed: int) -> None:
    rng = np.random.default_rng([seed, 9])
    shape = tuple(int(size) for size in rng.integers(1, (4, 5, 200)))
    limits = {
        "most": rng.integers(1, 50, 1),
        "iou": rng.random(1).astype(np.float32),
        "score": rng.random(1).astype(np.float32),
    }
    dtype, tiles = ("fp32", "fp16", "bf16")[seed % 3], int(rng.integers(1, 17))
    made = model((shape[0], shape[1], shape[2]), {"center_point_box": seed % 2}.items(), **limits)
    check_found(made, [boxes_and_scores(seed, *shape)], dtype, tiles)
