"""Kernels in Triton, from a vector add to attention, and the texts that Triton makes of them.

    python kernels.py

writes ttir/NAME.ttir for each entry of ``TEXTS``. Making the texts needs Triton (with or without a GPU);
compiling and running them does not.
"""

import re
from pathlib import Path

import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    """out = x + y."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@triton.jit
def gelu(x, out, n, BLOCK: tl.constexpr):
    """The approximation of GELU by tanh, in FP32."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n).to(tl.float32)
    inner = 0.7978845608 * (v + 0.044715 * v * v * v)
    # tanh(u) = 1 - 2 / (1 + exp(2 u))
    result = 0.5 * v * (2.0 - 2.0 / (1.0 + tl.exp(2.0 * inner)))
    tl.store(out + at, result.to(out.dtype.element_ty), mask=at < n)


@triton.jit
def choose(x, y, out, n, low, BLOCK: tl.constexpr):
    """x where it is above ``low`` and at an even index of the second half, else the smaller of y and 1."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    a = tl.load(x + at, mask=inside, other=-1.0)
    b = tl.load(y + at, mask=inside, other=2.0)
    picked = (a > low) & (at >= n // 2)
    tl.store(out + at, tl.where(picked, a, tl.minimum(b, 1.0)), mask=inside)


@triton.jit
def softmax(x, out, row_step, rows, columns, BLOCK: tl.constexpr):
    """softmax of each row; a program has every n-th of them."""
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        at = tl.arange(0, BLOCK)
        v = tl.load(x + row * row_step + at, mask=at < columns, other=-float("inf")).to(tl.float32)
        v = tl.exp(v - tl.max(v, axis=0))
        result = v / tl.sum(v, axis=0)
        tl.store(out + row * row_step + at, result.to(out.dtype.element_ty), mask=at < columns)


@triton.jit
def softmax_block(x, out, rows, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """softmax of several rows at a time."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = tl.arange(0, BLOCK)
    inside = (row[:, None] < rows) & (at[None, :] < columns)
    place = row[:, None] * columns + at[None, :]
    v = tl.load(x + place, mask=inside, other=-1.0e30).to(tl.float32)
    v = tl.exp(v - tl.max(v, axis=1)[:, None])
    result = v / tl.sum(v, axis=1)[:, None]
    tl.store(out + place, result.to(out.dtype.element_ty), mask=inside)


@triton.jit
def layer_norm(x, scale, shift, out, mean, rstd, columns, eps, BLOCK: tl.constexpr):
    """Layer normalization of one row by each program, in blocks of columns."""
    row = tl.program_id(0)
    x += row * columns
    out += row * columns
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for first in range(0, columns, BLOCK):
        at = first + tl.arange(0, BLOCK)
        total += tl.load(x + at, mask=at < columns, other=0.0).to(tl.float32)
    middle = tl.sum(total, axis=0) / columns
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for first in range(0, columns, BLOCK):
        at = first + tl.arange(0, BLOCK)
        v = tl.load(x + at, mask=at < columns, other=0.0).to(tl.float32)
        v = tl.where(at < columns, v - middle, 0.0)
        squares += v * v
    factor = 1 / tl.sqrt(tl.sum(squares, axis=0) / columns + eps)
    tl.store(mean + row, middle)
    tl.store(rstd + row, factor)
    for first in range(0, columns, BLOCK):
        at = first + tl.arange(0, BLOCK)
        inside = at < columns
        w = tl.load(scale + at, mask=inside)
        b = tl.load(shift + at, mask=inside)
        v = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
        tl.store(out + at, ((v - middle) * factor * w + b).to(out.dtype.element_ty), mask=inside)


@triton.jit
def reduce_axes(x, largest, smallest, products, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """The largest of each row, the smallest of each column, and the product of all numbers of each column."""
    row, column = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    inside = (row[:, None] < rows) & (column[None, :] < columns)
    place = row[:, None] * columns + column[None, :]
    v = tl.load(x + place, mask=inside, other=1.0)
    tl.store(smallest + column, tl.min(v, axis=0), mask=column < columns)
    tl.store(products + column, tl.reduce(v, 0, _times), mask=column < columns)
    v = tl.where(inside, v, -float("inf"))
    tl.store(largest + row, tl.max(v, axis=1), mask=row < rows)


@triton.jit
def _times(a, b):
    return a * b


@triton.jit
def transpose(x, out, rows, columns, BLOCK: tl.constexpr):
    """out = x transposed, in squares."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(
        x + row[:, None] * columns + column[None, :], mask=(row[:, None] < rows) & (column[None, :] < columns)
    )
    tl.store(
        out + column[:, None] * rows + row[None, :],
        tl.trans(v),
        mask=(column[:, None] < columns) & (row[None, :] < rows),
    )


@triton.jit
def matmul(
    a, b, c, m, n, k, a_step, b_step, c_step,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr, LEAKY: tl.constexpr,
):  # fmt: skip
    """c = a x b, programs in groups of rows; rows and columns beyond the end wrap around."""
    number = tl.program_id(0)
    down, across = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    group = number // (GROUP * across)
    height = min(down - group * GROUP, GROUP)
    i = group * GROUP + (number % (GROUP * across)) % height
    j = (number % (GROUP * across)) // height
    row = (i * BLOCK_M + tl.arange(0, BLOCK_M)) % m
    column = (j * BLOCK_N + tl.arange(0, BLOCK_N)) % n
    inner = tl.arange(0, BLOCK_K)
    left = a + row[:, None] * a_step + inner[None, :]
    right = b + inner[:, None] * b_step + column[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(0, tl.cdiv(k, BLOCK_K)):
        rest = k - step * BLOCK_K
        x = tl.load(left, mask=inner[None, :] < rest, other=0.0)
        y = tl.load(right, mask=inner[:, None] < rest, other=0.0)
        total = tl.dot(x, y, total)
        left += BLOCK_K
        right += BLOCK_K * b_step
    if LEAKY:
        total = tl.where(total >= 0, total, 0.01 * total)
    row = i * BLOCK_M + tl.arange(0, BLOCK_M)
    column = j * BLOCK_N + tl.arange(0, BLOCK_N)
    tl.store(
        c + row[:, None] * c_step + column[None, :],
        total.to(c.dtype.element_ty),
        mask=(row[:, None] < m) & (column[None, :] < n),
    )


@triton.jit
def attention(
    q, k, v, out, length, scale,
    WIDTH: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """Attention of a head for ROWS queries, keys in blocks, which correct the softmax of earlier ones."""
    first = tl.program_id(0) * ROWS
    q += tl.program_id(1) * length * WIDTH
    k += tl.program_id(1) * length * WIDTH
    v += tl.program_id(1) * length * WIDTH
    out += tl.program_id(1) * length * WIDTH
    row, lane = first + tl.arange(0, ROWS), tl.arange(0, WIDTH)
    x = tl.load(q + row[:, None] * WIDTH + lane[None, :], mask=row[:, None] < length, other=0.0)
    largest = tl.full([ROWS], -1.0e30, dtype=tl.float32)
    weight = tl.zeros([ROWS], dtype=tl.float32)
    total = tl.zeros([ROWS, WIDTH], dtype=tl.float32)
    end = tl.minimum(first + ROWS, length) if CAUSAL else length
    for start in range(0, end, BLOCK):
        key = start + tl.arange(0, BLOCK)
        y = tl.load(k + key[None, :] * WIDTH + lane[:, None], mask=key[None, :] < length, other=0.0)
        z = tl.load(v + key[:, None] * WIDTH + lane[None, :], mask=key[:, None] < length, other=0.0)
        score = tl.dot(x, y) * scale
        seen = key[None, :] < length
        if CAUSAL:
            seen = seen & (row[:, None] >= key[None, :])
        score = tl.where(seen, score, -1.0e30)
        new = tl.maximum(largest, tl.max(score, axis=1))
        p = tl.exp2(score - new[:, None])
        kept = tl.exp2(largest - new)
        weight = weight * kept + tl.sum(p, axis=1)
        total = total * kept[:, None]
        total = tl.dot(p.to(z.dtype), z, total)
        largest = new
    result = total / weight[:, None]
    tl.store(
        out + row[:, None] * WIDTH + lane[None, :],
        result.to(out.dtype.element_ty),
        mask=row[:, None] < length,
    )


def _arrays(*names, of):
    return dict.fromkeys(names, f"*{of}")


TEXTS = {
    f"{name}_{of}" + suffix: (function, {**_arrays(*arrays, of=of), **numbers}, constants)
    for name, function, arrays, numbers, variants in (
        ("add", add, ("x", "y", "out"), {"n": "i32"}, {"": {"BLOCK": 1024}}),
        ("gelu", gelu, ("x", "out"), {"n": "i32"}, {"": {"BLOCK": 512}}),
        ("choose", choose, ("x", "y", "out"), {"n": "i32", "low": "fp32"}, {"": {"BLOCK": 256}}),
        (
            "softmax", softmax, ("x", "out"),
            {"row_step": "i32", "rows": "i32", "columns": "i32"}, {"": {"BLOCK": 1024}},
        ),
        (
            "softmax_block", softmax_block, ("x", "out"), {"rows": "i32", "columns": "i32"},
            {"": {"ROWS": 16, "BLOCK": 128}, "_narrow": {"ROWS": 32, "BLOCK": 16}},
        ),
        (
            "layer_norm", layer_norm, ("x", "scale", "shift", "out"),
            {"mean": "*fp32", "rstd": "*fp32", "columns": "i32", "eps": "fp32"}, {"": {"BLOCK": 256}},
        ),
        (
            "reduce_axes", reduce_axes, ("x", "largest", "smallest", "products"),
            {"rows": "i32", "columns": "i32"}, {"": {"ROWS": 32, "COLUMNS": 128}},
        ),
        ("transpose", transpose, ("x", "out"), {"rows": "i32", "columns": "i32"}, {"": {"BLOCK": 64}}),
        (
            "matmul", matmul, ("a", "b", "c"),
            dict.fromkeys(("m", "n", "k", "a_step", "b_step", "c_step"), "i32"),
            {
                "": {"BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP": 4, "LEAKY": False},
                "_leaky": {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32, "GROUP": 2, "LEAKY": True},
            },
        ),
        (
            "attention", attention, ("q", "k", "v", "out"), {"length": "i32", "scale": "fp32"},
            {
                "": {"WIDTH": 64, "ROWS": 64, "BLOCK": 64, "CAUSAL": False},
                "_causal": {"WIDTH": 64, "ROWS": 64, "BLOCK": 64, "CAUSAL": True},
            },
        ),
    )
    for of in ("fp16", "bf16", "fp32")
    for suffix, constants in variants.items()
}  # fmt: skip
"""For each text, by its name: the kernel, the types of its arguments and its constants."""


def text(function, types, constants):
    """The TTIR of a kernel with the locations of its lines, without the folder of this file."""
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import ASTSource, make_backend

    backend = make_backend(GPUTarget("tx8", "tx81", 1))
    source = ASTSource(function, {**types, **dict.fromkeys(constants, "constexpr")}, constants)
    context = ir.context()
    ir.load_dialects(context)
    options = backend.parse_options({"debug": True})
    module = source.make_ir(
        backend.target,
        options,
        backend.get_codegen_implementation(options),
        backend.get_module_map(),
        context,
    )
    stages = {}
    backend.add_stages(stages, options)
    return re.sub(r'"/[^"]*/([^"/]+)"', r'"\1"', str(stages["ttir"](module, {})))


def write(texts, folder):
    """Write the text of each entry into a folder."""
    for name, entry in texts.items():
        (folder / f"{name}.ttir").write_text(text(*entry))


if __name__ == "__main__":
    write(TEXTS, Path(__file__).parent / "ttir")
