"""Convolution by its kernels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.kernels.ne.conv import small_scratch_bytes
from emulator.kernels.ne.problem import WORK_BYTES
from machine_code import needs_jit
from matrix_bench import run_problem
from matrix_sums import (
    INPUTS,
    Conv,
    any_numbers,
    arithmetic,
    check_result,
    conv,
    decode,
    encode,
    fused,
    pack,
    result_extent,
    scratch,
    small_numbers,
    tame_numbers,
)
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import Layout

FP16, BF16, TF32, FP32 = Format.FP16, Format.BF16, Format.TF32, Format.FP32

SMALL_CONVS = {
    "padded": {},
    "one by one": {"k": (1, 1), "pads": (0, 0, 0, 0)},
    "strides": {"s": (2, 3), "h": 9, "w": 11},
    "one by one, strides": {"k": (1, 1), "s": (2, 3), "pads": (1, 2, 4, 1), "h": 9, "w": 11},
    "one row, strides": {"k": (1, 3), "s": (3, 2), "pads": (2, 0, 1, 1), "h": 8, "w": 9},
    "one column, strides": {"k": (3, 1), "s": (2, 3), "pads": (1, 1, 2, 5), "h": 7, "w": 10},
    "dilations": {"d": (2, 3), "h": 9, "w": 9},
    "unpads": {"unpads": (1, 0, 2, 1), "s": (1, 2), "w": 15},
    "unpads beyond pads": {"unpads": (2, 1, 1, 1), "h": 9},
    "batch": {"n": 2},
    "one channel": {"c": 1, "o": 1},
    "wide padding": {"pads": (5, 4, 6, 7), "k": (2, 2), "h": 2, "w": 1},
    "oblong": {"k": (1, 4), "pads": (0, 0, 2, 1)},
    "two planes": {"c": 66, "o": 70, "h": 3, "w": 2},
}
LARGE_CONVS = {
    "folded channels": {"c": 100, "o": 97, "h": 8, "w": 8},
    "several groups": {"h": 20, "w": 21, "c": 5, "o": 64},
    "several bands": {"h": 70, "w": 70, "c": 64, "o": 20},
    "first layer": {"h": 40, "w": 40, "c": 3, "o": 64, "k": (7, 7), "s": (2, 2), "pads": (3, 3, 3, 3)},
}
CONVS = [pytest.param(v, id=k) for k, v in SMALL_CONVS.items()]
CONVS += [pytest.param(v, id=k, marks=needs_jit) for k, v in LARGE_CONVS.items()]


@pytest.mark.parametrize("shape", CONVS)
def test_conv_adds_in_ascending_order(shape):
    case = Conv(**shape)
    check_result(case.run(), case.want(), FP16)


@pytest.mark.parametrize("shape", [v for k, v in SMALL_CONVS.items() if k not in ("one channel", "oblong")])
def test_conv_element_by_element_gives_the_same_bits(shape):
    case = Conv(**shape, numbers=tame_numbers)
    check_result(case.run(small=True), case.want(), FP16)


@pytest.mark.parametrize("numbers", [small_numbers, tame_numbers, any_numbers])
@pytest.mark.parametrize("out_format", [None, FP32])
@pytest.mark.parametrize("fmt", INPUTS)
def test_conv_is_fused_and_rounds_once(fmt, out_format, numbers):
    case = Conv(h=4, w=3, c=5, o=6, fmt=fmt, numbers=numbers)
    check_result(case.run(out_format), case.want(fused), out_format or fmt)


@pytest.mark.parametrize("psum_format", [FP16, BF16, TF32, FP32])
@pytest.mark.parametrize("small", [False, True])
def test_conv_partial_sums(psum_format, small):
    case = Conv(n=2, o=70)
    psum = small_numbers(np.random.default_rng(9), case.result, psum_format)
    want = case.want(start=decode(psum, psum_format))
    out = case.run(FP32, pack(psum, psum_format), psum_format, small=small)
    check_result(out, want, FP32)


@pytest.mark.parametrize("small", [False, True])
def test_conv_partial_sums_in_place(small):
    case = Conv(n=2, o=70)
    psum = small_numbers(np.random.default_rng(9), case.result, FP16)
    memory = pack(psum, FP16)
    case.run(FP16, memory, FP16, out=memory, small=small)
    check_result(memory, case.want(start=decode(psum, FP16)), FP16)


@pytest.mark.parametrize("small", [False, True])
def test_inputs_outside_the_image_are_plus_zero(small):
    """An infinite weight gives NaN where it meets the border; a start value of -0 becomes +0."""
    case = Conv(h=1, w=2, c=1, o=2, k=(1, 2), pads=(0, 0, 1, 0))
    case.x[:] = 0
    case.weights[:] = encode(np.array([[[[np.inf], [0.0]], [[0.0], [0.0]]]]), FP16)
    psum = pack(encode(np.full(case.result, -0.0), FP16), FP16)
    out = case.run(FP16, psum, FP16, small=small)
    check_result(out, np.array([[[[np.nan, 0.0], [np.nan, 0.0]]]], np.float32), FP16)


@pytest.mark.parametrize("small", [False, True])
def test_conv_result_may_overlap_its_input(small):
    case = Conv(h=6, w=6, c=64, o=64)
    memory = pack(case.x, FP16)
    rows = pack(case.weights.reshape(-1, case.c), FP16, Layout.CX)
    problem = case.problem(FP16)
    needed = small_scratch_bytes(arithmetic(FP16), problem.ctypes.data) if small else 1 << 22
    problem[WORK_BYTES] = 0 if small else needed
    run_problem(conv(FP16), problem, memory, rows, memory, scratch(needed))
    check_result(memory, case.want(), FP16)


@needs_jit
@settings(max_examples=40)
@given(st.data())
def test_conv_of_any_shape(data):
    draw = data.draw
    h, w, c, o = (draw(st.integers(1, high)) for high in (12, 12, 70, 70))
    k, s, d = ((draw(st.integers(1, 3)), draw(st.integers(1, 3))) for _ in range(3))
    pads = tuple(draw(st.integers(0, 4)) for _ in range(4))
    if result_extent(h, *pads[:2], k[0], d[0], s[0]) < 1 or result_extent(w, *pads[2:], k[1], d[1], s[1]) < 1:
        return
    case = Conv(1, h, w, c, o, k, s, pads, d, numbers=any_numbers)
    small = draw(st.booleans())
    check_result(case.run(small=small), case.want(), FP16)
