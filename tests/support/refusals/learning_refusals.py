"""Calls that the rules of the operators of ai.onnx.ml refuse."""

from __future__ import annotations

from typing import Any

from node_refusal import Refusal

TWO_CLASSES: dict[str, Any] = {"classlabels_ints": (0, 1), "coefficients": (1.0, 2.0, 3.0)}

LEARNING_REFUSALS = [
    Refusal("ai.onnx.ml.Scaler", [(3,)], {}, "X must have rank 2 ([N, C]); found shape [3]"),
    Refusal(
        "ai.onnx.ml.Scaler",
        [(2, 3)],
        {"offset": (1.0,), "scale": (1.0, 2.0)},
        "offset and scale must have one number, or one for each of the C features; "
        "found 2 in scale with C = 3",
    ),
    Refusal(
        "ai.onnx.ml.LinearRegressor",
        [(2, 3)],
        {"coefficients": (1.0, 2.0, 3.0, 4.0), "targets": 2},
        "There must be C coefficients and at most one intercept for each of the targets; "
        "found 4 and 2 with 2 targets and C = 3",
    ),
    Refusal(
        "ai.onnx.ml.LinearClassifier",
        [(2, 3)],
        {"classlabels_strings": ("no", "yes"), "coefficients": (1.0, 2.0, 3.0)},
        "Labels must be integers (classlabels_ints): there are no strings on the chip; found 2 strings",
        outputs=("y", "z"),
    ),
    Refusal(
        "ai.onnx.ml.LinearClassifier",
        [(2, 3)],
        {**TWO_CLASSES, "classlabels_ints": (0, 1, 2)},
        "There must be two or more labels, C coefficients and one intercept for each, or once for two "
        "labels; found 3 labels, 3 coefficients, 1 intercepts with C = 3",
        outputs=("y", "z"),
    ),
    Refusal(
        "ai.onnx.ml.LinearClassifier",
        [(2, 3)],
        {**TWO_CLASSES, "post_transform": "SOFTMAX"},
        "One score for two labels needs post_transform LOGISTIC: with others implementations disagree; "
        "found post_transform SOFTMAX",
        outputs=("y", "z"),
    ),
]
