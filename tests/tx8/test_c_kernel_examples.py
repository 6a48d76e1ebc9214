"""The kernels of examples/crt against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import tx8
from c_tools import needs_gcc
from paths import ROOT

KERNELS = ROOT / "examples" / "crt"


def test_every_kernel_is_tested() -> None:
    assert {path.stem for path in KERNELS.glob("*.c")} == {"vector_add", "softmax", "matmul"}


@needs_gcc
@pytest.mark.parametrize("count", [1, 1024, 20000])
def test_vector_add(count: int) -> None:
    x, y = np.random.default_rng(1).standard_normal((2, count)).astype(np.float32)
    total = np.zeros(count, np.float32)
    kernel = tx8.c_kernel(KERNELS / "vector_add.c", "add_kernel")
    kernel.launch(-(-count // 1024), x, y, total, count)
    assert (total == x + y).all()


@pytest.mark.long
@needs_gcc
def test_softmax() -> None:
    x = np.random.default_rng(2).standard_normal((20, 300)).astype(np.float32) * 5
    y = np.zeros_like(x)
    tx8.c_kernel(KERNELS / "softmax.c", "softmax_kernel").launch(20, x, y, 300)
    powers = np.exp((x - x.max(1, keepdims=True)).astype(np.float64))
    np.testing.assert_allclose(y, powers / powers.sum(1, keepdims=True), rtol=1e-5)


@pytest.mark.long
@needs_gcc
def test_matmul() -> None:
    m, k, n = 192, 256, 320
    rng = np.random.default_rng(3)
    a = rng.integers(-4, 5, (m, k)).astype(np.float16)
    b = rng.integers(-4, 5, (k, n)).astype(np.float16)
    c = np.zeros((m, n), np.float32)
    tx8.c_kernel(KERNELS / "matmul.c", "matmul_kernel").launch((n // 64, m // 64), a, b, c, k, n)
    assert (c == a.astype(np.float32) @ b.astype(np.float32)).all(), "whole numbers: exact in FP32"
