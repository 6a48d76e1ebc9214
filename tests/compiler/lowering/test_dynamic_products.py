"""Products of bytes with computed zero points: on the engines, with the numbers of onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

from compiler.driver import compile_graph
from compiler.graph import Array
from compiler.tools import run
from onnx_models import imported, value
from onnx_oracle import run_onnxruntime

Nodes = list[Any]
_MICROSOFT = "com.microsoft"


def model_of(nodes: Nodes, x: tuple[int, ...], y: tuple[int, ...], known: dict[str, Array]) -> Any:
    """Nodes from the floats ``x`` to the floats ``y``."""
    constants = [numpy_helper.from_array(array, name) for name, array in known.items()]
    graph = helper.make_graph(nodes, "g", [value("x", x)], [value("y", y)], constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(_MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def written_out(op: str, second: list[str], **attrs: Any) -> Nodes:
    """A product as onnxruntime's dynamic quantisation writes it; ``second``: weights and their zero point."""
    return [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"], "quantise"),
        helper.make_node(op, ["q", second[0], "z", *second[1:]], ["i"], "product", **attrs),
        helper.make_node("Cast", ["i"], ["f"], "cast", to=1),
        helper.make_node("Mul", ["s", "ws"], ["t"], "scales"),
        helper.make_node("Mul", ["f", "t"], ["y"], "scaled"),
    ]


def assert_close(model: Any, folder: Path, dtype: str, shift: float = 1.0) -> None:
    """The program has no phase on the kernel core, and its results equal those of onnxruntime up to
    rounding."""
    graph = imported(model, folder)
    feeds = {
        "x": (np.random.default_rng(3).standard_normal(graph.inputs[0].shape) + shift).astype(np.float32)
    }
    program = compile_graph(graph, dtype)
    assert program.report is not None
    assert [phase.name for phase in program.report.phases if phase.kernel_core] == []
    want, got = run_onnxruntime(model, feeds), run.execute(program, feeds)[0]["y"]
    bound = {"fp32": 1e-5, "fp16": 2e-3}[dtype] * np.abs(want).max()
    np.testing.assert_allclose(got, want, rtol=0, atol=bound)


def weights(shape: tuple[int, ...], dtype: str = "int8") -> Array:
    rng = np.random.default_rng(len(shape))
    return (rng.integers(-63, 64, shape) + (0 if dtype == "int8" else 100)).astype(dtype)


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
@pytest.mark.parametrize(
    ("x", "w"), [((2, 20, 70), (70, 33)), ((5, 1500), (1500, 16))], ids=["small", "sums of 24 bits"]
)
def test_matrix_products(x: tuple[int, ...], w: tuple[int, int], dtype: str, tmp_path: Path) -> None:
    """Sums of 1500 products leave FP16, and nearly the integers that FP32 has."""
    known = {"w": weights(w), "wz": np.zeros(w[1], np.int8), "ws": np.full(w[1], 0.01, np.float32)}
    nodes = written_out("MatMulInteger", ["w", "wz"])
    assert_close(model_of(nodes, x, (*x[:-1], w[1]), known), tmp_path, dtype)


def test_weights_with_zero_points(tmp_path: Path) -> None:
    known = {
        "w": weights((40, 24), "uint8"),
        "wz": np.array(90, np.uint8),
        "ws": np.float32(0.02) * np.ones(1),
    }
    known["ws"] = known["ws"].astype(np.float32)
    assert_close(
        model_of(written_out("MatMulInteger", ["w", "wz"]), (9, 40), (9, 24), known), tmp_path, "fp32"
    )


@pytest.mark.parametrize(
    ("w", "y", "attrs"),
    [
        ((24, 16, 3, 3), (1, 24, 9, 8), {"pads": [1, 1, 1, 1]}),
        ((8, 16, 1, 1), (1, 8, 9, 8), {}),
        ((16, 1, 3, 3), (1, 16, 5, 4), {"group": 16, "pads": [1, 1, 1, 1], "strides": [2, 2]}),
        ((12, 8, 3, 3), (1, 12, 9, 8), {"group": 2, "auto_pad": "SAME_UPPER"}),
    ],
)
def test_convolutions(w: tuple[int, ...], y: tuple[int, ...], attrs: dict[str, Any], tmp_path: Path) -> None:
    """Positions outside of the image add nothing, whatever the zero point is."""
    known = {"w": weights(w), "ws": np.array(0.01, np.float32)}
    assert_close(
        model_of(written_out("ConvInteger", ["w"], **attrs), (1, 16, 9, 8), y, known), tmp_path, "fp32"
    )


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
def test_operators_of_onnxruntime(dtype: str, tmp_path: Path) -> None:
    """DynamicQuantizeMatMul, and MatMulIntegerToFloat after a DynamicQuantizeLinear."""
    known = {"w": weights((48, 48)), "ws": np.full(48, 0.002, np.float32), "wz": np.zeros(48, np.int8)}
    known["b"] = np.linspace(-1, 1, 48).astype(np.float32)
    nodes = [
        helper.make_node(
            "DynamicQuantizeMatMul", ["x", "w", "ws", "wz", "b"], ["a"], "first", domain=_MICROSOFT
        ),
        helper.make_node("DynamicQuantizeLinear", ["a"], ["q", "s", "z"], "quantise"),
        helper.make_node(
            "MatMulIntegerToFloat", ["q", "w", "s", "ws", "z", "wz", "b"], ["y"], "second", domain=_MICROSOFT
        ),
    ]
    assert_close(model_of(nodes, (6, 48), (6, 48), known), tmp_path, dtype, shift=0.3)


def test_sums_that_stay_integers(tmp_path: Path) -> None:
    """The int32 of the operator itself is exact, on the kernel core."""
    nodes = written_out("MatMulInteger", ["w"])[:2]
    made = model_of(nodes, (3, 30), (3, 7), {"w": weights((30, 7))})
    made.graph.output[0].CopyFrom(value("i", (3, 7), np.int32))
    feeds = {"x": np.random.default_rng(5).standard_normal((3, 30)).astype(np.float32)}
    got = run.execute(compile_graph(imported(made, tmp_path), "fp16"), feeds)[0]["i"]
    np.testing.assert_array_equal(got, run_onnxruntime(made, feeds))
