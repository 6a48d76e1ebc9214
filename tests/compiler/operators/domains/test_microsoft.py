"""Operators of com.microsoft on floats, on the emulated chip against onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiler.graph import Array
from microsoft_cases import MicrosoftCall, assert_close, floats

F32 = np.float32


def call(op: str, operands: list[Array | None], known: int = 0, **attrs: object) -> MicrosoftCall:
    """A call whose operands are named by their places; the last ``known`` ones are constants."""
    named = {f"i{at}": array for at, array in enumerate(operands)}
    given = [name for name, array in named.items() if array is not None]
    return MicrosoftCall(op, named, attrs, known=given[len(given) - known :])


X = floats(2, 5, 48)
ROW = floats(48)


@pytest.mark.parametrize(
    "made",
    [
        call("Gelu", [X]),
        call("BiasGelu", [X, ROW], 1),
        call("FastGelu", [X]),
        call("FastGelu", [X, ROW], 1),
        call("QuickGelu", [X]),
        call("QuickGelu", [X], alpha=1.0),
    ],
    ids=lambda made: made.op,
)
def test_activations(made: MicrosoftCall, tmp_path: Path) -> None:
    assert_close(made, tmp_path)


def test_the_fast_gelu_in_short_formats(tmp_path: Path) -> None:
    made = call("FastGelu", [X, ROW], 1)
    found = made.on_chip(tmp_path, "fp16")[1]["y"]
    np.testing.assert_allclose(found, made.by_onnxruntime()["y"], atol=0.01)


# --- normalizations --------------------------------------------------------------------------------------

SKIPPED = {"y": F32, "_mean": F32, "_factor": F32, "sum": F32}


@pytest.mark.parametrize("summed", [True, False])
@pytest.mark.parametrize("skip", [(2, 5, 48), (5, 48), (1, 5, 48)])
@pytest.mark.parametrize("beta", [True, False])
def test_skip_layer_normalization(beta: bool, skip: tuple[int, ...], summed: bool, tmp_path: Path) -> None:
    operands = [X, floats(*skip), ROW, floats(48) if beta else None, floats(48) if summed else None]
    made = call("SkipLayerNormalization", operands, 1 + beta + summed, epsilon=1e-5)
    if summed:
        made.outputs = SKIPPED
    assert_close(made, tmp_path)


@pytest.mark.parametrize("bias", [True, False])
def test_skip_root_mean_square(bias: bool, tmp_path: Path) -> None:
    operands = [X, floats(2, 5, 48), ROW, floats(48) if bias else None]
    made = call("SkipSimplifiedLayerNormalization", operands, 1 + bias, epsilon=1e-5)
    made.outputs = SKIPPED
    assert_close(made, tmp_path)


@pytest.mark.parametrize("axis", [-1, 1])
def test_what_onnxruntime_writes_as_an_operator_of_onnx(axis: int, tmp_path: Path) -> None:
    made = call("SimplifiedLayerNormalization", [X, floats(*X.shape[axis:])], 1, axis=axis, epsilon=1e-3)
    made.domain = ""
    assert_close(made, tmp_path)


TABLES: list[Array | None] = [floats(30, 16), floats(9, 16), floats(2, 16), floats(16), floats(16)]


def words(segments: bool, mask: bool, positions: bool) -> MicrosoftCall:
    """Seven words of each of two sentences, embedded."""
    rng = np.random.default_rng(2)
    ids = rng.integers(0, 30, (2, 7)).astype(np.int32)
    parts = rng.integers(0, 2, (2, 7)).astype(np.int32)
    seen = (np.arange(7) < np.array([[4], [7]])).astype(np.int32)
    places = rng.integers(0, 9, (2, 7)).astype(np.int32)
    word, place, part, gamma, beta = TABLES
    operands = {"ids": ids, "parts": parts if segments else None, "word": word, "place": place}
    operands |= {"part": part if segments else None, "gamma": gamma, "beta": beta}
    operands |= {"mask": seen if mask else None, "places": places if positions else None}
    known = [n for n in ("word", "place", "part", "gamma", "beta") if operands[n] is not None]
    outputs = {"y": F32, "index": np.int32, "total": F32}
    attrs = {"epsilon": 1e-5, "mask_index_type": int(mask)}
    return MicrosoftCall("EmbedLayerNormalization", operands, attrs, outputs, known)


@pytest.mark.parametrize("segments", [True, False])
@pytest.mark.parametrize("mask", [True, False])
@pytest.mark.parametrize("positions", [True, False])
def test_embeddings(segments: bool, mask: bool, positions: bool, tmp_path: Path) -> None:
    assert_close(words(segments, mask, positions), tmp_path)


# --- fused products --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "attrs"),
    [
        ((2, 3, 4), (2, 4, 5), {}),
        ((2, 4, 3), (2, 4, 5), {"transA": 1, "alpha": 0.125}),
        ((2, 3, 4), (5, 4), {"transB": 1}),
        ((4, 3), (5, 4), {"transA": 1, "transB": 1, "alpha": -2.0}),
        ((3, 2, 4), (2, 4, 5), {"transBatchA": 1}),
        ((2, 3, 4), (4, 2, 5), {"transBatchB": 1}),
        ((4, 2, 3), (5, 2, 4), {"transA": 1, "transBatchA": 1, "transB": 1, "transBatchB": 1}),
    ],
)
def test_products_of_transposed_operands(
    a: tuple[int, ...], b: tuple[int, ...], attrs: dict[str, object], tmp_path: Path
) -> None:
    assert_close(call("FusedMatMul", [floats(*a), floats(*b)], **attrs), tmp_path)


ACTIVATIONS = {
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
    "LeakyRelu": (0.2,),
    "HardSigmoid": (0.3, 0.4),
    "Clip": (-0.5, 0.75),
}


@pytest.mark.parametrize("op", ["Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid", "Elu", "Softplus"])
def test_gemm_with_an_activation(op: str, tmp_path: Path) -> None:
    greek = ("activation_alpha", "activation_beta")
    given = dict(zip(greek, {**ACTIVATIONS, "Elu": (0.7,)}.get(op, ()), strict=False))
    operands = [floats(6, 9), floats(7, 9), floats(7)]
    assert_close(call("FusedGemm", operands, 2, transB=1, alpha=0.5, activation=op, **given), tmp_path)


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("op", sorted(ACTIVATIONS))
def test_convolution_with_an_activation(op: str, residual: bool, tmp_path: Path) -> None:
    image, weights = floats(1, 6, 9, 8), floats(8, 3, 3, 3, scale=0.3)
    made = call("FusedConv", [image, weights, floats(8)], 2)
    made.attrs = {"activation": op, "group": 2, "pads": [1, 1, 1, 1], "strides": [2, 1]}
    if ACTIVATIONS[op]:
        made.attrs = {**made.attrs, "activation_params": list(ACTIVATIONS[op])}
    if residual:
        made.operands = {**made.operands, "z": floats(1, 8, 5, 8)}
    assert_close(made, tmp_path)


@pytest.mark.parametrize("op", ["NhwcConv", "NhwcFusedConv"])
def test_convolutions_with_channels_last(op: str, tmp_path: Path) -> None:
    """onnxruntime has no kernel for these on a processor: the oracle is its Conv, between transposes."""
    image, weights, bias = floats(1, 9, 8, 6), floats(8, 6, 3, 3, scale=0.3), floats(8)
    attrs = {"pads": [1, 0, 1, 0], "dilations": [1, 2]}
    made = call(op, [image, weights, bias], 2, **attrs)
    plain = call("Conv", [image.transpose(0, 3, 1, 2), weights, bias], 2, **attrs)
    plain.domain = ""
    wanted = plain.by_onnxruntime()["y"].transpose(0, 2, 3, 1)
    if op == "NhwcFusedConv":
        residual = floats(*wanted.shape)
        made.operands = {**made.operands, "z": residual}
        made.attrs = {**attrs, "activation": "Relu"}
        wanted = np.maximum(wanted + residual, 0)
    np.testing.assert_allclose(made.on_chip(tmp_path)[1]["y"], wanted, rtol=1e-5, atol=1e-5)
