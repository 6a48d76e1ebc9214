"""The operators of ai.onnx.ml on the emulated chip, against onnxruntime, and refused ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import compiler
from compiler.frontend import load
from compiler.graph import Array, GraphError
from compiler.tools import run
from onnx_models import saved

RNG = np.random.default_rng(5)
ROWS = RNG.standard_normal((6, 3)).astype(np.float32)
ROWS[2] = 0
COUNTS = RNG.integers(-9, 9, (6, 3))
THREE = {"coefficients": [float(n) for n in RNG.standard_normal(9)], "intercepts": [0.5, -1.0, 0.0]}
LABELLED = {**THREE, "classlabels_ints": [7, 3, 5]}
TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX")
ONE = {"coefficients": [float(n) for n in RNG.standard_normal(3)], "intercepts": [0.25]}


def learned(op: str, x: Array, outputs: Sequence[str] = ("y",), **attrs: Any) -> Any:
    """A model of one operator, which declares no operator set of ONNX's own domain."""
    node = helper.make_node(op, ["x"], list(outputs), domain="ai.onnx.ml", name="n", **attrs)
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    kinds = {"label": TensorProto.INT64, "same": kind}
    made = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", kind, x.shape)],
        [helper.make_tensor_value_info(o, kinds.get(o, TensorProto.FLOAT), None) for o in outputs if o],
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("ai.onnx.ml", 1)], ir_version=8)


@pytest.mark.parametrize(
    ("op", "x", "outputs", "attrs"),
    [
        ("Scaler", ROWS, ("y",), {"offset": [1.0, 2.0, 3.0], "scale": [0.5, 2.0, 1.0]}),
        ("Scaler", ROWS, ("y",), {"offset": [1.0], "scale": [3.0]}),
        ("Scaler", COUNTS, ("y",), {"offset": [1.0], "scale": [0.5]}),
        ("Normalizer", ROWS, ("y",), {"norm": "L1"}),
        ("Normalizer", ROWS, ("y",), {"norm": "L2"}),
        ("Binarizer", ROWS, ("same",), {"threshold": 0.25}),
        ("LinearRegressor", ROWS, ("y",), {**ONE}),
        ("LinearRegressor", ROWS, ("y",), {**THREE, "targets": 3}),
        ("LinearRegressor", COUNTS.astype(np.float32), ("y",), {"coefficients": ONE["coefficients"]}),
        *(("LinearClassifier", ROWS, ("label", "z"), {**LABELLED, "post_transform": t}) for t in TRANSFORMS),
        (
            "LinearClassifier",
            ROWS,
            ("label", "z"),
            {**ONE, "classlabels_ints": [4, 9], "post_transform": "LOGISTIC"},
        ),
    ],
)
def test_operators_of_machine_learning(
    op: str, x: Array, outputs: Sequence[str], attrs: dict[str, Any], tmp_path: Path
) -> None:
    made = learned(op, x, outputs, **attrs)
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    found, _ = run.execute(compiler.compile(load(saved(made, tmp_path)), "fp32"), {"x": x})
    for name, wanted in zip(outputs, session.run(None, {"x": x}), strict=True):
        assert found[name].dtype == wanted.dtype
        np.testing.assert_allclose(found[name], wanted, rtol=1e-5, atol=1e-6)


def test_a_label_that_nobody_wants_is_not_computed(tmp_path: Path) -> None:
    made = learned("LinearClassifier", ROWS, ("", "z"), **THREE, classlabels_ints=[7, 3, 5])
    program = compiler.compile(load(saved(made, tmp_path)), "fp32")
    assert [buffer.name for buffer in program.image.buffers if buffer.kind == "output"] == ["z"]
    assert program.core_work is None


@pytest.mark.parametrize(
    ("op", "attrs", "message"),
    [
        ("Normalizer", {"norm": "MAX"}, "attribute norm must be one of L1, L2; found 'MAX'"),
        ("LinearRegressor", {**ONE, "post_transform": "PROBIT"}, "post_transform must be one of NONE"),
        ("TreeEnsembleClassifier", {}, "The lists nodes_* must describe trees"),
        ("ZipMap", {"classlabels_int64s": [0, 1]}, "no dictionaries on the chip; convert with options="),
        ("SVMClassifier", {}, "unsupported operator ai.onnx.ml.SVMClassifier (node 'n')"),
    ],
)
def test_what_is_refused(op: str, attrs: dict[str, Any], message: str, tmp_path: Path) -> None:
    """The operator is named, although the model declares no operator set of ONNX's own."""
    with pytest.raises(GraphError) as caught:
        load(saved(learned(op, ROWS, **attrs), tmp_path))
    assert message in str(caught.value)
