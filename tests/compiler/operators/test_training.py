"""Dropout and BatchNormalization in training, against ONNX's evaluator, and refusals of random operators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler.graph import Array, GraphError
from onnx_calls import OnnxCall, assert_close

X = np.random.default_rng(4).standard_normal((2, 3, 5)).astype(np.float32)
BOTH = {"y": np.float32, "mask": np.bool_}


def dropout(ratio: Any, training: Any, *known: str, opset: int = 22) -> OnnxCall:
    operands: dict[str, Array | None] = {"x": X}
    if opset >= 12:
        operands |= {"ratio": None if ratio is None else np.array(ratio, np.float32)}
        operands |= {} if training is None else {"training": np.array(training)}
    return OnnxCall("Dropout", operands, {}, BOTH, known, opset)


@pytest.mark.parametrize(
    "call",
    [
        dropout(0, True, "ratio", "training", opset=12),
        dropout(0, True, "ratio", "training", opset=13),
        dropout(0, True, "ratio", "training"),
        dropout(0, True, "ratio"),
        dropout(0.5, False, "training"),
        dropout(0.5, False, "ratio", "training"),
        dropout(0.5, None),
        dropout(None, None, opset=10),
    ],
)
def test_dropout_that_drops_nothing(call: OnnxCall, tmp_path: Path) -> None:
    assert_close(call, tmp_path, expected={"y": X, "mask": np.ones(X.shape, bool)})


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (
            dropout(0.25, True, "ratio", "training"),
            "are random otherwise; found training_mode true, ratio 0.25",
        ),
        (dropout(None, True, "training"), "are random otherwise; found training_mode true, ratio 0.5"),
        (dropout(0.5, True, "ratio"), "input training_mode must be a constant"),
        (dropout(0, True, "training"), "input ratio must be a constant"),
    ],
)
def test_dropout_that_drops_at_random_is_refused(call: OnnxCall, found: str, tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="unsupported operator Dropout") as error:
        call.graph(tmp_path)
    assert found in str(error.value)


def normalization(
    *shape: int, opset: int = 15, outputs: str = "y mean var", known: str = "", **attrs: Any
) -> OnnxCall:
    rng = np.random.default_rng(len(shape) + opset)
    rows = {name: rng.standard_normal(shape[1]).astype(np.float32) for name in ("s", "b", "m", "v")}
    rows["v"] = np.abs(rows["v"])
    operands = {"x": (rng.standard_normal(shape) * 2 + 1).astype(np.float32), **rows}
    results = dict.fromkeys(outputs.split(), np.float32)
    attrs = ({"training_mode": 1} if opset >= 14 else {}) | attrs
    return OnnxCall("BatchNormalization", operands, attrs, results, known.split(), opset)


@pytest.mark.parametrize(
    ("call", "dtype", "tiles"),
    [
        (normalization(4, 3, 5, 2, momentum=0.7, epsilon=1e-2), "fp32", 2),
        (normalization(1, 65, 3, 3), "fp16", 16),
        (normalization(5, 3, opset=22), "bf16", 1),
        (normalization(2, 3, 7, outputs="y", known="s b m v", opset=14), "fp32", 4),
        (normalization(2, 3, 7, outputs="y _ var", known="s"), "fp32", 4),
    ],
)
def test_batch_normalization_in_training(call: OnnxCall, dtype: str, tiles: int, tmp_path: Path) -> None:
    tolerance = {"fp32": 1e-6, "fp16": 2e-3, "bf16": 2e-2}[dtype]
    assert_close(call, tmp_path, tolerance, dtype, tiles, call.by_evaluator())


@pytest.mark.parametrize("opset", [7, 13])
def test_before_14_five_outputs_are_training(opset: int, tmp_path: Path) -> None:
    assert_close(normalization(3, 2, 4, opset=opset, outputs="y mean var _a _b"), tmp_path, 1e-6)


def test_statistics_of_inference_and_saved_ones_are_refused(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="Outputs after the first need training_mode 1; found output 'mean'"):
        normalization(2, 3, training_mode=0, opset=15).graph(tmp_path)
    with pytest.raises(GraphError, match="output 'saved' is a result that is not supported"):
        normalization(2, 3, opset=9, outputs="y mean var saved inverse").graph(tmp_path)
