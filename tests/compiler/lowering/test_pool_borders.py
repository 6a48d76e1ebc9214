"""Pools of negative numbers ignore positions outside of an image, wherever tiles or slices end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import compiler
from compiler.graph import Array
from compiler.tools import run
from compiler_harness import graph, small_machine
from onnx_oracle import Case, run_onnxruntime


def below_zero(*shape: int, seed: int = 3) -> Array:
    """Numbers from -5 to -1 of few bits."""
    drawn = np.random.default_rng(seed).integers(-640, -128, shape)
    return np.asarray(drawn / 128, np.float32)


def assert_pooled(op: str, x: Array, dtype: str, tiles: int, **attrs: Any) -> None:
    """The chip pools as onnxruntime does, whether or not the search groups and divides operators."""
    case = Case(op, {"x": x}, attrs, 22)
    wanted = run_onnxruntime(case.model(), {"x": x})
    for search, residency in (("off", "off"), ("fast", "on")):
        program = compiler.compile(case.graph(), dtype, tiles, search=search, residency=residency)
        got = run.execute(program, {"x": x})[0]["out"]
        np.testing.assert_allclose(got, wanted, rtol=2e-3, err_msg=f"{search} {attrs}")


@pytest.mark.parametrize("tiles", [1, 2, 3, 4, 16])
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_the_last_window_reaches_beyond_a_row(op: str, tiles: int) -> None:
    """Shares of 3 of 5 elements: the last share has one element and nothing after it."""
    x = -np.arange(1, 6, dtype=np.float32).reshape(1, 1, 5)
    assert_pooled(op, x, "fp32", tiles, kernel_shape=(2,), strides=(2,), ceil_mode=1)


WINDOWS: tuple[dict[str, Any], ...] = (
    {"kernel_shape": (2, 2), "strides": (2, 2), "ceil_mode": 1},
    {"kernel_shape": (3, 3), "strides": (2, 2), "ceil_mode": 1},
    {"kernel_shape": (3, 2), "strides": (1, 3), "pads": (1, 0, 2, 1)},
    {"kernel_shape": (3, 3), "strides": (3, 1), "pads": (2, 2, 0, 1)},
    {"kernel_shape": (1, 3), "strides": (1, 2), "pads": (0, 1, 0, 1), "ceil_mode": 1},
)


@pytest.mark.parametrize("attrs", WINDOWS, ids=str)
@pytest.mark.parametrize("shape", [(1, 3, 7, 9), (2, 70, 5, 6)], ids=str)
@pytest.mark.parametrize("tiles", [1, 2, 5, 16])
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
def test_borders(op: str, tiles: int, shape: tuple[int, ...], attrs: dict[str, Any]) -> None:
    assert_pooled(op, below_zero(*shape), "fp16" if tiles % 2 else "fp32", tiles, **attrs)


@pytest.mark.parametrize("attrs", [{"dilations": (2, 1), "pads": (1, 1, 1, 1)}, {"ceil_mode": 1}], ids=str)
def test_dilated_windows(attrs: dict[str, Any]) -> None:
    window = {"kernel_shape": (2, 3), "strides": (2, 2)}
    assert_pooled("MaxPool", below_zero(1, 5, 9, 8), "fp32", 3, **window, **attrs)


@pytest.mark.parametrize("tiles", [2, 16])
@pytest.mark.parametrize("spm", [0x10000, 0x300000])
@pytest.mark.parametrize("pool", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("window", WINDOWS[:3], ids=str)
def test_between_convolutions(window: dict[str, Any], pool: str, spm: int, tiles: int) -> None:
    """In stacks and sliced sequences; biases keep all numbers below 0, and no Relu could hide a wrong 0."""
    rng = np.random.default_rng(5)
    constants = {"b": np.full(40, -3, np.float32)}
    for name, shape in {"v": (40, 5, 3, 3), "w": (40, 40, 1, 1)}.items():
        constants[name] = (rng.integers(-8, 9, shape) / 256).astype(np.float32)
    nodes: list[Any] = [
        ("Conv", ["x", "v", "b"], ["c"], {"pads": (1, 1, 1, 1)}),
        (pool, ["c"], ["p"], window),
        ("Conv", ["p", "w", "b"], ["d"], {}),
        (pool, ["d"], ["y"], window),
    ]
    made = graph(nodes, {"x": (1, 5, 17, 14)}, constants)
    outcome = run.check(
        compiler.compile(made, "fp16", tiles, small_machine(spm)), {"x": below_zero(1, 5, 17, 14)}
    )
    assert all(found.as_the_format_allows for found in outcome.judgements.values())
