"""Convolutions and sums of bytes by the matrix engine's own steps: at most one step from ONNX's result."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

import tx8
from compiler.driver import compile_graph
from compiler.graph import Array, GraphError
from compiler.lowering.conv.quantised.near_sums import ROW, near_sum
from compiler.operators.quantised.sums import SumQuantisation, summed_bytes
from compiler.tools import run
from onnx_models import imported, value
from onnx_oracle import onnxruntime


def convolution(
    seed: int, x: tuple[int, ...], w: tuple[int, ...], spread: float = 3.0, **more: Any
) -> tuple[Any, dict[str, Array]]:
    """A QLinearConv of unsigned bytes whose maps have scales that differ by a factor of up to ``spread``."""
    rng = np.random.default_rng(seed)
    fan = int(np.prod(w[1:]))
    scales = rng.uniform(1, spread, w[0]) * (0.3 / (40 * fan**0.5))
    known: dict[str, Array] = {
        "xs": np.float32(0.02),
        "xz": np.uint8(rng.integers(256)),
        "w": rng.integers(-63, 64, w).astype(np.int8),
        "ws": scales.astype(np.float32),
        "wz": np.zeros(w[0], np.int8),
        "ys": np.float32(0.02),
        "yz": np.uint8(more.pop("zero", rng.integers(256))),
        "b": rng.integers(-3000, 3000, w[0]).astype(np.int32),
    }
    node = helper.make_node("QLinearConv", ["x", *known], ["y"], "n", **more)
    constants = [numpy_helper.from_array(np.asarray(array), name) for name, array in known.items()]
    graph = helper.make_graph([node], "g", [value("x", x, np.uint8)], [value("y", None, np.uint8)], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return model, {"x": rng.integers(0, 256, x).astype(np.uint8)}


def steps_apart(model: Any, feeds: dict[str, Array], folder: Path) -> tuple[Array, str]:
    """Return the largest distance of a near program's bytes from onnxruntime's, and its text."""
    program = compile_graph(replace(imported(model, folder), near=True), "fp16")
    (got,) = run.execute(program, feeds)[0].values()
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (want,) = session.run(None, feeds)
    return np.abs(got.astype(int) - want.astype(int)), program.text


@pytest.mark.parametrize(
    ("x", "w", "more"),
    [
        ((1, 24, 9, 9), (40, 24, 3, 3), {"pads": [1, 1, 1, 1]}),
        ((2, 64, 6, 7), (200, 64, 1, 1), {}),
        ((1, 200, 8, 8), (72, 200, 3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1], "zero": 0}),
        ((1, 48, 10, 10), (48, 1, 3, 3), {"group": 48}),
        ((1, 130, 12), (16, 130, 3), {}),
    ],
)
def test_convolutions_are_at_most_a_step_away(
    x: tuple[int, ...], w: tuple[int, ...], more: dict[str, Any], tmp_path: Path
) -> None:
    apart, text = steps_apart(*convolution(sum(w), x, w, **more), tmp_path)
    assert apart.max() <= 1
    assert np.count_nonzero(apart) <= max(1, apart.size // 20)
    assert " q1=" in text and "ct.cvt.int32.fp32" not in text


def test_maps_of_very_different_scales_stay_exact(tmp_path: Path) -> None:
    """Numbers of 16 bits are not enough for all maps."""
    apart, text = steps_apart(*convolution(1, (1, 16, 8, 8), (32, 16, 3, 3), spread=2000.0), tmp_path)
    assert apart.max() == 0
    assert " q1=" not in text


@pytest.mark.parametrize("seed", range(6))
def test_numbers_of_sums_are_within_a_step_for_all_pairs_of_bytes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scales = [float(np.float32(each)) for each in rng.uniform(0.01, 0.1, 3)]
    zeros = [int(each) for each in rng.integers(-128, 128, 3)]
    how = SumQuantisation(scales[0], zeros[0], scales[1], zeros[1], scales[2], zeros[2], -128, 127, False)
    numbers = near_sum(how)
    assert numbers is not None
    data = numbers.data
    left, right = (
        sum(data[at * ROW * ROW].view(np.int8).astype(int) + 128 for at in places)
        for places in ((0, 1), (2, 3))
    )
    a, b = np.meshgrid(np.arange(-128, 128), np.arange(-128, 128))
    sums = (a - how.a_zero) * left + (b - how.b_zero) * right + numbers.bias
    shifted = np.clip(sums >> 3, -(2**15), 2**15 - 1) * numbers.scale >> numbers.q0
    apart = np.abs(np.clip(shifted, -128, 127) - summed_bytes(how, a, b))
    assert apart.max() <= 1
    assert np.count_nonzero(apart) <= apart.size // 20


def test_limits_that_the_engine_does_not_have() -> None:
    """A Relu with a zero point that is neither 0 nor the lowest byte, and a limit from above."""
    assert near_sum(SumQuantisation(0.1, 0, 0.1, 0, 0.1, 5, 5, 127, False)) is None
    assert near_sum(SumQuantisation(0.1, 0, 0.1, 0, 0.1, 0, -128, 100, False)) is None
    assert near_sum(SumQuantisation(1e-9, 0, 1e-9, 0, 1e9, 0, -128, 127, False)) is None


def test_other_words_are_refused() -> None:
    with pytest.raises(GraphError, match="integers='nearly': allowed are exact, near"):
        tx8.compile(convolution(0, (1, 4, 4, 4), (4, 4, 1, 1))[0], dtype="fp16", integers="nearly")
