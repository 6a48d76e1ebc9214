"""The inner loops of the matrix engine: products of a few rows and columns."""

from __future__ import annotations

import numpy as np
import pytest

from emulator import native
from emulator.kernels.ne.groups import SUMS, make_multiply_narrow, make_multiply_wide
from emulator.native.primitives.products import PRODUCTS, product_name, transpose_16x16
from machine_code import needs_jit
from matrix_sums import fused


def product_inputs(rows: int, columns: int, steps: int, lda: int):
    rng = np.random.default_rng(columns)
    vectors = columns // 16
    a, b = (rng.standard_normal(count).astype(np.float32) for count in (rows * lda, vectors * steps * 21))
    index = rng.permutation(rows).astype(np.int64)
    return index, a, b, rng.standard_normal(rows * (columns + 7)).astype(np.float32)


@pytest.mark.parametrize(("k", "turns", "jump"), [(6, 1, 0), (3, 4, 10), (1, 5, 2), (4, 2, -12)])
@pytest.mark.parametrize("ka", [1, 3])
@pytest.mark.parametrize("shape", PRODUCTS, ids=lambda shape: product_name(*shape))
def test_products(shape, ka, k, turns, jump):
    """Strips of B that are 21 apart in each row and stand one after another; turns of A in any direction."""
    rows, columns = shape
    steps, lda = k * turns, 60
    index, a, b, c = product_inputs(rows, columns, steps, lda)
    ldb, across, ldc = 21, 21 * steps, columns + 7
    first = max(0, -jump) * (turns - 1)
    want = c.copy().reshape(rows, ldc)
    places = [first + t * jump + p * ka for t in range(turns) for p in range(k)]
    factors = np.array([[a[index[i] * lda + place] for place in places] for i in range(rows)])
    strips = b.reshape(-1, steps, ldb)[:, :, :16].transpose(1, 0, 2).reshape(steps, columns)
    want[:, :columns] = fused(factors, strips, want[:, :columns])
    product = PRODUCTS[shape]

    def kernel(index, lda, a, ka, b, ldb, across, c, ldc, k, jump, turns):
        return product(index, lda, a, ka, b, ldb, across, c, ldc, k, jump, turns)

    address = native.compile_kernel(kernel, product_name(*shape), 12)
    pointers = [x.ctypes.data for x in (index, a, b, c)]
    pointers[1] += 4 * first
    strides = (pointers[2], ldb, across, pointers[3], ldc)
    native.call(address, pointers[0], lda, pointers[1], ka, *strides, k, jump, turns)
    assert c.tobytes() == want.tobytes()


@needs_jit
@pytest.mark.parametrize("width", [16, 48, 64])
@pytest.mark.parametrize(
    ("make", "strip"),
    [(make_multiply_wide, 64), (make_multiply_narrow, 16), (make_multiply_narrow, 64)],
    ids=["4", "6 by strips", "6"],
)
@pytest.mark.parametrize("rows", [1, 9, 13])
def test_all_sizes_of_products_give_the_same_bits(make, strip, width, rows):
    """50 turns, more than are taken at a time; the panel has two more rows before those that are taken."""
    multiply = make(PRODUCTS, strip)
    words, turns, lda = 3, 50, 3
    steps, columns = words * turns, min(width, strip)
    rng = np.random.default_rng(1)
    a = rng.standard_normal((turns, rows, words)).astype(np.float32)
    b = rng.standard_normal((steps + 2, width)).astype(np.float32)
    panel = np.concatenate([b[:, j : j + columns].ravel() for j in range(0, width, columns)])
    index, area = np.minimum(np.arange(rows + 6), rows - 1), np.zeros(SUMS + 4 * (rows + 6) * width, np.uint8)
    area[: index.nbytes] = index.view(np.uint8)

    def kernel(group, a, panel, width):
        at = panel + 4 * 2 * min(width, strip)
        multiply(group, rows, (a, lda, 1), (at, width, steps + 2), (words, rows * words, turns))
        return 0

    address = native.compile_kernel(kernel, "multiply", 4)
    native.call(address, *(x.ctypes.data for x in (area, a, panel)), width)
    factors = a.transpose(1, 0, 2).reshape(rows, steps)
    want = fused(factors, b[2:], np.zeros((rows, width)))
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
