"""Operators as kernels in Triton, and the texts that Triton makes of them.

    python operators.py

writes operators/NAME.ttir for each entry of ``TEXTS``, as kernels.py does for its kernels.
"""

from pathlib import Path

import triton
import triton.language as tl

from kernels import write

# --- element by element -------------------------------------------------------------------------------------


@triton.jit
def silu_and_mul(x, out, columns, BLOCK: tl.constexpr):
    """silu of the first half of a row times its second half."""
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    first = x + tl.program_id(0) * 2 * columns
    a = tl.load(first + at, mask=at < columns).to(tl.float32)
    b = tl.load(first + columns + at, mask=at < columns).to(tl.float32)
    result = a / (1.0 + tl.exp(-a)) * b
    tl.store(out + tl.program_id(0) * columns + at, result.to(out.dtype.element_ty), mask=at < columns)


@triton.jit
def masked_fill(x, where, out, n, value, BLOCK: tl.constexpr):
    """x, but ``value`` where the byte of ``where`` is not 0."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    chosen = tl.load(where + at, mask=at < n, other=0) != 0
    v = tl.load(x + at, mask=at < n)
    tl.store(out + at, tl.where(chosen, value, v), mask=at < n)


@triton.jit
def dropout(x, out, n, p, seed, BLOCK: tl.constexpr):
    """x / (1 - p) with probability 1 - p, otherwise 0; the random numbers are those of Philox."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    kept = tl.rand(seed, at) > p
    tl.store(out + at, tl.where(kept, v / (1 - p), 0.0), mask=at < n)


@triton.jit
def lower_triangle(x, out, rows, columns, diagonal, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """x on and below a diagonal, 0 above it."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (row[:, None] < rows) & (column[None, :] < columns)
    place = row[:, None] * columns + column[None, :]
    v = tl.load(x + place, mask=inside)
    tl.store(out + place, tl.where(column[None, :] <= row[:, None] + diagonal, v, 0.0), mask=inside)


@triton.jit
def flip(x, out, n, BLOCK: tl.constexpr):
    """The elements in reverse."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + n - 1 - at, mask=at < n), mask=at < n)


@triton.jit
def rotary(x, position, cosines, sines, out, heads, HALF: tl.constexpr):
    """A rotary embedding: the two halves of each head turned by angles of the token's position."""
    token, head = tl.program_id(0), tl.program_id(1)
    at = tl.arange(0, HALF)
    row = tl.load(position + token)
    c = tl.load(cosines + row * HALF + at).to(tl.float32)
    s = tl.load(sines + row * HALF + at).to(tl.float32)
    first = (token * heads + head) * 2 * HALF
    a = tl.load(x + first + at).to(tl.float32)
    b = tl.load(x + first + HALF + at).to(tl.float32)
    tl.store(out + first + at, (a * c - b * s).to(out.dtype.element_ty))
    tl.store(out + first + HALF + at, (b * c + a * s).to(out.dtype.element_ty))


# --- rows ---------------------------------------------------------------------------------------------------


@triton.jit
def log_softmax(x, out, columns, BLOCK: tl.constexpr):
    """The logarithm of the softmax of a row."""
    at = tl.arange(0, BLOCK)
    first = tl.program_id(0) * columns
    v = tl.load(x + first + at, mask=at < columns, other=-float("inf")).to(tl.float32)
    v = v - tl.max(v, axis=0)
    result = v - tl.log(tl.sum(tl.exp(v), axis=0))
    tl.store(out + first + at, result.to(out.dtype.element_ty), mask=at < columns)


@triton.jit
def cross_entropy(x, label, loss, columns, ignored, BLOCK: tl.constexpr):
    """-log softmax of a row at its label; 0 for a label to be ignored."""
    row = tl.program_id(0)
    chosen = tl.load(label + row)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf")).to(tl.float32)
    largest = tl.max(v, axis=0)
    total = tl.log(tl.sum(tl.exp(v - largest), axis=0))
    if chosen == ignored:
        tl.store(loss + row, 0.0)
    else:
        tl.store(loss + row, total + largest - tl.load(x + row * columns + chosen).to(tl.float32))


@triton.jit
def rms_norm(x, scale, out, columns, eps, BLOCK: tl.constexpr):
    """A row divided by the root of the mean of its squares."""
    at = tl.arange(0, BLOCK)
    first = tl.program_id(0) * columns
    v = tl.load(x + first + at, mask=at < columns, other=0.0).to(tl.float32)
    factor = tl.rsqrt(tl.sum(v * v, axis=0) / columns + eps)
    w = tl.load(scale + at, mask=at < columns)
    tl.store(out + first + at, (v * factor * w).to(out.dtype.element_ty), mask=at < columns)


@triton.jit
def layer_norm_backward(x, scale, dy, mean, rstd, dx, dscale, dshift, columns, BLOCK: tl.constexpr):
    """The gradients of layer normalization; rows add theirs to those of scale and shift in turn."""
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    v = tl.load(x + row * columns + at, mask=inside, other=0.0).to(tl.float32)
    g = tl.load(dy + row * columns + at, mask=inside, other=0.0).to(tl.float32)
    w = tl.load(scale + at, mask=inside, other=0.0).to(tl.float32)
    factor = tl.load(rstd + row)
    normal = tl.where(inside, (v - tl.load(mean + row)) * factor, 0.0)
    weighted = tl.where(inside, w * g, 0.0)
    first = tl.sum(normal * weighted, axis=0) / columns
    second = tl.sum(weighted, axis=0) / columns
    result = (weighted - normal * first - second) * factor
    tl.store(dx + row * columns + at, result.to(dx.dtype.element_ty), mask=inside)
    tl.atomic_add(dscale + at, g * normal, mask=inside)
    tl.atomic_add(dshift + at, g, mask=inside)


@triton.jit
def argmax(x, largest, smallest, columns, BLOCK: tl.constexpr):
    """Where the largest and the smallest number of a row are, the first of several."""
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
    tl.store(largest + row, tl.argmax(v, axis=0))
    v = tl.where(at < columns, v, float("inf"))
    tl.store(smallest + row, tl.argmin(v, axis=0))


@triton.jit
def topk(x, values, places, columns, K: tl.constexpr, BLOCK: tl.constexpr):
    """The K largest numbers of a row, and their positions."""
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf")).to(tl.float32)
    for k in range(K):
        best, place = tl.max(v, axis=0, return_indices=True)
        tl.store(values + row * K + k, best.to(values.dtype.element_ty))
        tl.store(places + row * K + k, place)
        v = tl.where(at == place, -float("inf"), v)


@triton.jit
def cumsum(x, out, columns, BLOCK: tl.constexpr):
    """The running sums of a row, in blocks."""
    row = tl.program_id(0)
    total = 0.0
    for first in range(0, columns, BLOCK):
        at = first + tl.arange(0, BLOCK)
        v = tl.load(x + row * columns + at, mask=at < columns, other=0.0).to(tl.float32)
        sums = total + tl.cumsum(v, axis=0)
        total += tl.sum(v, axis=0)
        tl.store(out + row * columns + at, sums.to(out.dtype.element_ty), mask=at < columns)


# --- places that are data -----------------------------------------------------------------------------------


@triton.jit
def embedding(ids, table, out, n, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Rows of a table by their numbers."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    number = tl.load(ids + row, mask=row < n, other=0)
    inside = (row[:, None] < n) & (at[None, :] < columns)
    v = tl.load(table + number[:, None] * columns + at[None, :], mask=inside)
    tl.store(out + row[:, None] * columns + at[None, :], v, mask=inside)


@triton.jit
def gather(x, index, out, rows, columns, width, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """out[i, j] = x[i, index[i, j]]."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = tl.arange(0, BLOCK)
    inside = (row[:, None] < rows) & (at[None, :] < width)
    place = row[:, None] * width + at[None, :]
    chosen = tl.load(index + place, mask=inside, other=0)
    v = tl.load(x + row[:, None] * columns + chosen, mask=inside)
    tl.store(out + place, v, mask=inside)


@triton.jit
def scatter(x, index, out, rows, columns, width, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """out[i, index[i, j]] = x[i, j]."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = tl.arange(0, BLOCK)
    inside = (row[:, None] < rows) & (at[None, :] < width)
    place = row[:, None] * width + at[None, :]
    chosen = tl.load(index + place, mask=inside, other=0)
    tl.store(out + row[:, None] * columns + chosen, tl.load(x + place, mask=inside), mask=inside)


@triton.jit
def index_select(x, index, out, rows, columns, count, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Columns of a matrix by their numbers."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = tl.arange(0, BLOCK)
    chosen = tl.load(index + at, mask=at < count, other=0)
    inside = (row[:, None] < rows) & (at[None, :] < count)
    v = tl.load(x + row[:, None] * columns + chosen[None, :], mask=inside)
    tl.store(out + row[:, None] * count + at[None, :], v, mask=inside)


@triton.jit
def cache_write(keys, slots, cache, width, BLOCK: tl.constexpr):
    """Put the key of each token into its slot of a cache in pages; tokens with negative slots are skipped."""
    token = tl.program_id(0)
    slot = tl.load(slots + token)
    at = tl.arange(0, BLOCK)
    if slot >= 0:
        v = tl.load(keys + token * width + at, mask=at < width)
        tl.store(cache + slot * width + at, v, mask=at < width)


@triton.jit
def nearest(x, out, height, width, new_height, new_width, BLOCK: tl.constexpr):
    """An image in another size: the nearest pixel above and to the left."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row, column = at // new_width, at % new_width
    source = row * height // new_height * width + column * width // new_width
    inside = at < new_height * new_width
    tl.store(out + at, tl.load(x + source, mask=inside), mask=inside)


@triton.jit
def nonzero(x, places, count, n, BLOCK: tl.constexpr):
    """The positions of the numbers that are not 0, in order, and their count."""
    found = 0
    for first in range(0, n, BLOCK):
        at = first + tl.arange(0, BLOCK)
        chosen = tl.load(x + at, mask=at < n, other=0.0) != 0.0
        ones = chosen.to(tl.int32)
        tl.store(places + found + tl.cumsum(ones, axis=0) - ones, at, mask=chosen)
        found += tl.sum(ones, axis=0)
    tl.store(count, found)


@triton.jit
def search(x, edges, out, n, count, BLOCK: tl.constexpr):
    """The number of edges, which ascend, that are not above each element."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=0.0)
    low = tl.zeros([BLOCK], dtype=tl.int32)
    high = tl.zeros([BLOCK], dtype=tl.int32) + count
    rest = count
    while rest > 0:
        middle = (low + high) // 2
        edge = tl.load(edges + middle, mask=middle < count, other=float("inf"))
        above = (v < edge) | (middle >= high)
        low = tl.where(above, low, middle + 1)
        high = tl.where(above, middle, high)
        rest //= 2
    tl.store(out + at, low, mask=at < n)


@triton.jit
def histogram(x, out, n, bins, low, width, BLOCK: tl.constexpr):
    """How many numbers are in each of the bins of a width from ``low``."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
    number = tl.floor((v - low) / width).to(tl.int32)
    inside = (at < n) & (number >= 0) & (number < bins)
    tl.atomic_add(out + number, 1, mask=inside)


# --- products -----------------------------------------------------------------------------------------------


@triton.jit
def grouped_gemm(
    a, b, c, sizes, starts, groups, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Products of groups of rows, with a matrix for each group; sizes and first rows of groups are data."""
    across = tl.cdiv(n, BLOCK_N)
    done = 0
    tile = tl.program_id(0)
    for group in range(groups):
        m, start = tl.load(sizes + group), tl.load(starts + group)
        tiles = tl.cdiv(m, BLOCK_M) * across
        while tile < done + tiles:
            row = (tile - done) // across * BLOCK_M + tl.arange(0, BLOCK_M)
            column = (tile - done) % across * BLOCK_N + tl.arange(0, BLOCK_N)
            total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
            for first in range(0, k, BLOCK_K):
                inner = first + tl.arange(0, BLOCK_K)
                x = tl.load(
                    a + (start + row[:, None]) * k + inner[None, :],
                    mask=(row[:, None] < m) & (inner[None, :] < k), other=0.0,
                )  # fmt: skip
                y = tl.load(
                    b + group * k * n + inner[:, None] * n + column[None, :],
                    mask=(inner[:, None] < k) & (column[None, :] < n), other=0.0,
                )  # fmt: skip
                total = tl.dot(x, y, total)
            tl.store(
                c + (start + row[:, None]) * n + column[None, :],
                total.to(c.dtype.element_ty),
                mask=(row[:, None] < m) & (column[None, :] < n),
            )
            tile += tl.num_programs(0)
        done += tiles


@triton.jit
def addmm(bias, a, b, c, m, n, k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """bias + a x b, with tensor descriptors."""
    left = tl.make_tensor_descriptor(a, shape=[m, k], strides=[k, 1], block_shape=[BLOCK_M, BLOCK_K])
    right = tl.make_tensor_descriptor(b, shape=[k, n], strides=[n, 1], block_shape=[BLOCK_K, BLOCK_N])
    result = tl.make_tensor_descriptor(c, shape=[m, n], strides=[n, 1], block_shape=[BLOCK_M, BLOCK_N])
    row, column = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for first in range(0, k, BLOCK_K):
        total = tl.dot(left.load([row, first]), right.load([first, column]), total)
    at = column + tl.arange(0, BLOCK_N)
    total += tl.load(bias + at, mask=at < n, other=0.0)[None, :].to(tl.float32)
    result.store([row, column], total.to(c.dtype.element_ty))


@triton.jit
def routed(
    a, ids, b, c, m, n, k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """A product of rows that are chosen by number; a negative number gives no row."""
    row, column = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    number = tl.load(ids + row, mask=row < m, other=-1)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for first in range(0, k, BLOCK_K):
        inner = first + tl.arange(0, BLOCK_K)
        x = tl.load(
            a + number[:, None] * k + inner[None, :],
            mask=(number[:, None] >= 0) & (inner[None, :] < k), other=0.0,
        )  # fmt: skip
        y = tl.load(
            b + inner[:, None] * n + column[None, :],
            mask=(inner[:, None] < k) & (column[None, :] < n), other=0.0,
        )  # fmt: skip
        total = tl.dot(x, y, total)
    inside = (row[:, None] < m) & (column[None, :] < n)
    tl.store(c + row[:, None] * n + column[None, :], total.to(c.dtype.element_ty), mask=inside)


# --- integers -----------------------------------------------------------------------------------------------


@triton.jit
def integers(x, y, out, n, BLOCK: tl.constexpr):
    """Arithmetic of integers that are data: sums and products that wrap, quotients, bits, a choice."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    a = tl.load(x + at, mask=inside, other=0)
    b = tl.load(y + at, mask=inside, other=1)
    mixed = (a * b + at) ^ (a << 3) & (b >> 2) | (a - b)
    tl.store(out + at, mixed, mask=inside)
    tl.store(out + n + at, a // b, mask=inside)
    tl.store(out + 2 * n + at, a % b, mask=inside)
    tl.store(out + 3 * n + at, tl.where(a > b, tl.maximum(a, -b), tl.minimum(b, 7)), mask=inside)


@triton.jit
def random_integers(out, n, seed, BLOCK: tl.constexpr):
    """The four blocks of numbers of Philox."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b, c, d = tl.randint4x(seed, at)
    tl.store(out + at, a, mask=at < n)
    tl.store(out + n + at, b, mask=at < n)
    tl.store(out + 2 * n + at, c, mask=at < n)
    tl.store(out + 3 * n + at, d, mask=at < n)


@triton.jit
def collatz(x, steps):
    """How many steps of the sequence of Collatz lead from each number to 1."""
    number, count = tl.load(x + tl.program_id(0)), 0
    while number != 1:
        if number % 2 == 0:
            number = number // 2
        else:
            number = 3 * number + 1
            count += 1
            number = number // 2
        count += 1
    tl.store(steps + tl.program_id(0), count)


# --- blocks in other orders ---------------------------------------------------------------------------------


@triton.jit
def rearrange(x, index, pairs, sums, both, picked, N: tl.constexpr):
    """Neighbours exchanged and added up, a block next to its double, elements of a block by indices."""
    at = tl.arange(0, N)
    v = tl.load(x + at)
    even, odd = tl.split(tl.reshape(v, (N // 2, 2)))
    tl.store(pairs + at, tl.reshape(tl.join(odd, even), (N,)))
    tl.store(sums + tl.arange(0, N // 2), even + odd)
    tl.store(both + tl.arange(0, 2 * N), tl.cat(v, v + v, dim=0))
    tl.store(picked + at, tl.gather(v, tl.load(index + at), axis=0))


@triton.jit
def rounded(x, down, up, error, n, BLOCK: tl.constexpr):
    """The integers below and above, and the error function."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(down + at, tl.floor(v).to(down.dtype.element_ty), mask=at < n)
    tl.store(up + at, tl.ceil(v).to(up.dtype.element_ty), mask=at < n)
    tl.store(error + at, tl.erf(v).to(error.dtype.element_ty), mask=at < n)


@triton.jit
def _larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def running(x, sums, products, largest, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Sums of the rest of each row, products down each column, the running maximum in each row."""
    row, column = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    place = row[:, None] * COLUMNS + column[None, :]
    v = tl.load(x + place)
    tl.store(sums + place, tl.cumsum(v, axis=1, reverse=True))
    tl.store(products + place, tl.cumprod(v, axis=0))
    tl.store(largest + place, tl.associative_scan(v, 1, _larger))


@triton.jit
def sort(x, out, columns, BLOCK: tl.constexpr):
    """The numbers of a row in descending order."""
    at = tl.arange(0, BLOCK)
    v = tl.load(x + tl.program_id(0) * columns + at, mask=at < columns, other=-float("inf"))
    tl.store(out + tl.program_id(0) * columns + at, tl.sort(v, descending=True), mask=at < columns)


@triton.jit
def count(x, out, n, BLOCK: tl.constexpr, BINS: tl.constexpr):
    """How often each small number occurs."""
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=0)
    tl.store(out + tl.arange(0, BINS), tl.histogram(v, BINS, mask=at < n))


@triton.jit
def atomics(x, index, largest, smallest, last, total, winner, n, BLOCK: tl.constexpr):
    """The largest, smallest and last number and the sum of those of each index; the first program."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    chosen = tl.load(index + at, mask=at < n, other=0)
    v = tl.load(x + at, mask=at < n, other=0)
    tl.atomic_max(largest + chosen, v, mask=at < n)
    tl.atomic_min(smallest + chosen, v, mask=at < n)
    tl.atomic_xchg(last + chosen, v, mask=at < n)
    before = tl.atomic_add(total + chosen, v, mask=at < n)
    tl.store(x + at, before, mask=at < n)
    tl.atomic_cas(winner, -1, tl.program_id(0))


# --- loops ------------------------------------------------------------------------------------------------


@triton.jit
def fibonacci(out, swapped, n):
    """The first numbers of Fibonacci, and two numbers that change places in each iteration."""
    a, b, p, q = 0, 1, 5, 7
    for turn in range(n):
        tl.store(out + turn, a)
        tl.store(swapped + turn, p)
        a, b = b, a + b
        p, q = q, p


@triton.jit
def windows(x, out, turns, BLOCK: tl.constexpr):
    """The sum over iterations of x below three times the iteration, -1 elsewhere."""
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for turn in range(turns):
        total += tl.where(at < turn * 3, v, -1.0)
    tl.store(out + at, total)


@triton.jit
def unsigned(x, below, quotients, shifted, numbers, n, BLOCK: tl.constexpr):
    """Bytes without a sign: comparisons, quotients, shifts, as floats."""
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=0)
    tl.store(below + at, (v < 200).to(tl.int8), mask=at < n)
    tl.store(quotients + at, v // 7, mask=at < n)
    tl.store(shifted + at, v >> 2, mask=at < n)
    tl.store(numbers + at, v.to(tl.float32), mask=at < n)


@triton.jit
def branches(x, index, out, BLOCK: tl.constexpr):
    """Elements by their indices, doubled before by programs with an even number."""
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at)
    chosen = tl.load(index + at)
    if tl.program_id(0) % 2 == 0:
        chosen = chosen // 2
        v = v + v
    else:
        v = v - 1
    tl.store(out + tl.program_id(0) * BLOCK + chosen, v)


@triton.jit
def generator(x, out, turns, BLOCK: tl.constexpr):
    """A sequence of random bytes for each number; each iteration starts from the bytes of the one before."""
    at = tl.arange(0, BLOCK)
    state = tl.load(x + at)
    sums = tl.zeros([BLOCK], dtype=tl.uint8)
    for _ in range(turns):
        sums += state >> 3
        state = state * 77 + (state // 5)
    tl.store(out + at, sums)
    tl.store(x + at, state)


@triton.jit
def early(x, out, n, BLOCK: tl.constexpr):
    """x, doubled if the first number of its block is above 0; programs beyond the end return at once."""
    first = tl.program_id(0) * BLOCK
    if first >= n:
        return
    at = first + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    if tl.load(x + first) > 0.0:
        tl.store(out + at, v + v, mask=at < n)
        return
    tl.store(out + at, v, mask=at < n)


@triton.jit
def ahead(x, y, out, sums, n, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    """Products that a loop carries to its next iteration, and a product that it uses twice."""
    row, inner, column = tl.arange(0, M), tl.arange(0, K), tl.arange(0, N)
    at = row[:, None] * N + column[None, :]
    a = tl.load(x + row[:, None] * K + inner[None, :])
    before = tl.zeros([M, N], tl.float32)
    total = tl.zeros([M, M], tl.float32)
    for turn in range(n):
        b = tl.load(y + turn * K * N + inner[:, None] * N + column[None, :])
        product = tl.dot(a, b)
        tl.store(out + turn * M * N + at, before)
        low = tl.where(column[None, :] < N - 28, product, -1.0)
        total += tl.dot(low.to(x.dtype.element_ty), tl.trans(product).to(x.dtype.element_ty))
        before = product
    tl.store(out + n * M * N + at, before)
    tl.store(sums + row[:, None] * M + row[None, :], total)


@triton.jit
def product_list(
    a, b, c, m, n, k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """Products of pairs of matrices in FP16 whose addresses are in lists; each program has one pair."""
    pair = tl.program_id(0)
    left = tl.load(a + pair).to(tl.pointer_type(tl.float16))
    right = tl.load(b + pair).to(tl.pointer_type(tl.float16))
    out = tl.load(c + pair).to(tl.pointer_type(tl.float16))
    rows = tl.load(m + pair)
    for down in range(0, rows, BLOCK_M):
        row = down + tl.arange(0, BLOCK_M)
        for across in range(0, n, BLOCK_N):
            column = across + tl.arange(0, BLOCK_N)
            total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
            for first in range(0, k, BLOCK_K):
                inner = first + tl.arange(0, BLOCK_K)
                x = tl.load(
                    left + row[:, None] * k + inner[None, :],
                    mask=(row[:, None] < rows) & (inner[None, :] < k), other=0.0,
                )  # fmt: skip
                y = tl.load(
                    right + inner[:, None] * n + column[None, :],
                    mask=(inner[:, None] < k) & (column[None, :] < n), other=0.0,
                )  # fmt: skip
                total = tl.dot(x, y, total)
            inside = (row[:, None] < rows) & (column[None, :] < n)
            tl.store(out + row[:, None] * n + column[None, :], total.to(tl.float16), mask=inside)


@triton.jit
def messages(x, n, BLOCK: tl.constexpr):
    """Programs print numbers of each kind, and assert that their own number is below 3."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=0.0)
    tl.device_print("begin")
    tl.device_print("v", v)
    tl.device_print("total, n", tl.sum(v, 0), n)
    tl.device_print("at", at[None, :], hex=True)
    tl.device_print("small", (at - 4).to(tl.int8), (at - 4).to(tl.uint8), at < 3)
    tl.device_assert(v < 3.0, "too large")


_FLOATS = ("fp16", "bf16", "fp32")


def _types(arguments, of):
    """The types of arguments that are written NAME (an array), NAME:TYPE or NAME:i32."""
    found = {}
    for argument in arguments.split():
        name, _, kind = argument.partition(":")
        found[name] = kind or f"*{of}"
    return found


TEXTS = {
    f"{function.fn.__name__}{'' if of is None else '_' + of}": (function, _types(arguments, of), constants)
    for function, arguments, constants, formats in (
        (silu_and_mul, "x out columns:i32", {"BLOCK": 256}, _FLOATS),
        (masked_fill, "x where:*i8 out n:i32 value:fp32", {"BLOCK": 256}, _FLOATS),
        (dropout, "x out n:i32 p:fp32 seed:i32", {"BLOCK": 256}, _FLOATS),
        (
            lower_triangle, "x out rows:i32 columns:i32 diagonal:i32", {"ROWS": 16, "COLUMNS": 64}, _FLOATS,
        ),
        (flip, "x out n:i32", {"BLOCK": 256}, _FLOATS),
        (rotary, "x position:*i64 cosines sines out heads:i32", {"HALF": 32}, _FLOATS),
        (log_softmax, "x out columns:i32", {"BLOCK": 512}, _FLOATS),
        (cross_entropy, "x label:*i64 loss:*fp32 columns:i32 ignored:i32", {"BLOCK": 512}, _FLOATS),
        (rms_norm, "x scale out columns:i32 eps:fp32", {"BLOCK": 512}, _FLOATS),
        (
            layer_norm_backward,
            "x scale dy mean:*fp32 rstd:*fp32 dx dscale:*fp32 dshift:*fp32 columns:i32",
            {"BLOCK": 256}, _FLOATS,
        ),
        (argmax, "x largest:*i32 smallest:*i32 columns:i32", {"BLOCK": 256}, _FLOATS),
        (topk, "x values places:*i32 columns:i32", {"K": 3, "BLOCK": 128}, _FLOATS),
        (cumsum, "x out columns:i32", {"BLOCK": 128}, _FLOATS),
        (embedding, "ids:*i64 table out n:i32 columns:i32", {"ROWS": 8, "BLOCK": 64}, _FLOATS),
        (
            gather, "x index:*i64 out rows:i32 columns:i32 width:i32", {"ROWS": 4, "BLOCK": 32}, _FLOATS,
        ),
        (
            scatter, "x index:*i64 out rows:i32 columns:i32 width:i32", {"ROWS": 4, "BLOCK": 32}, _FLOATS,
        ),
        (
            index_select, "x index:*i32 out rows:i32 columns:i32 count:i32",
            {"ROWS": 4, "BLOCK": 32}, _FLOATS,
        ),
        (cache_write, "keys slots:*i64 cache width:i32", {"BLOCK": 128}, _FLOATS),
        (
            nearest, "x out height:i32 width:i32 new_height:i32 new_width:i32", {"BLOCK": 128}, _FLOATS,
        ),
        (nonzero, "x places:*i32 count:*i32 n:i32", {"BLOCK": 128}, _FLOATS),
        (search, "x edges out:*i32 n:i32 count:i32", {"BLOCK": 128}, _FLOATS),
        (histogram, "x out:*i32 n:i32 bins:i32 low:fp32 width:fp32", {"BLOCK": 128}, _FLOATS),
        (
            grouped_gemm, "a b c sizes:*i32 starts:*i32 groups:i32 n:i32 k:i32",
            {"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 32}, _FLOATS,
        ),
        (
            addmm, "bias a b c m:i32 n:i32 k:i32", {"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 32}, _FLOATS,
        ),
        (
            routed, "a ids:*i32 b c m:i32 n:i32 k:i32",
            {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 32}, _FLOATS,
        ),
        (integers, "x y out n:i32", {"BLOCK": 128}, ("i8", "i16", "i32", "i64")),
        (
            rearrange, "x index:*i32 pairs sums both picked", {"N": 64}, ("fp16", "fp32", "i32"),
        ),
        (rounded, "x down up error n:i32", {"BLOCK": 128}, _FLOATS),
        (running, "x sums products largest", {"ROWS": 8, "COLUMNS": 32}, ("fp32", "i32")),
        (sort, "x out columns:i32", {"BLOCK": 64}, ("fp16", "fp32")),
        (count, "x:*i32 out:*i32 n:i32", {"BLOCK": 256, "BINS": 16}, (None,)),
        (
            atomics,
            "x:*i32 index:*i32 largest:*i32 smallest:*i32 last:*i32 total:*i32 winner:*i32 n:i32",
            {"BLOCK": 64}, (None,),
        ),
        (generator, "x:*u8 out:*u8 turns:i32", {"BLOCK": 64}, (None,)),
        (early, "x out n:i32", {"BLOCK": 64}, ("fp16", "fp32")),
        (fibonacci, "out:*i32 swapped:*i32 n:i32", {}, (None,)),
        (windows, "x:*fp32 out:*fp32 turns:i32", {"BLOCK": 64}, (None,)),
        (
            unsigned, "x:*u8 below:*i8 quotients:*u8 shifted:*u8 numbers:*fp32 n:i32",
            {"BLOCK": 256}, (None,),
        ),
        (branches, "x:*fp32 index:*i32 out:*fp32", {"BLOCK": 64}, (None,)),
        (random_integers, "out:*i32 n:i32 seed:i64", {"BLOCK": 128}, (None,)),
        (collatz, "x:*i32 steps:*i32", {}, (None,)),
        (messages, "x n:i32", {"BLOCK": 8}, _FLOATS),
        (ahead, "x y out:*fp32 sums:*fp32 n:i32", {"M": 32, "K": 16, "N": 128}, ("fp16", "bf16")),
        (
            product_list, "a:*i64 b:*i64 c:*i64 m:*i32 n:i32 k:i32",
            {"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 32}, (None,),
        ),
    )
    for of in formats
}  # fmt: skip
"""By the name of the text: the kernel, the types of its arguments and its constants."""


if __name__ == "__main__":
    write(TEXTS, Path(__file__).parent / "operators")
