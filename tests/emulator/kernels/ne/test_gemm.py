"""Matrix engine: every bit of GEMM and convolution against sums in the defined order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.kernels.ne.groups import GROUP
from machine_code import needs_jit
from matrix_sums import (
    BF16,
    FP16,
    FP32,
    INPUTS,
    TF32,
    any_numbers,
    ascending,
    check_result,
    decode,
    encode,
    fused,
    left,
    pack,
    right,
    run_gemm,
    small_numbers,
    tame_numbers,
    word,
)
from tx8isa.numbers.layouts import Layout, place

SMALL = [(1, 1, 1), (2, 3, 5), (5, 70, 20), (3, 129, 31), (7, 4, 33)]
LARGE = [(64, 64, 64), (65, 33, 97), (GROUP + 5, 40, 100), (1, 200, 300), (130, 65, 36), (128, 100, 16)]


@pytest.mark.parametrize("transposed", [(0, 1), (0, 0), (1, 1), (1, 0)])
@pytest.mark.parametrize("shape", [*SMALL, *(pytest.param(s, marks=needs_jit) for s in LARGE)], ids=str)
def test_gemm_adds_in_ascending_order(shape, transposed):
    m, k, n = shape
    lt, rt = transposed
    rng = np.random.default_rng(m * n + k)
    a, b = small_numbers(rng, (m, k), FP16), small_numbers(rng, (k, n), FP16)
    out = run_gemm(FP16, left(a, FP16, lt), right(b, FP16, rt), m, k, n, lt, rt)
    check_result(out, ascending(decode(a, FP16), decode(b, FP16), np.zeros((m, n))), FP16)


@pytest.mark.parametrize("numbers", [small_numbers, tame_numbers, any_numbers])
@pytest.mark.parametrize("out_format", [None, FP32])
@pytest.mark.parametrize("fmt", INPUTS)
def test_gemm_is_fused_and_rounds_once(fmt, out_format, numbers):
    m, k, n = 6, 37, 20
    rng = np.random.default_rng(int(fmt))
    a, b = numbers(rng, (m, k), fmt), numbers(rng, (k, n), fmt)
    out = run_gemm(fmt, pack(a, fmt), pack(b, fmt), m, k, n, out_format=out_format)
    check_result(out, fused(decode(a, fmt), decode(b, fmt), np.zeros((m, n))), out_format or fmt)


def test_a_sum_is_not_rounded_between_product_and_addition():
    x = np.float32(1 + 2.0**-10)  # x * x needs 21 bits, and 24 more below 1.0 for the sum with -1
    a, b = encode(np.array([[x, 1.0]]), TF32), encode(np.array([[x], [-1.0]]), TF32)
    out = run_gemm(TF32, pack(a, TF32), pack(b, TF32), 1, 2, 1, out_format=FP32)
    check_result(out, np.array([[2.0**-9 + 2.0**-20]], np.float32), FP32)


@needs_jit
@pytest.mark.parametrize("numbers", [small_numbers, tame_numbers, any_numbers])
@pytest.mark.parametrize("fmt", [FP16, BF16])
@pytest.mark.parametrize("rt", [0, 1])
@pytest.mark.parametrize("shape", [(1, 64, 64), (1, 128, 150), (1, 192, 128), (1, 100, 128), (2, 128, 64)])
def test_single_rows_are_fused_in_ascending_order(shape, rt, fmt, numbers):
    """A single row of FP16 reads whole planes of the right-hand matrix as they are stored."""
    m, k, n = shape
    rng = np.random.default_rng(m * n + k)
    a, b, psum = numbers(rng, (m, k), fmt), numbers(rng, (k, n), fmt), numbers(rng, (m, n), FP32)
    packed = {"psum": pack(psum, FP32), "psum_format": FP32, "out_format": FP32}
    out = run_gemm(fmt, left(a, fmt, 0), right(b, fmt, rt), m, k, n, 0, rt, **packed)
    check_result(out, fused(decode(a, fmt), decode(b, fmt), decode(psum, FP32)), FP32)


@needs_jit
@pytest.mark.parametrize("change", ["none", "last number", "partial sums"])
@pytest.mark.parametrize("shape", [(GROUP + 5, 3, 100, 1), (9, 70, 20, 0), (2, 64, 64, 1)], ids=str)
@pytest.mark.parametrize("fmt", [FP16, TF32])
def test_equal_rows_have_equal_results_unless_something_differs(fmt, shape, change):
    m, k, n, rt = shape
    rng = np.random.default_rng(m)
    a, b = np.repeat(tame_numbers(rng, (1, k), fmt), m, axis=0), tame_numbers(rng, (k, n), fmt)
    if change == "last number":
        a[-1, -1] = encode(np.float32(3), fmt)
    psum = tame_numbers(rng, (m, n), FP32)
    sums = {"psum": pack(psum, FP32), "psum_format": FP32} if change == "partial sums" else {}
    out = run_gemm(fmt, left(a, fmt, 0), right(b, fmt, rt), m, k, n, 0, rt, out_format=FP32, **sums)
    start = decode(psum, FP32) if sums else np.zeros((m, n))
    check_result(out, fused(decode(a, fmt), decode(b, fmt), start), FP32)


@needs_jit
@pytest.mark.parametrize("batches", [(2, 2), (1, 3), (3, 1)])
@pytest.mark.parametrize("rt", [0, 1])
def test_single_rows_in_batches(batches, rt):
    (lb, rb), (m, k, n) = batches, (1, 128, 130)
    rng = np.random.default_rng(lb * 10 + rb)
    a, b = small_numbers(rng, (lb, m, k), FP16), small_numbers(rng, (rb, k, n), FP16)
    out = run_gemm(FP16, left(a, FP16, 0), right(b, FP16, rt), m, k, n, 0, rt, lb, rb)
    x, y = decode(a, FP16), decode(b, FP16)
    want = [ascending(x[i % lb], y[i % rb], np.zeros((m, n))) for i in range(max(lb, rb))]
    check_result(out, np.array(want), FP16)


@pytest.mark.parametrize("batches", [(1, 1), (2, 2), (1, 3), (3, 1)])
@pytest.mark.parametrize("transposed", [(0, 1), (1, 0)])
def test_batches_broadcast(batches, transposed):
    (lb, rb), (lt, rt) = batches, transposed
    m, k, n = 5, 67, 9
    rng = np.random.default_rng(lb * 10 + rb)
    a, b = small_numbers(rng, (lb, m, k), FP16), small_numbers(rng, (rb, k, n), FP16)
    out = run_gemm(FP16, left(a, FP16, lt), right(b, FP16, rt), m, k, n, lt, rt, lb, rb)
    x, y = decode(a, FP16), decode(b, FP16)
    want = [ascending(x[i % lb], y[i % rb], np.zeros((m, n))) for i in range(max(lb, rb))]
    check_result(out, np.array(want), FP16)


@pytest.mark.parametrize("out_format", [FP16, FP32])
@pytest.mark.parametrize("psum_format", [FP16, BF16, TF32, FP32])
@pytest.mark.parametrize(
    "shape", [(6, 10, 20), (3, 5, 70), pytest.param((GROUP + 3, 9, 64), marks=needs_jit)]
)
def test_partial_sums_are_the_start_value(psum_format, out_format, shape):
    m, k, n = shape
    rng = np.random.default_rng(int(psum_format))
    a, b = small_numbers(rng, (m, k), FP16), small_numbers(rng, (k, n), FP16)
    psum = small_numbers(rng, (m, n), psum_format)
    want = ascending(decode(a, FP16), decode(b, FP16), decode(psum, psum_format))
    packed = pack(psum, psum_format)
    out = run_gemm(
        FP16,
        pack(a, FP16),
        pack(b, FP16),
        m,
        k,
        n,
        out_format=out_format,
        psum=packed,
        psum_format=psum_format,
    )
    check_result(out, want, out_format)


@pytest.mark.parametrize("out_format", [FP16, FP32])
def test_partial_sums_in_place(out_format):
    psum_format = out_format
    m, k, n = 40, 10, 100
    rng = np.random.default_rng(3)
    a, b = small_numbers(rng, (m, k), FP16), small_numbers(rng, (k, n), FP16)
    psum = small_numbers(rng, (m, n), psum_format)
    memory = np.full(1 << 15, 0xFF, np.uint8)  # holds either tensor
    packed = pack(psum, psum_format).view(np.uint8)
    memory[: packed.size] = packed
    run_gemm(
        FP16,
        pack(a, FP16),
        pack(b, FP16),
        m,
        k,
        n,
        out=memory,
        out_format=out_format,
        psum=memory,
        psum_format=psum_format,
    )
    size = place(out_format, (m, n), Layout.CX).total_bytes
    want = ascending(decode(a, FP16), decode(b, FP16), decode(psum, psum_format))
    check_result(memory[:size].view(word(out_format)), want, out_format)
    assert (memory[max(size, packed.size) :] == 0xFF).all()


@needs_jit
@pytest.mark.parametrize("psum_format", [None, FP32, TF32, FP16])
@pytest.mark.parametrize("at_result", [False, True])
@pytest.mark.parametrize("n", [16, 64, 96])
@pytest.mark.parametrize("m", [1, 3, 11, 49, GROUP + 3])
def test_sums_are_made_where_binary32_results_belong(m, n, at_result, psum_format):
    """Rows without padding; bytes after the result do not change, and every NaN becomes the canonical one."""
    rng = np.random.default_rng(m + n)
    a, b = any_numbers(rng, (m, 9), FP16), any_numbers(rng, (9, n), FP16)
    psum = any_numbers(rng, (m, n), psum_format or FP32)
    packed = pack(psum, psum_format or FP32).view(np.uint8)
    size = place(FP32, (m, n), Layout.CX).total_bytes
    memory = np.full(size + 4096, 0xFF, np.uint8)
    memory[: packed.size] = packed
    sums = {"psum": memory if at_result else packed, "psum_format": psum_format} if psum_format else {}
    if at_result and psum_format is FP16:
        sums = {"psum": packed.copy(), "psum_format": FP16}  # there it would be twice as long
    run_gemm(FP16, pack(a, FP16), pack(b, FP16), m, 9, n, out=memory, out_format=FP32, **sums)
    start = decode(psum, psum_format) if psum_format else np.zeros((m, n))
    check_result(memory[:size].view(word(FP32)), fused(decode(a, FP16), decode(b, FP16), start), FP32)
    assert (memory[size:] == 0xFF).all()


@pytest.mark.parametrize("victim", ["a", "b"])
def test_a_result_may_overlap_an_input(victim):
    """Inputs are read before anything is written."""
    m, k, n = 70, 64, 64
    rng = np.random.default_rng(5)
    a, b = small_numbers(rng, (m, k), FP16), small_numbers(rng, (k, n), FP16)
    packed = {"a": pack(a, FP16), "b": pack(b, FP16)}
    memory = np.zeros(1 << 14, np.uint16)
    memory[: packed[victim].size] = packed[victim]
    packed[victim] = memory
    out = memory[256:]
    run_gemm(FP16, packed["a"], packed["b"], m, k, n, out=out)
    size = place(FP16, (m, n), Layout.CX).total_bytes // 2
    want = ascending(decode(a, FP16), decode(b, FP16), np.zeros((m, n)))
    check_result(out[:size], want, FP16)


def test_minus_zero_starts_and_stays():
    zeros = encode(np.array([[-0.0]]), FP16)
    one = encode(np.array([[1.0]]), FP16)
    psum = pack(encode(np.array([[-0.0]]), FP16), FP16)
    out = run_gemm(FP16, pack(zeros, FP16), pack(one, FP16), 1, 1, 1, psum=psum, psum_format=FP16)
    check_result(out, np.array([[-0.0]], np.float32), FP16)
    out = run_gemm(FP16, pack(zeros, FP16), pack(one, FP16), 1, 1, 1)
    check_result(out, np.array([[0.0]], np.float32), FP16)


extents = st.integers(1, 80)


@needs_jit
@settings(max_examples=40)
@given(extents, extents, extents, st.integers(0, 1), st.integers(0, 1), st.integers(0, 1 << 30))
def test_gemm_of_any_shape(m, k, n, lt, rt, seed):
    rng = np.random.default_rng(seed)
    a, b = any_numbers(rng, (m, k), FP16), any_numbers(rng, (k, n), FP16)
    out = run_gemm(FP16, left(a, FP16, lt), right(b, FP16, rt), m, k, n, lt, rt)
    check_result(out, ascending(decode(a, FP16), decode(b, FP16), np.zeros((m, n))), FP16)
