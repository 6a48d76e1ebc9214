"""The inner loops of the matrix engine: products of a few rows and columns."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from emulator import native
from emulator.kernels.ne.groups import AT, SUMS, make_multiply_narrow, make_multiply_wide
from emulator.native.primitives.memory import put
from emulator.native.primitives.products import (
    PRODUCTS,
    bring_near,
    product_name,
    product_row_fp16,
    transpose_16x16,
    transpose_16x16_bf16,
    transpose_16x16_fp16,
    transpose_16x16_halves,
)
from emulator.native.target import has_feature
from machine_code import needs_jit
from matrix_sums import fused


def product_inputs(rows: int, columns: int, k: int, ka: int):
    rng = np.random.default_rng(columns)
    lda = k * ka + 3
    a, b = (
        rng.standard_normal(count).astype(np.float32) for count in (rows * lda + k * ka, k * (columns + 5))
    )
    index = rng.permutation(rows).astype(np.int64)
    return index, lda, a, b, rng.standard_normal(rows * (columns + 7)).astype(np.float32)


@pytest.mark.parametrize("ka", [1, 3])
@pytest.mark.parametrize("shape", PRODUCTS, ids=lambda shape: product_name(*shape))
def test_products(shape, ka):
    rows, columns = shape
    k = 6
    index, lda, a, b, c = product_inputs(rows, columns, k, ka)
    ldb, ldc = columns + 5, columns + 7
    want = c.copy().reshape(rows, ldc)
    steps = np.array([[a[index[i] * lda + p * ka] for p in range(k)] for i in range(rows)])
    want[:, :columns] = fused(steps, b.reshape(k, ldb)[:, :columns], want[:, :columns])
    product = PRODUCTS[shape]

    def kernel(index, lda, a, ka, b, ldb, c, ldc, k):
        return product(index, lda, a, ka, b, ldb, c, ldc, k)

    address = native.compile_kernel(kernel, product_name(*shape), 9)
    pointers = [x.ctypes.data for x in (index, a, b, c)]
    native.call(address, pointers[0], lda, pointers[1], ka, pointers[2], ldb, pointers[3], ldc, k)
    assert c.tobytes() == want.tobytes()


@needs_jit
@pytest.mark.parametrize("width", [16, 32, 48, 64])
@pytest.mark.parametrize("make", [make_multiply_wide, make_multiply_narrow], ids=["4", "6"])
@pytest.mark.parametrize("rows", [1, 3, 13, 17])
def test_both_sizes_of_products_give_the_same_bits(make, width, rows):
    """Sums in the group, and in the result, where a product with surplus rows must not write after it."""
    lda, k, multiply = 20, 11, make(PRODUCTS)
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(n).astype(np.float32) for n in (rows * lda, k * width))
    area = np.zeros(SUMS // 4 + (rows + 6) * width, np.float32)
    area.view(np.int64)[: rows + 6] = np.minimum(np.arange(rows + 6), rows - 1)
    elsewhere = np.zeros((rows + 6) * width, np.float32)

    def kernel(group, a, b, width, sums):
        put(group, AT, sums)
        multiply(group, rows, 20, a, 1, b, width, 11)
        return 0

    address = native.compile_kernel(kernel, "multiply", 5)
    want = fused(a.reshape(rows, lda)[:, :k], b.reshape(k, width), np.zeros((rows, width)))
    for sums in (area[SUMS // 4 :], elsewhere):
        native.call(address, *(x.ctypes.data for x in (area, a, b)), width, sums.ctypes.data)
        assert sums[: rows * width].tobytes() == want.tobytes()
    assert not elsewhere[rows * width :].any()


@pytest.mark.parametrize("size", [-1, 0, 1, 64, 100])
def test_bytes_that_are_asked_for_stay_as_they_are(size):
    """The same holds if the host has no memory after it: a read of an address there would end the process."""
    data = np.arange(256, dtype=np.uint8)
    before = data.tobytes()

    def kernel(address, size):
        return bring_near(address, size)

    address = native.compile_kernel(kernel, "near", 2)
    for place in (data.ctypes.data, 0, 1 << 40):
        assert native.call(address, place, size) == 0
    assert data.tobytes() == before


def test_transpose():
    source = np.arange(16 * 20, dtype=np.float32)
    target = np.full(16 * 18, -1, np.float32)

    def kernel(source, target):
        return transpose_16x16(source, 20, target, 18)

    native.call(native.compile_kernel(kernel, "transpose", 2), source.ctypes.data, target.ctypes.data)
    want = np.full((16, 18), -1, np.float32)
    want[:, :16] = source.reshape(16, 20)[:, :16].T
    assert target.tobytes() == want.tobytes()


def test_transpose_of_halves():
    source = np.arange(16 * 20, dtype=np.uint16) + 0x7BF0  # patterns of infinities and NaN too
    target = np.full(16 * 18, 0xFFFF, np.uint16)

    def kernel(source, target):
        return transpose_16x16_halves(source, 20, target, 18)

    native.call(native.compile_kernel(kernel, "halves", 2), source.ctypes.data, target.ctypes.data)
    want = np.full((16, 18), 0xFFFF, np.uint16)
    want[:, :16] = source.reshape(16, 20)[:, :16].T
    assert target.tobytes() == want.tobytes()


WIDENED = {
    "fp16": (transpose_16x16_fp16, np.float16, 0x0200),
    "bf16": (transpose_16x16_bf16, ml_dtypes.bfloat16, 0x0040),
}
"""Transpositions to binary32; the dtype of their source, and the bit that makes a NaN quiet."""


@pytest.mark.parametrize("name", WIDENED)
def test_transpose_to_binary32(name):
    if name == "fp16" and not has_feature("f16c"):
        pytest.skip("the processor has no instruction that widens FP16")
    transpose, dtype, quiet = WIDENED[name]
    source = np.random.default_rng(5).integers(0, 1 << 16, (16, 20)).astype(np.uint16)
    source[0, :16] = np.arange(16)  # subnormal numbers
    source[np.isnan(source.view(dtype))] |= quiet
    target = np.full((16, 18), -1, np.float32)

    def kernel(source, target):
        return transpose(source, 20, target, 18)

    native.call(native.compile_kernel(kernel, f"wide {name}", 2), source.ctypes.data, target.ctypes.data)
    want = np.full((16, 18), -1, np.float32)
    want[:, :16] = source.view(dtype)[:, :16].T.astype(np.float32)
    assert target.tobytes() == want.tobytes()


@pytest.mark.skipif(not has_feature("f16c"), reason="the processor has no instruction that widens FP16")
@pytest.mark.parametrize("k", [1, 2, 67])
def test_a_row_of_fp16(k):
    rng = np.random.default_rng(k)
    a, c = (rng.standard_normal(n).astype(np.float32) for n in (k, 64))
    b = rng.standard_normal((k, 64)).astype(np.float16)
    b[0, :3] = 6e-8, 65504, 0  # a subnormal number, the largest, zero
    want = fused(a[None], b.astype(np.float32), c[None])

    def kernel(a, b, c, k):
        return product_row_fp16(a, b, c, k)

    native.call(native.compile_kernel(kernel, "row", 4), *(x.ctypes.data for x in (a, b, c)), k)
    assert c.tobytes() == want.astype(np.float32).tobytes()
