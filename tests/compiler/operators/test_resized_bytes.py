"""Linear Resize and Upsample of bytes: exact fractions rounded toward zero, and onnxruntime."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler.graph import Array
from onnx_calls import OnnxCall, assert_close

RNG = np.random.default_rng(6)


def some(dtype: str, *shape: int) -> Array:
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max + 1, shape).astype(dtype)


def resize(x: Array, *scales: float, opset: int = 18, **attrs: Any) -> OnnxCall:
    operands = {"x": x, "roi": np.zeros(0, np.float32), "scales": np.array(scales, np.float32)}
    attrs = {"mode": "linear"} | attrs
    return OnnxCall("Resize", operands, attrs, {"y": x.dtype}, ["roi", "scales"], opset)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize(
    ("shape", "scales", "attrs"),
    [
        ((1, 3, 8, 9), (1, 1, 2, 2), {}),
        ((8, 5), (2, 4), {"coordinate_transformation_mode": "asymmetric", "opset": 11}),
        ((1, 2, 8), (1, 1, 0.5), {"coordinate_transformation_mode": "pytorch_half_pixel"}),
        ((1, 2, 4, 5, 6), (1, 1, 2, 2, 0.5), {}),
        ((1, 4, 5, 3), (1, 2, 2, 1), {"opset": 19}),
    ],
)
def test_weights_that_are_exact(
    dtype: str, shape: tuple[int, ...], scales: tuple[float, ...], attrs: dict[str, Any], tmp_path: Path
) -> None:
    assert_close(resize(some(dtype, *shape), *scales, **attrs), tmp_path)


def exact(x: Array, scale: Fraction, count: int) -> Array:
    """The last axis interpolated in fractions, as Resize of half_pixel does, rounded toward zero."""
    size, columns = x.shape[-1], []
    for at in range(count):
        place = (at + Fraction(1, 2)) / scale - Fraction(1, 2)
        below = place.numerator // place.denominator
        ends = [x[..., min(max(end, 0), size - 1)].astype(int) for end in (below, below + 1)]
        part = place - below
        pairs = zip(ends[0].reshape(-1).tolist(), ends[1].reshape(-1).tolist(), strict=True)
        columns.append([int(a * (1 - part) + b * part) for a, b in pairs])
    return np.array(columns).T.reshape(*x.shape[:-1], count).astype(x.dtype)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("compute", ["fp32", "fp16", "bf16"])
def test_weights_that_are_rounded(dtype: str, compute: str, tmp_path: Path) -> None:
    """Integers are kept where weights of fifths and thirds add up to them."""
    x = some(dtype, 2, 3, 7)
    x[0] = x[0, :, :1]
    for scale, count in ((Fraction(5, 3), 11), (Fraction(7, 5), 9)):
        call = resize(x, 1, 1, float(scale))
        assert_close(call, tmp_path, dtype=compute, expected={"y": exact(x, scale, count)})
        away = call.by_onnxruntime()["y"].astype(int) - exact(x, scale, count)
        assert np.abs(away).max() <= 1


@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_upsample(mode: str, tmp_path: Path) -> None:
    operands = {"x": some("uint8", 1, 2, 4, 5), "scales": np.float32([1, 1, 2, 2])}
    call = OnnxCall("Upsample", operands, {"mode": mode}, {"y": np.uint8}, ["scales"], 9)
    assert_close(call, tmp_path)


def test_sizes_are_products_in_binary32(tmp_path: Path) -> None:
    """30 times the nearest number to 3.3 is less than 99, and rounds to it."""
    call = resize(RNG.standard_normal((1, 1, 30)).astype(np.float32), 1, 1, 3.3)
    assert call.by_onnxruntime()["y"].shape == (1, 1, 99)
    assert_close(call, tmp_path)
