"""Kernels in Triton with the large blocks that suit this chip, and the texts that Triton makes of them.

    python large.py

writes large/NAME.ttir for each entry of ``TEXTS``, as kernels.py does for its kernels.
"""

from pathlib import Path

import triton
import triton.language as tl

from kernels import add, attention, gelu, softmax_block, write
from operators import embedding, rms_norm, silu_and_mul


@triton.jit
def product(
    a, b, c, m, n, k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c = a x b; each program computes one block of c, with masks at the ends."""
    across = tl.cdiv(n, BLOCK_N)
    row = tl.program_id(0) // across * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tl.program_id(0) % across * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for first in range(0, k, BLOCK_K):
        inner = first + tl.arange(0, BLOCK_K)
        x = tl.load(
            a + row[:, None] * k + inner[None, :], mask=(row[:, None] < m) & (inner[None, :] < k), other=0.0
        )
        y = tl.load(
            b + inner[:, None] * n + column[None, :],
            mask=(inner[:, None] < k) & (column[None, :] < n), other=0.0,
        )  # fmt: skip
        total = tl.dot(x, y, total)
    tl.store(
        c + row[:, None] * n + column[None, :],
        total.to(c.dtype.element_ty),
        mask=(row[:, None] < m) & (column[None, :] < n),
    )


@triton.jit
def flash(
    q, k, v, out, length, scale, WIDTH: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """Attention of one head for ROWS queries with scores in FP16, which are transposed: keys are rows.

    So maxima and sums run along the first axis, and a factor of a query is a row; both are fast here.
    """
    first = tl.program_id(0) * ROWS
    head = tl.program_id(1) * length * WIDTH
    row, lane = first + tl.arange(0, ROWS), tl.arange(0, WIDTH)
    x = tl.load(q + head + row[:, None] * WIDTH + lane[None, :], mask=row[:, None] < length, other=0.0)
    x = tl.trans((x * scale).to(x.dtype))
    largest = tl.full([ROWS], -60000.0, dtype=tl.float16)
    weight = tl.zeros([ROWS], dtype=tl.float32)
    total = tl.zeros([WIDTH, ROWS], dtype=tl.float32)
    for start in range(0, length, BLOCK):
        key = start + tl.arange(0, BLOCK)
        y = tl.load(k + head + key[:, None] * WIDTH + lane[None, :], mask=key[:, None] < length, other=0.0)
        z = tl.load(v + head + key[:, None] * WIDTH + lane[None, :], mask=key[:, None] < length, other=0.0)
        score = tl.dot(y, x, out_dtype=tl.float16)
        score = tl.where(key[:, None] < length, score, -60000.0)
        new = tl.maximum(largest, tl.max(score, axis=0).to(tl.float16))
        p = tl.exp2((score - new[None, :]).to(tl.float32)).to(tl.float16)
        kept = tl.exp2((largest - new).to(tl.float32))
        weight = weight * kept + tl.sum(p, axis=0)
        total = tl.dot(tl.trans(z), p, total * kept[None, :])
        largest = new
    result = (total / weight[None, :]).to(out.dtype.element_ty)
    identity = (lane[:, None] == lane[None, :]).to(result.dtype)
    result = tl.dot(tl.trans(result), identity, out_dtype=result.dtype)  # faster than moving single elements
    tl.store(out + head + row[:, None] * WIDTH + lane[None, :], result, mask=row[:, None] < length)


def _half(*names):
    return dict.fromkeys(names, "*fp16")


TEXTS = {
    "add": (add, {**_half("x", "y", "out"), "n": "i32"}, {"BLOCK": 65536}),
    "gelu": (gelu, {**_half("x", "out"), "n": "i32"}, {"BLOCK": 32768}),
    "softmax": (
        softmax_block, {**_half("x", "out"), "rows": "i32", "columns": "i32"}, {"ROWS": 16, "BLOCK": 1024},
    ),
    "rms_norm": (
        rms_norm, {**_half("x", "scale", "out"), "columns": "i32", "eps": "fp32"}, {"BLOCK": 4096},
    ),
    "silu_and_mul": (silu_and_mul, {**_half("x", "out"), "columns": "i32"}, {"BLOCK": 16384}),
    "embedding": (
        embedding, {"ids": "*i64", **_half("table", "out"), "n": "i32", "columns": "i32"},
        {"ROWS": 32, "BLOCK": 1024},
    ),
    "product": (
        product, {**_half("a", "b", "c"), **dict.fromkeys(("m", "n", "k"), "i32")},
        {"BLOCK_M": 256, "BLOCK_N": 1024, "BLOCK_K": 256},
    ),
    "attention": (
        attention, {**_half("q", "k", "v", "out"), "length": "i32", "scale": "fp32"},
        {"WIDTH": 64, "ROWS": 256, "BLOCK": 256, "CAUSAL": False},
    ),
    "flash": (
        flash, {**_half("q", "k", "v", "out"), "length": "i32", "scale": "fp32"},
        {"WIDTH": 64, "ROWS": 512, "BLOCK": 256},
    ),
}  # fmt: skip
"""By the name of the text: the kernel, the types of its arguments and its constants."""


if __name__ == "__main__":
    write(TEXTS, Path(__file__).parent / "large")
