"""More operators as kernels in Triton: functions of elements, sums of rows, products, moves.

    python functions.py

writes functions/NAME.ttir for each entry of ``TEXTS``, as kernels.py does for its kernels.
"""

from pathlib import Path

import triton
import triton.language as tl

from kernels import write

# --- element by element -------------------------------------------------------------------------------------


@triton.jit
def unary(x, out, n, OP: tl.constexpr, BLOCK: tl.constexpr):
    """A function of each element, computed in FP32."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=1.0).to(tl.float32)
    if OP == "abs":
        v = tl.abs(v)
    elif OP == "neg":
        v = -v
    elif OP == "square":
        v = v * v
    elif OP == "exp":
        v = tl.exp(v)
    elif OP == "log":
        v = tl.log(v)
    elif OP == "sqrt":
        v = tl.sqrt(v)
    elif OP == "rsqrt":
        v = tl.rsqrt(v)
    elif OP == "reciprocal":
        v = 1.0 / v
    elif OP == "sin":
        v = tl.sin(v)
    elif OP == "cos":
        v = tl.cos(v)
    elif OP == "erf":
        v = tl.erf(v)
    elif OP == "relu":
        v = tl.maximum(v, 0.0)
    elif OP == "sigmoid":
        v = 1.0 / (1.0 + tl.exp(-v))
    elif OP == "silu":
        v = v / (1.0 + tl.exp(-v))
    else:
        v = 2.0 / (1.0 + tl.exp(-2.0 * v)) - 1.0  # tanh
    tl.store(out + at, v.to(out.dtype.element_ty), mask=at < n)


@triton.jit
def binary(x, y, out, n, OP: tl.constexpr, BLOCK: tl.constexpr):
    """A function of each pair of elements."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + at, mask=at < n, other=1.0)
    b = tl.load(y + at, mask=at < n, other=1.0)
    if OP == "sub":
        v = a - b
    elif OP == "mul":
        v = a * b
    elif OP == "div":
        v = a.to(tl.float32) / b.to(tl.float32)
    elif OP == "maximum":
        v = tl.maximum(a, b)
    elif OP == "ge":
        v = tl.where(a >= b, 1.0, 0.0)
    else:
        v = tl.exp2(b.to(tl.float32) * tl.log2(a.to(tl.float32)))  # pow
    tl.store(out + at, v.to(out.dtype.element_ty), mask=at < n)


@triton.jit
def clamp(x, out, n, low, high, BLOCK: tl.constexpr):
    """x, at least ``low`` and at most ``high``."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n).to(tl.float32)
    tl.store(out + at, tl.clamp(v, low, high).to(out.dtype.element_ty), mask=at < n)


@triton.jit
def add_row(x, row, out, rows, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """A row of numbers, added to each row of x."""
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, BLOCK)
    inside = (r[:, None] < rows) & (c[None, :] < columns)
    at = r[:, None] * columns + c[None, :]
    bias = tl.load(row + c, mask=c < columns)
    tl.store(out + at, tl.load(x + at, mask=inside) + bias[None, :], mask=inside)


@triton.jit
def outer(x, y, out, rows, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """All products of a number of x and a number of y."""
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, BLOCK)
    a = tl.load(x + r, mask=r < rows)
    b = tl.load(y + c, mask=c < columns)
    inside = (r[:, None] < rows) & (c[None, :] < columns)
    tl.store(out + r[:, None] * columns + c[None, :], a[:, None] * b[None, :], mask=inside)


# --- rows ---------------------------------------------------------------------------------------------------


@triton.jit
def of_rows(x, out, rows, columns, OP: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """A number in FP32 of each row."""
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, BLOCK)
    inside = (r[:, None] < rows) & (c[None, :] < columns)
    v = tl.load(x + r[:, None] * columns + c[None, :], mask=inside, other=0.0).to(tl.float32)
    if OP == "mean":
        result = tl.sum(v, axis=1) / columns
    elif OP == "variance":
        mean = tl.sum(v, axis=1) / columns
        distance = tl.where(c[None, :] < columns, v - mean[:, None], 0.0)
        result = tl.sum(distance * distance, axis=1) / columns
    elif OP == "norm":
        result = tl.sqrt(tl.sum(v * v, axis=1))
    else:
        result = tl.sum(v, axis=1)
    tl.store(out + r, result, mask=r < rows)


@triton.jit
def group_norm(x, scale, shift, out, groups, channels, size, eps, BLOCK: tl.constexpr):
    """Normalization over the numbers of a few channels of an image; each program has one such group."""
    group = tl.program_id(0)
    count = channels * size
    at = tl.arange(0, BLOCK)
    v = tl.load(x + group * count + at, mask=at < count, other=0.0).to(tl.float32)
    mean = tl.sum(v, axis=0) / count
    distance = tl.where(at < count, v - mean, 0.0)
    factor = tl.rsqrt(tl.sum(distance * distance, axis=0) / count + eps)
    for channel in range(0, channels):
        inside = (at >= channel * size) & (at < (channel + 1) * size)
        number = group % groups * channels + channel
        result = distance * (factor * tl.load(scale + number)) + tl.load(shift + number)
        tl.store(out + group * count + at, result.to(out.dtype.element_ty), mask=inside)


@triton.jit
def batch_norm(x, mean, variance, scale, shift, out, channels, size, eps, BLOCK: tl.constexpr):
    """Normalization of a channel of an image by statistics that are known: a program has a channel."""
    channel = tl.program_id(0) % channels
    factor = tl.load(scale + channel) * tl.rsqrt(tl.load(variance + channel) + eps)
    offset = tl.load(shift + channel) - tl.load(mean + channel) * factor
    at = tl.arange(0, BLOCK)
    v = tl.load(x + tl.program_id(0) * size + at, mask=at < size).to(tl.float32)
    tl.store(
        out + tl.program_id(0) * size + at, (v * factor + offset).to(out.dtype.element_ty), mask=at < size
    )


# --- products -----------------------------------------------------------------------------------------------


@triton.jit
def bmm(a, b, c, m, n, k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """A product of matrices for each index of the last axis of the grid."""
    a += tl.program_id(2) * m * k
    b += tl.program_id(2) * k * n
    c += tl.program_id(2) * m * n
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
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
    inside = (row[:, None] < m) & (column[None, :] < n)
    tl.store(c + row[:, None] * n + column[None, :], total.to(c.dtype.element_ty), mask=inside)


@triton.jit
def mv(a, x, out, rows, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """A matrix times a vector."""
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    total = tl.zeros([ROWS], dtype=tl.float32)
    for first in range(0, columns, BLOCK):
        c = first + tl.arange(0, BLOCK)
        inside = (r[:, None] < rows) & (c[None, :] < columns)
        part = tl.load(a + r[:, None] * columns + c[None, :], mask=inside, other=0.0).to(tl.float32)
        total += tl.sum(part * tl.load(x + c, mask=c < columns, other=0.0).to(tl.float32)[None, :], axis=1)
    tl.store(out + r, total.to(out.dtype.element_ty), mask=r < rows)


# --- moves --------------------------------------------------------------------------------------------------


@triton.jit
def fill(out, n, value, BLOCK: tl.constexpr):
    """One number everywhere."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.full([BLOCK], value, dtype=tl.float32).to(out.dtype.element_ty), mask=at < n)


@triton.jit
def pad(x, out, columns, before, width, value, BLOCK: tl.constexpr):
    """Rows of x with ``value`` before and after them; each program has one row."""
    at = tl.arange(0, BLOCK)
    source = at - before
    inside = (source >= 0) & (source < columns)
    v = tl.load(x + tl.program_id(0) * columns + source, mask=inside, other=value)
    tl.store(out + tl.program_id(0) * width + at, v, mask=at < width)


@triton.jit
def repeat(x, out, columns, times, BLOCK: tl.constexpr):
    """Each row of x several times in succession."""
    at = tl.arange(0, BLOCK)
    v = tl.load(x + tl.program_id(0) * columns + at, mask=at < columns)
    for copy in range(0, times):
        tl.store(out + (tl.program_id(0) * times + copy) * columns + at, v, mask=at < columns)


@triton.jit
def concatenate(x, y, out, first, second, BLOCK: tl.constexpr):
    """A row of x and a row of y side by side."""
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    a = tl.load(x + row * first + at, mask=at < first)
    tl.store(out + row * (first + second) + at, a, mask=at < first)
    b = tl.load(y + row * second + at, mask=at < second)
    tl.store(out + row * (first + second) + first + at, b, mask=at < second)


_FLOATS = ("fp16", "bf16", "fp32")
UNARY = (
    "abs", "neg", "square", "exp", "log", "sqrt", "rsqrt", "reciprocal", "sin", "cos", "erf", "relu",
    "sigmoid", "silu", "tanh",
)  # fmt: skip
BINARY = ("sub", "mul", "div", "maximum", "ge", "pow")
OF_ROWS = ("sum", "mean", "variance", "norm")


def _types(arguments, of):
    """The types of arguments that are written NAME (an array), NAME:TYPE or NAME:i32."""
    pairs = [argument.partition(":") for argument in arguments.split()]
    return {name: kind or f"*{of}" for name, _, kind in pairs}


TEXTS = {
    f"{name}_{of}": (function, _types(arguments, of), constants)
    for name, function, arguments, constants in (
        *((op, unary, "x out n:i32", {"OP": op, "BLOCK": 4096}) for op in UNARY),
        *((op, binary, "x y out n:i32", {"OP": op, "BLOCK": 4096}) for op in BINARY),
        ("clamp", clamp, "x out n:i32 low:fp32 high:fp32", {"BLOCK": 4096}),
        ("add_row", add_row, "x row out rows:i32 columns:i32", {"ROWS": 16, "BLOCK": 512}),
        ("outer", outer, "x y out rows:i32 columns:i32", {"ROWS": 16, "BLOCK": 512}),
        *(
            (op, of_rows, "x out:*fp32 rows:i32 columns:i32", {"OP": op, "ROWS": 16, "BLOCK": 1024})
            for op in OF_ROWS
        ),
        (
            "batch_norm", batch_norm,
            "x mean:*fp32 variance:*fp32 scale:*fp32 shift:*fp32 out channels:i32 size:i32 eps:fp32",
            {"BLOCK": 4096},
        ),
        (
            "group_norm", group_norm,
            "x scale:*fp32 shift:*fp32 out groups:i32 channels:i32 size:i32 eps:fp32",
            {"BLOCK": 8192},
        ),
        (
            "bmm", bmm, "a b c m:i32 n:i32 k:i32", {"BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 64},
        ),
        ("mv", mv, "a x out rows:i32 columns:i32", {"ROWS": 16, "BLOCK": 1024}),
        ("fill", fill, "out n:i32 value:fp32", {"BLOCK": 4096}),
        ("pad", pad, "x out columns:i32 before:i32 width:i32 value:fp32", {"BLOCK": 1024}),
        ("repeat", repeat, "x out columns:i32 times:i32", {"BLOCK": 1024}),
        ("concatenate", concatenate, "x y out first:i32 second:i32", {"BLOCK": 1024}),
    )
    for of in _FLOATS
}  # fmt: skip
"""By the name of the text: the kernel, the types of its arguments and its constants."""


if __name__ == "__main__":
    write(TEXTS, Path(__file__).parent / "functions")
