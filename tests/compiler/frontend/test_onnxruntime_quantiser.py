"""Models written by onnxruntime's quantiser: no part runs on the kernel core, and answers are right."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnxruntime.quantization import (  # type: ignore[import-untyped]
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)

import compiler
from compiler.frontend import load
from compiler.graph import Array
from compiler.tools import run
from float_nets import cosine
from onnx_models import value
from onnx_oracle import run_onnxruntime

Parts = tuple[list[Any], dict[str, Any], tuple[int, ...]]


def encoder() -> Parts:
    """A layer whose queries, keys and values are three products."""
    rng = np.random.default_rng(1)
    shapes = {**dict.fromkeys(("wq", "wk", "wv", "wo"), (64, 64)), "up": (64, 128), "down": (128, 64)}
    constants: dict[str, Any] = {
        name: (rng.standard_normal(shape) / 8).astype(np.float32) for name, shape in shapes.items()
    }
    constants |= {f"b{name}": rng.standard_normal(64).astype(np.float32) / 8 for name in "qkvo"}
    constants |= {"ones": np.ones(64, np.float32), "zeros": np.zeros(64, np.float32)}
    constants |= {"heads": np.array([1, 32, 2, 32]), "rows": np.array([1, 32, 64])}
    constants["part"] = np.array(32**-0.5, np.float32)
    nodes: list[Any] = []

    def add(op: str, inputs: list[str], output: str, **attrs: Any) -> None:
        nodes.append(helper.make_node(op, inputs, [output], f"{output}_node", **attrs))

    for name, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        add("MatMul", ["x", f"w{name}"], f"{name}m")
        add("Add", [f"{name}m", f"b{name}"], f"{name}a")
        add("Reshape", [f"{name}a", "heads"], f"{name}r")
        add("Transpose", [f"{name}r"], f"{name}t", perm=order)
    add("MatMul", ["qt", "kt"], "scores")
    add("Mul", ["scores", "part"], "scaled")
    add("Softmax", ["scaled"], "shares", axis=-1)
    add("MatMul", ["shares", "vt"], "context")
    add("Transpose", ["context"], "ct", perm=[0, 2, 1, 3])
    add("Reshape", ["ct", "rows"], "cr")
    add("MatMul", ["cr", "wo"], "om")
    add("Add", ["om", "bo"], "oa")
    add("Add", ["oa", "x"], "first")
    add("LayerNormalization", ["first", "ones", "zeros"], "normal", axis=-1)
    add("MatMul", ["normal", "up"], "um")
    add("Relu", ["um"], "ur")
    add("MatMul", ["ur", "down"], "dm")
    add("Add", ["dm", "normal"], "second")
    add("LayerNormalization", ["second", "ones", "zeros"], "y", axis=-1)
    return nodes, constants, (1, 32, 64)


def cnn() -> Parts:
    """Convolutions of several kinds, pools, a residual sum, limits, a gate and a classifier."""
    rng = np.random.default_rng(2)
    shapes = {"w0": (16, 3, 3, 3), "w1": (16, 16, 3, 3), "w2": (16, 1, 3, 3), "w3": (10, 16)}
    constants: dict[str, Any] = {
        name: (rng.standard_normal(shape) / np.prod(shape[1:]) ** 0.5).astype(np.float32)
        for name, shape in shapes.items()
    }
    constants |= {"low": np.array(0, np.float32), "high": np.array(6, np.float32)}
    same = {"pads": [1, 1, 1, 1]}
    nodes: list[Any] = []

    def add(op: str, inputs: list[str], output: str, **attrs: Any) -> None:
        nodes.append(helper.make_node(op, inputs, [output], f"{output}_node", **attrs))

    add("Conv", ["x", "w0"], "c0", **same)
    add("Relu", ["c0"], "r0")
    add("MaxPool", ["r0"], "p0", kernel_shape=[2, 2], strides=[2, 2])
    add("Conv", ["p0", "w1"], "c1", **same)
    add("Add", ["c1", "p0"], "sum")
    add("Relu", ["sum"], "r1")
    add("Conv", ["r1", "w2"], "c2", group=16, **same)
    add("Clip", ["c2", "low", "high"], "k")
    add("AveragePool", ["k"], "p1", kernel_shape=[2, 2], strides=[2, 2])
    add("Sigmoid", ["p1"], "gate")
    add("Mul", ["p1", "gate"], "gated")
    add("GlobalAveragePool", ["gated"], "mean")
    add("Flatten", ["mean"], "flat")
    add("Gemm", ["flat", "w3"], "logits", transB=1)
    add("Softmax", ["logits"], "y")
    return nodes, constants, (1, 3, 16, 16)


def recurrent() -> Parts:
    """A layer of long short-term memory cells, and a product of its outputs."""
    rng = np.random.default_rng(3)
    shapes = {"w": (1, 128, 16), "r": (1, 128, 32), "b": (1, 256), "end": (32, 16)}
    constants: dict[str, Any] = {
        name: (rng.standard_normal(shape) / 4).astype(np.float32) for name, shape in shapes.items()
    }
    constants["axes"] = np.array([1])
    nodes = [
        helper.make_node("LSTM", ["x", "w", "r", "b"], ["states"], "layer", hidden_size=32),
        helper.make_node("Squeeze", ["states", "axes"], ["rows"], "squeeze"),
        helper.make_node("MatMul", ["rows", "end"], ["y"], "product"),
    ]
    return nodes, constants, (2, 1, 16)


NETS = {"encoder": encoder, "cnn": cnn}


class Draws(CalibrationDataReader):  # type: ignore[misc]
    """Normally distributed calibration data."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        rng = np.random.default_rng(3)
        self._left: Iterator[dict[str, Array]] = iter(
            [{"x": rng.standard_normal(shape).astype(np.float32)} for _ in range(8)]
        )

    def get_next(self) -> dict[str, Array] | None:
        return next(self._left, None)


def saved(net: str, folder: Path) -> tuple[Path, tuple[int, ...]]:
    """A network of floats as a file, and the shape of its input."""
    nodes, constants, shape = {**NETS, "recurrent": recurrent}[net]()
    known = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    last = (1, 10) if net == "cnn" else shape
    made = helper.make_graph(nodes, net, [value("x", shape)], [value("y", last)], known)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "float.onnx")
    return folder / "float.onnx", shape


def quantised(net: str, form: str, activations: str, folder: Path) -> tuple[Path, tuple[int, ...]]:
    source, shape = saved(net, folder)
    logging.disable(logging.WARNING)
    try:
        quantize_static(
            source,
            folder / "net.onnx",
            Draws(shape),
            quant_format=QuantFormat[form],
            activation_type=QuantType[activations],
            weight_type=QuantType.QInt8,
            reduce_range=True,
        )
    finally:
        logging.disable(logging.NOTSET)
    return folder / "net.onnx", shape


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize(
    ("form", "activations"),
    [
        ("QDQ", "QInt8"),
        ("QOperator", "QUInt8"),
        pytest.param("QDQ", "QUInt8", marks=pytest.mark.long),
        pytest.param("QOperator", "QInt8", marks=pytest.mark.long),
    ],
)
def test_nothing_runs_on_the_kernel_core(net: str, form: str, activations: str, tmp_path: Path) -> None:
    path, shape = quantised(net, form, activations, tmp_path)
    assert_on_engines(path, shape, 0.999)


def assert_on_engines(path: Path, shape: tuple[int, ...], least: float) -> None:
    """No phase of a model's program runs on the kernel core, and the answer is that of onnxruntime."""
    program = compiler.compile(load(path), "fp16", search="off")
    assert program.report is not None
    assert [phase.name for phase in program.report.phases if phase.kernel_core] == []
    inputs = {"x": np.random.default_rng(4).standard_normal(shape).astype(np.float32)}
    wanted = run_onnxruntime(onnx.load(path), inputs)
    assert cosine(run.execute(program, inputs)[0]["y"], wanted) > least


@pytest.mark.parametrize(
    ("net", "weights", "per_channel"),
    [
        *((net, "QInt8", per_channel) for net in NETS for per_channel in (False, True)),
        ("recurrent", "QInt8", True),
        *(pytest.param(net, "QUInt8", False, marks=pytest.mark.long) for net in NETS),
        pytest.param("recurrent", "QInt8", False, marks=pytest.mark.long),
    ],
)
def test_dynamic_quantisation_runs_on_the_engines(
    net: str, weights: str, per_channel: bool, tmp_path: Path
) -> None:
    """Scales and zero points of values are computed in each run."""
    source, shape = saved(net, tmp_path)
    logging.disable(logging.WARNING)
    try:
        quantize_dynamic(
            source,
            tmp_path / "net.onnx",
            op_types_to_quantize=["MatMul", "Conv", "Gemm", "LSTM"],
            per_channel=per_channel,
            reduce_range=True,
            weight_type=QuantType[weights],
        )
    finally:
        logging.disable(logging.NOTSET)
    written = {node.op_type for node in onnx.load(tmp_path / "net.onnx").graph.node}
    assert {"DynamicQuantizeLinear", "MatMulInteger"} <= written
    assert ("DynamicQuantizeLSTM" in written) == (net == "recurrent")
    assert_on_engines(tmp_path / "net.onnx", shape, 0.9999)
