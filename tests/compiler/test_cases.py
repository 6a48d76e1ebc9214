"""Five classic operators at awkward sizes, on random data, compared with formulas in binary64."""

from __future__ import annotations

import numpy as np
import pytest

import compiler
from compiler.evaluation.storage import STORAGE
from compiler.evaluation.tolerance import judge
from compiler.graph import Array
from compiler.tools import run
from compiler_harness import graph
from tx8isa.numbers.rounding import rounded

DTYPES = ("fp16", "fp32")


def grid(
    state: np.random.RandomState, shape: tuple[int, ...], scale: float, bits: int, offset: float = 0.0
) -> Array:
    """Normally distributed multiples of 2**-bits, which half precision holds exactly."""
    return np.round((state.standard_normal(shape) * scale + offset) * 2.0**bits) / 2.0**bits


def assert_case(made: object, dtype: str, inputs: dict[str, Array], expected: Array) -> None:
    program = compiler.compile(made, dtype)  # type: ignore[arg-type]
    got = run.execute(program, inputs)[0]["y"]
    verdict = judge("operator", dtype, got, expected)
    assert verdict.ok, verdict.text


@pytest.mark.parametrize("dtype", ["fp16", "fp32", "bf16"])
@pytest.mark.parametrize("channels", [30, 129])
def test_batch_normalization(channels: int, dtype: str) -> None:
    state = np.random.RandomState(1000 + channels)
    x = grid(state, (4, 112, 2, channels), 1.5, 6).astype(np.float16)
    scale, shift = grid(state, (channels,), 0.3, 10, 1.0), grid(state, (channels,), 0.5, 10)
    mean, variance = grid(state, (channels,), 0.7, 10), np.abs(grid(state, (channels,), 1.0, 10)) + 2.0**-10
    operand = rounded(x, STORAGE[dtype]) if dtype == "bf16" else x
    expected = scale * (operand.astype(np.float64) - mean) / np.sqrt(variance + 1e-6) + shift
    constants = {
        name: v.astype(np.float32)
        for name, v in (("scale", scale), ("shift", shift), ("mean", mean), ("variance", variance))
    }
    node = ("BatchNormalization", ["x", *constants], ["y"], {"epsilon": 1e-6})
    made = graph([node], {"x": (4, channels, 112, 2)}, constants, dtype="float16")
    assert_case(
        made, dtype, {"x": np.ascontiguousarray(x.transpose(0, 3, 1, 2))}, expected.transpose(0, 3, 1, 2)
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_gemm(dtype: str) -> None:
    state = np.random.RandomState(2)
    a, b, bias = (
        grid(state, (1000, 777), 1.0, 5),
        grid(state, (777, 333), 0.5, 6),
        grid(state, (333,), 1.0, 6),
    )
    constants = {"b": b.astype(np.float32), "c": bias.astype(np.float32)}
    made = graph([("Gemm", ["a", "b", "c"], ["y"], {})], {"a": (1000, 777)}, constants)
    assert_case(made, dtype, {"a": a.astype(np.float32)}, a @ b + bias)


@pytest.mark.parametrize("dtype", DTYPES)
def test_convolution(dtype: str) -> None:
    state = np.random.RandomState(3)
    x, w, bias = (
        grid(state, (1, 57, 61, 67), 1.0, 6),
        grid(state, (131, 57, 3, 3), 0.06, 9),
        grid(state, (131,), 0.5, 9),
    )
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    expected = np.zeros((1, 131, 31, 34)) + bias[None, :, None, None]
    for i in range(3):
        for j in range(3):
            taps = padded[:, :, i : i + 61 : 2, j : j + 67 : 2]
            expected += np.einsum("nchw,kc->nkhw", taps, w[:, :, i, j])
    attrs = {"strides": (2, 2), "pads": (1, 1, 1, 1)}
    constants = {"w": w.astype(np.float32), "b": bias.astype(np.float32)}
    made = graph([("Conv", ["x", "w", "b"], ["y"], attrs)], {"x": (1, 57, 61, 67)}, constants)
    assert_case(made, dtype, {"x": x.astype(np.float32)}, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax(dtype: str) -> None:
    x = grid(np.random.RandomState(4), (2, 3, 197, 197), 2.0, 6)
    x[0, 0, 0] = 3.0
    x[0, 0, 1, 5] = 60000.0
    x[0, 0, 2] -= 20000.0
    x[0, 1] = np.where(np.arange(197)[None] > np.arange(197)[:, None], -np.inf, x[0, 1])
    half = x.astype(np.float16)
    shifted = np.exp(half.astype(np.float64) - half.astype(np.float64).max(-1, keepdims=True))
    expected = shifted / shifted.sum(-1, keepdims=True)
    made = graph([("Softmax", ["x"], ["y"], {})], {"x": (2, 3, 197, 197)})
    assert_case(made, dtype, {"x": half.astype(np.float32)}, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_layer_normalization(dtype: str) -> None:
    state = np.random.RandomState(5)
    x = grid(state, (3, 197, 770), 1.0, 6)
    x[0, 0] = 2.5
    x[0, 1] = 1000 + np.round(state.standard_normal(770) * 2) / 2
    x[0, 2] = np.round(x[0, 2] * 64) / 64 * 2.0**-8
    x[1, 0, 0] = 2000.0
    half = x.astype(np.float16).astype(np.float64)
    scale, bias = grid(state, (770,), 0.2, 10, 1.0), grid(state, (770,), 0.2, 10)
    centred = half - half.mean(-1, keepdims=True)
    expected = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale + bias
    constants = {"s": scale.astype(np.float32), "b": bias.astype(np.float32)}
    made = graph([("LayerNormalization", ["x", "s", "b"], ["y"], {})], {"x": (3, 197, 770)}, constants)
    assert_case(made, dtype, {"x": half.astype(np.float32)}, expected)
