"""DFT and STFT against numpy.fft, which computes in binary64, and onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiler.graph import Array, GraphError
from onnx_calls import OnnxCall, assert_close

RNG = np.random.default_rng(8)


def signal(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def parts(values: Array) -> Array:
    """Complex numbers as their parts."""
    return np.stack([values.real, values.imag], axis=-1).astype(np.float32)


def dft(
    x: Array, length: int | None = None, axis: int | None = None, opset: int = 20, **attrs: int
) -> OnnxCall:
    operands: dict[str, Array | None] = {"x": x, "length": None if length is None else np.array(length)}
    if opset < 20:
        attrs |= {} if axis is None else {"axis": axis}
    elif axis is not None:
        operands["axis"] = np.array(axis)
    known = [name for name, array in operands.items() if array is not None and name != "x"]
    return OnnxCall("DFT", operands, attrs, known=known, opset=opset)


def by_numpy(call: OnnxCall, axis: int) -> Array:
    x, attrs = call.given["x"], call.attrs
    length = int(call.given["length"]) if "length" in call.given else None
    values = x[..., 0] + (1j * x[..., 1] if x.shape[-1] == 2 else 0)
    if attrs.get("inverse") and attrs.get("onesided"):
        return np.fft.irfft(values, length, axis)[..., None].astype(np.float32)
    if attrs.get("onesided"):
        return parts(np.fft.rfft(values.real, length, axis))
    return parts((np.fft.ifft if attrs.get("inverse") else np.fft.fft)(values, length, axis))


@pytest.mark.parametrize(
    ("call", "axis"),
    [
        (dft(signal(2, 7, 1)), 1),
        (dft(signal(2, 7, 2), length=10), 1),
        (dft(signal(2, 7, 2), length=5, inverse=1), 1),
        (dft(signal(3, 5, 4, 2), axis=-3), 1),
        (dft(signal(3, 5, 4, 1), axis=0, onesided=1), 0),
        (dft(signal(5, 2)), 0),
        (dft(signal(1, 1, 1)), 1),
        (dft(signal(2, 6, 2), inverse=1, onesided=1), 1),
        (dft(signal(2, 6, 2), length=9, inverse=1, onesided=1), 1),
        (dft(signal(2, 6, 2), length=14, inverse=1, onesided=1), 1),
        (dft(signal(3, 5, 4, 2), opset=17), 1),
        (dft(signal(3, 5, 4, 1), axis=2, opset=19, onesided=1), 2),
    ],
)
def test_transforms(call: OnnxCall, axis: int, tmp_path: Path) -> None:
    expected = {"y": by_numpy(call, axis)}
    assert_close(call, tmp_path, 1e-6, expected=expected)
    if not (call.attrs.get("inverse") and call.attrs.get("onesided")):
        np.testing.assert_allclose(call.by_onnxruntime()["y"], expected["y"], atol=1e-4)


@pytest.mark.parametrize("dtype", ["fp32", pytest.param("fp16", marks=pytest.mark.long), "bf16"])
def test_long_transforms_are_in_fp32(dtype: str, tmp_path: Path) -> None:
    """The operand has few bits, so that every format holds it; the result is rounded to the format."""
    x = np.round(signal(1, 509, 2) * 16) / np.float32(16)
    call = dft(x)
    assert_close(call, tmp_path, 4e-6, dtype, 16, {"y": by_numpy(call, 1)})


def stft(
    x: Array,
    step: int,
    window: Array | None = None,
    length: int | None = None,
    known: str = "step window length",
    **attrs: int,
) -> OnnxCall:
    operands = {"x": x, "step": np.array(step), "window": window}
    operands |= {} if length is None else {"length": np.array(length)}
    names = [name for name in known.split() if operands.get(name) is not None]
    return OnnxCall("STFT", operands, attrs, known=names, opset=17)


def frames_by_numpy(call: OnnxCall) -> Array:
    x, step = call.given["x"], int(call.given["step"])
    window = call.given.get("window")
    length = int(call.given["length"]) if window is None else len(window)
    values = x[..., 0] + (1j * x[..., 1] if x.shape[-1] == 2 else 0)
    count = (x.shape[1] - length) // step + 1
    frames = np.stack([values[:, at * step : at * step + length] for at in range(count)], axis=1)
    found = np.fft.fft(frames * (1 if window is None else window.astype(np.float64)))
    return parts(found[..., : length // 2 + 1] if call.attrs.get("onesided", 1) else found)


HANN = np.hanning(22)[1:-1].astype(np.float32)


@pytest.mark.parametrize(
    "call",
    [
        stft(signal(1, 100, 1), 8, length=16),
        stft(signal(2, 101, 1), 7, HANN, 20),
        stft(signal(1, 101, 1), 30, HANN),
        stft(signal(1, 101, 1), 20, HANN, onesided=0),
        stft(signal(1, 60, 1), 9, HANN, known="step"),
        stft(signal(1, 90, 1), 1, np.hanning(40).astype(np.float32)),
        stft(signal(1, 60, 2), 8, HANN, onesided=0),
        stft(signal(1, 20, 1), 3, HANN),
    ],
)
def test_frames(call: OnnxCall, tmp_path: Path) -> None:
    expected = {"y": frames_by_numpy(call)}
    assert_close(call, tmp_path, 1e-6, expected=expected)
    np.testing.assert_allclose(call.by_onnxruntime()["y"], expected["y"], atol=2e-4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (dft(signal(2, 7, 1), length=0), "dft_length must be one number above 0"),
        (dft(signal(2, 7, 1), inverse=1, onesided=1), "an inverse complex; found 1 parts"),
        (dft(signal(2, 7, 2), opset=17, inverse=1, onesided=1), "together, which opset 17 does not define"),
        (stft(signal(1, 10, 1), 8, HANN), "frames of 20 in 10 samples"),
        (stft(signal(1, 60, 1), 0, HANN), r"found frame_step \[0\]"),
        (stft(signal(1, 60, 1), 8, HANN, known="window"), "frame_step must be a constant"),
    ],
)
def test_refused(call: OnnxCall, message: str, tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=message) as error:
        call.graph(tmp_path)
    assert "\n" not in str(error.value)
