"""Depthwise and backward convolution: every byte against the slow reference, sums against other programs."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.kernels.ne.depthwise import RECTANGLE_BYTES, block_columns
from emulator.kernels.ne.image import extent
from machine_code import needs_jit
from matrix_bench import Engine, any_numbers, ordinary, window_operands
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import Layout

FP16, BF16, TF32, FP32, INT8, INT32 = (
    Format.FP16,
    Format.BF16,
    Format.TF32,
    Format.FP32,
    Format.INT8,
    Format.INT32,
)


def depthwise(
    fmt: Format,
    shape: list[int],
    *given: str,
    k: tuple[int, int] = (3, 3),
    s: tuple[int, int] = (1, 1),
    pad: tuple[int, int, int, int] = (1, 1, 1, 1),
    unpad: tuple[int, int, int, int] = (0, 0, 0, 0),
    **more: Any,
) -> Engine:
    return Engine("ne.dwconv", fmt, given, **window_operands(shape, shape[3], k, s, pad, unpad), **more)


SHAPES = {
    "plain": {"shape": [1, 5, 6, 7]},
    "one channel": {"shape": [1, 4, 3, 1]},
    "batch of planes": {"shape": [2, 3, 4, 130]},
    "folded tail": {"shape": [1, 3, 3, 100]},
    "folded tail of bytes": {"shape": [1, 3, 3, 200]},
    "whole planes": {"shape": [1, 5, 4, 128]},
    "strides": {"shape": [1, 9, 11, 20], "s": (2, 3)},
    "pads and unpads": {"shape": [1, 7, 9, 5], "s": (2, 1), "pad": (3, 2, 4, 1), "unpad": (1, 0, 2, 1)},
    "wide padding": {"shape": [1, 2, 1, 4], "k": (2, 2), "pad": (5, 4, 6, 7)},
    "oblong window": {"shape": [1, 3, 8, 16], "k": (1, 5), "pad": (0, 0, 2, 1)},
    "several groups": {"shape": [1, 20, 21, 9]},
    "point": {"shape": [1, 4, 4, 64], "k": (1, 1), "pad": (0, 0, 0, 0)},
    "whole rows": {"shape": [1, 5, 6, 20], "k": (3, 1), "s": (2, 1), "pad": (2, 1, 0, 0)},
    "whole rows of pairs": {"shape": [2, 9, 2, 8], "k": (1, 2), "s": (1, 2), "pad": (0, 0, 0, 0)},
    "whole rows far outside": {"shape": [1, 2, 3, 5], "k": (2, 1), "pad": (7, 6, 0, 0)},
}


@needs_jit
@pytest.mark.parametrize("fmt", [FP16, BF16, TF32, INT8], ids=lambda f: f.token)
@pytest.mark.parametrize("case", SHAPES.values(), ids=SHAPES)
def test_depthwise_is_the_sum_over_the_window(case, fmt):
    depthwise(fmt, **case).check()


@pytest.mark.parametrize("fmt", [FP16, INT8], ids=lambda f: f.token)
def test_the_plain_kernel_gives_the_same(fmt):
    depthwise(fmt, [1, 2, 3, 3], "psum", k=(2, 2), pad=(1, 0, 0, 1)).check(compiled=False)


@needs_jit
@pytest.mark.parametrize("out_format", [None, FP32])
@pytest.mark.parametrize("fmt", [FP16, BF16, TF32], ids=lambda f: f.token)
def test_depthwise_with_numbers_of_all_kinds(fmt, out_format):
    depthwise(fmt, [1, 5, 5, 40], numbers=any_numbers, out_format=int(out_format or fmt)).check()


@needs_jit
@pytest.mark.parametrize("psum_format", [FP16, BF16, TF32, FP32], ids=lambda f: f.token)
def test_depthwise_starts_from_partial_sums(psum_format):
    depthwise(FP16, [2, 4, 4, 70], "psum", psum_format=int(psum_format), out_format=int(FP32)).check()


@pytest.mark.long
@needs_jit
def test_depthwise_partial_sums_in_place():
    engine = depthwise(FP16, [1, 20, 20, 70], "psum", out_format=int(FP32))
    engine.values["psum"] = engine.values["out"]
    engine.check()


@needs_jit
@pytest.mark.parametrize("victim", ["a", "w"])
def test_a_result_may_overlap_an_input(victim):
    engine = depthwise(FP16, [1, 8, 8, 64])
    engine.values["out"] = engine.values[victim] + 256
    engine.check()


@needs_jit
def test_the_largest_window_on_a_wide_image():
    """The input of one row of results does not fit: it is cut into blocks of columns."""
    assert block_columns(4096, 255, 255, 1) < 4096
    assert block_columns(50, 3, 3, 1) == 50
    assert 4 * 64 * 255 * extent(block_columns(4096, 255, 255, 1023), 1023, 255, 1) <= RECTANGLE_BYTES
    pad = (127, 127, 800, 800)
    engine = depthwise(FP16, [1, 1, 60, 2], k=(255, 255), pad=pad, s=(1, 7), spm_bytes=1 << 20)
    x, w = np.ones((1, 1, 60, 2)), np.ones((255 * 255, 2))
    engine.write_tensor("a", x.astype(np.float16).view(np.uint16), FP16)
    engine.write_tensor("w", w.astype(np.float16).view(np.uint16), FP16, Layout.CX)
    engine.run()
    found = engine.read_tensor("out", (1, 1, 201, 2), FP16).view(np.float16)[0, 0]
    covered = [sum(0 <= 7 * o - 800 + t < 60 for t in range(255)) for o in range(201)]
    np.testing.assert_array_equal(found, np.array(covered)[:, None].repeat(2, axis=1))


sizes = st.integers(1, 9)


@needs_jit
@settings(max_examples=40)
@given(st.data())
def test_depthwise_of_any_shape(data):
    draw = data.draw
    h, w, c = draw(sizes), draw(sizes), draw(st.integers(1, 140))
    k, s = ((draw(st.integers(1, 3)), draw(st.integers(1, 3))) for _ in range(2))
    pad = tuple(draw(st.integers(0, 3)) for _ in range(4))
    if h + pad[0] + pad[1] < k[0] or w + pad[2] + pad[3] < k[1]:
        return
    fmt = draw(st.sampled_from([FP16, INT8]))
    more = {"zp_a": draw(st.integers(0, 255)), "q1": 3} if fmt is INT8 else {}
    depthwise(fmt, [1, h, w, c], k=k, s=s, pad=pad, **more).check()


def onnx_depthwise(x: np.ndarray, w: np.ndarray, pads: list[int], strides: list[int]) -> np.ndarray:
    """x NHWC, w [ky, kx, c] through onnxruntime's grouped Conv."""
    if os.environ.get("CI") == "true":
        import onnx
        import onnxruntime
    else:
        onnx = pytest.importorskip("onnx")
        onnxruntime = pytest.importorskip("onnxruntime")
    helper, c = onnx.helper, x.shape[3]
    node = helper.make_node("Conv", ["x", "w"], ["y"], group=c, pads=pads, strides=strides)
    values = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in "xwy"]
    graph = helper.make_graph([node], "depthwise", values[:2], values[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    fed = {"x": x.transpose(0, 3, 1, 2), "w": w.transpose(2, 0, 1)[:, None]}
    (y,) = session.run(None, {name: np.ascontiguousarray(v, np.float32) for name, v in fed.items()})
    return y.transpose(0, 2, 3, 1)


@needs_jit
def test_depthwise_is_onnx_grouped_convolution():
    engine = depthwise(FP16, [2, 9, 8, 70], k=(3, 2), s=(2, 1), pad=(1, 2, 1, 0), out_format=int(FP32))
    x, w = (engine.rng.integers(-8, 9, shape) for shape in ((2, 9, 8, 70), (3, 2, 70)))
    engine.write_tensor("a", x.astype(np.float16).view(np.uint16), FP16)
    engine.write_tensor("w", w.reshape(6, 70).astype(np.float16).view(np.uint16), FP16, Layout.CX)
    engine.run()
    want = onnx_depthwise(x, w, [1, 1, 2, 0], [2, 1])
    np.testing.assert_array_equal(engine.read_tensor("out", want.shape, FP32).view(np.float32), want)


# --- backward -----------------------------------------------------------------------------------------------


def backward(
    fmt: Format,
    shape: list[int],
    o: int,
    *given: str,
    k: tuple[int, int] = (3, 3),
    s: tuple[int, int] = (1, 1),
    pad: tuple[int, int, int, int] = (1, 1, 1, 1),
    unpad: tuple[int, int, int, int] = (0, 0, 0, 0),
    d: tuple[int, int] = (1, 1),
    **more: Any,
) -> Engine:
    operands = {**window_operands(shape, o, k, s, pad, unpad, d), "dst_shape": [*k, o, shape[3]]}
    return Engine("ne.bwconv", fmt, given, **operands, **more)


BACKWARD = {
    "plain": {"shape": [1, 5, 6, 7], "o": 9},
    "batch": {"shape": [3, 4, 3, 5], "o": 6},
    "one channel": {"shape": [1, 4, 4, 1], "o": 1},
    "strides and dilation": {"shape": [1, 9, 11, 5], "o": 4, "s": (2, 3), "d": (2, 2)},
    "unpads": {"shape": [1, 8, 9, 3], "o": 4, "pad": (2, 2, 3, 1), "unpad": (1, 0, 1, 2)},
    "planes of channels": {"shape": [1, 3, 3, 130], "o": 5, "k": (1, 2)},
    "planes of maps": {"shape": [1, 3, 3, 5], "o": 130, "k": (2, 1)},
    "folded": {"shape": [1, 2, 3, 100], "o": 36, "k": (1, 1), "pad": (0, 0, 0, 0)},
    "several chunks": {"shape": [1, 20, 21, 4], "o": 3, "k": (2, 2)},
}


@needs_jit
@pytest.mark.parametrize("fmt", [FP16, BF16, TF32], ids=lambda f: f.token)
@pytest.mark.parametrize("case", BACKWARD.values(), ids=BACKWARD)
def test_backward_is_the_gradient_of_the_weights(case, fmt):
    backward(fmt, **case).check()


def test_the_plain_backward_kernel_gives_the_same():
    backward(FP16, [1, 2, 3, 2], 3, k=(2, 1), pad=(1, 0, 0, 1)).check(compiled=False)


@needs_jit
@pytest.mark.parametrize("numbers", [ordinary, any_numbers])
@pytest.mark.parametrize("psum_format", [FP16, FP32], ids=lambda f: f.token)
def test_backward_starts_from_partial_sums(psum_format, numbers):
    more = {"psum_format": int(psum_format), "out_format": int(FP32), "numbers": numbers}
    backward(FP16, [1, 4, 4, 70], 5, "psum", **more).check()


@pytest.mark.long
@needs_jit
def test_backward_partial_sums_in_place():
    engine = backward(BF16, [1, 6, 6, 20], 70, "psum", k=(2, 2), psum_format=int(BF16))
    engine.values["psum"] = engine.values["out"]
    engine.check()


@needs_jit
@pytest.mark.parametrize("victim", ["a", "dy"])
def test_a_gradient_may_overlap_an_input(victim):
    engine = backward(FP16, [1, 8, 8, 16], 16)
    engine.values["out"] = engine.values[victim] + 256
    engine.check()


@needs_jit
def test_backward_is_the_derivative_of_convolution():
    """d(sum(dy * conv(x, w)))/dw: convolution is linear in w, so differences of it are exact."""
    k, shape, o = (2, 3), [2, 5, 6, 3], 4
    engine = backward(FP16, shape, o, k=k, s=(1, 2), pad=(1, 0, 1, 1), out_format=int(FP32))
    oh, ow = 5, 3
    x, dy = engine.rng.integers(-4, 5, shape), engine.rng.integers(-4, 5, (2, oh, ow, o))
    engine.write_tensor("a", x.astype(np.float16).view(np.uint16), FP16)
    engine.write_tensor("dy", dy.astype(np.float16).view(np.uint16), FP16)
    engine.run()
    padded = np.pad(x, ((0, 0), (1, 0), (1, 1), (0, 0)))
    want = np.zeros((*k, o, 3))
    for unit in np.ndindex(*want.shape):
        w = np.zeros(want.shape)
        w[unit] = 1
        windows = np.lib.stride_tricks.sliding_window_view(padded, k, axis=(1, 2))[:, ::1, ::2]
        want[unit] = (np.einsum("nyxcij,ijoc->nyxo", windows, w) * dy).sum()
    rows = engine.read_tensor("out", (k[0] * k[1] * o, 3), FP32, Layout.CX).view(np.float32)
    np.testing.assert_array_equal(rows.reshape(want.shape), want)


# --- what is refused ----------------------------------------------------------------------------------------

REFUSED = {
    "dst_shape.c must equal shape.c": ("ne.dwconv", {"dst_shape": [1, 8, 8, 32]}),
    "dst_shape.n must equal shape.n": ("ne.dwconv", {"dst_shape": [2, 8, 8, 16]}),
    "dst_shape.h must be": ("ne.dwconv", {"dst_shape": [1, 7, 8, 16]}),
    "dst_shape.w must be": ("ne.dwconv", {"dst_shape": [1, 8, 9, 16]}),
    "dst_shape must be [window.ky, window.kx, result channels, shape.c]": (
        "ne.bwconv",
        {"dst_shape": [3, 3, 8, 15]},
    ),
    "the forward convolution must have a result": ("ne.bwconv", {"unpad": [8, 0, 0, 0]}),
    "out_format must be the input format or fp32": ("ne.bwconv", {"out_format": int(BF16)}),
    "psum must be at out with elements as wide, or apart from it": (
        "ne.bwconv",
        {"inpsum_en": 1, "psum": "out + 256"},
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused(text):
    mnemonic, changes = REFUSED[text]
    make = depthwise if mnemonic == "ne.dwconv" else backward
    engine = make(FP16, [1, 8, 8, 16], *((8,) if mnemonic == "ne.bwconv" else ()))
    assert not engine.broken_rules()
    for name, value in changes.items():
        if isinstance(value, list):
            value = int.from_bytes(b"".join(v.to_bytes(2, "big") for v in value), "big")
        engine.values[name] = engine.values["out"] + 256 if isinstance(value, str) else value
    assert [broken for broken in engine.broken_rules() if broken.startswith(text)]


@pytest.mark.parametrize("shape", [[1, 1, 8, 16], [1, 8, 1, 16]])
def test_a_window_larger_than_the_padded_image_has_no_gradient(shape):
    engine = backward(FP16, [1, 8, 8, 16], 8, pad=(0, 0, 0, 0))
    engine.values["shape"] = int.from_bytes(b"".join(v.to_bytes(2, "big") for v in shape), "big")
    assert any(text.startswith("the forward convolution") for text in engine.broken_rules())
