"""The inner loops of the matrix engine: products of a few rows and columns."""

from __future__ import annotations

import importlib

import ml_dtypes
import numpy as np
import pytest

from emulator import native
from emulator.kernels.ne.groups import SUMS, make_multiply_narrow, make_multiply_wide
from emulator.native.primitives.blocks import transpose_bf16, transpose_fp16
from emulator.native.primitives.products import PRODUCTS, product_name, transpose_16x16
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
@pytest.mark.parametrize("rows", [1, 13])
def test_both_sizes_of_products_give_the_same_bits(make, width, rows):
    multiply = make(PRODUCTS)
    k, lda = 11, 20
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(n).astype(np.float32) for n in (rows * lda, k * width))
    index, area = np.minimum(np.arange(rows + 6), rows - 1), np.zeros(SUMS + 4 * (rows + 6) * width, np.uint8)
    area[: index.nbytes] = index.view(np.uint8)

    def kernel(group, a, b, width):
        multiply(group, rows, 20, a, 1, b, width, 11)
        return 0

    address = native.compile_kernel(kernel, "multiply", 4)
    native.call(address, *(x.ctypes.data for x in (area, a, b)), width)
    want = fused(a.reshape(rows, lda)[:, :k], b.reshape(k, width), np.zeros((rows, width)))
    assert area[SUMS:][: 4 * rows * width].tobytes() == want.tobytes()


def test_transpose():
    source = np.arange(16 * 20, dtype=np.float32)
    target = np.full(16 * 18, -1, np.float32)

    def kernel(source, target):
        return transpose_16x16(source, 20, target, 18)

    native.call(native.compile_kernel(kernel, "transpose", 2), source.ctypes.data, target.ctypes.data)
    want = np.full((16, 18), -1, np.float32)
    want[:, :16] = source.reshape(16, 20)[:, :16].T
    assert target.tobytes() == want.tobytes()


WIDE = {"fp16": (transpose_fp16, np.float16, 0x0200), "bf16": (transpose_bf16, ml_dtypes.bfloat16, 0x0040)}
"""Transpositions that widen; the dtype of what they read, and the bit that makes a NaN a quiet one."""


def transposed_and_widened(name: str, kernel_name: str) -> tuple[np.ndarray, np.ndarray]:
    """What a block of every sort of pattern becomes, and what it must become by NumPy."""
    transpose, dtype, quiet = WIDE[name]
    patterns = np.random.default_rng(5).integers(0, 1 << 16, (16, 20)).astype(np.uint16)
    patterns[0, :16] = np.arange(16)
    patterns[np.isnan(patterns.view(dtype))] |= quiet
    target = np.full((16, 18), -1, np.float32)

    def kernel(source, target):
        return transpose(source, 20, target, 18)

    native.call(native.compile_kernel(kernel, kernel_name, 2), patterns.ctypes.data, target.ctypes.data)
    want = np.full((16, 18), -1, np.float32)
    want[:, :16] = patterns.view(dtype)[:, :16].T.astype(np.float32)
    return target, want


@pytest.mark.parametrize("name", WIDE)
def test_transposition_that_widens(name):
    found, want = transposed_and_widened(name, f"transposed {name}")
    assert found.tobytes() == want.tobytes()


@needs_jit
def test_transposition_that_widens_by_integers(monkeypatch):
    machine = importlib.import_module("emulator.native.machine.float32")
    monkeypatch.setattr(machine, "HARDWARE_FP16", False)
    found, want = transposed_and_widened("fp16", "transposed fp16, by integers")
    assert found.tobytes() == want.tobytes()
