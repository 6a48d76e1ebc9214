"""MatMul and Gemm on the matrix engine.

The result is cut into blocks of rows (any number in the last) and of columns (the last one narrower: code
of its own). A long inner dimension is cut too and accumulated in FP32. Constant right operands are laid
out for the engine when compiling.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from compiler.codegen.aligned import (
    Aligned,
    ChannelVector,
    Grid,
    aligned_bytes,
    channel_vector,
    load_aligned,
    load_vector,
    narrowed_slice,
    per_channel,
    slice_buffer,
    store_aligned,
    widened_slice,
)
from compiler.codegen.expr import Value, add, ceil_div, minimum, multiply, round_up
from compiler.codegen.kernel import Argument, Kernel
from compiler.codegen.precision import (
    constant_parts,
    engine_format,
    multiply_parts,
    part_count,
    split,
)
from compiler.codegen.tensors import (
    DdrTensor,
    Space,
    Stretch,
    View,
    broadcast_view,
    collapse,
    copy_views,
    stretches,
    unravel,
    whole,
)
from compiler.codegen.vector import Vector
from compiler.graph import FLOATS, Array
from compiler.lowering import core
from compiler.lowering.movement import permute
from compiler.lowering.record import Work, lowering
from tx8isa.formats import Format
from tx8isa.layouts import Layout
from tx8isa.packing import pack

_STEP = 64
_MOST_COLUMNS, _MOST_ROWS, _MOST_INNER = 256, 512, 4096
_FEWEST_ROWS = 16
_FINE = 8


@dataclass(frozen=True)
class Product:
    """C[b] = A[b] x B[b], row-major in DDR; ``batch`` walks the matrices of A and B.

    ``transposed``: B is stored [n, k].
    """

    a: DdrTensor
    b: DdrTensor
    out: DdrTensor
    m: int
    k: int
    n: int
    batch: Space
    transposed: bool

    @property
    def batches(self) -> int:
        return math.prod(self.batch.sizes)

    def origin(self, operand: int, batch: Value) -> Value:
        """First element of a batch's matrix; operand 0 is A, 1 is B."""
        element: Value = 0
        index = unravel(batch, self.batch.sizes)
        for i, step in zip(index, self.batch.views[operand].strides, strict=True):
            element = add(element, multiply(i, step))
        return element


@dataclass(frozen=True)
class Epilogue:
    """What is done to the FP32 product: times ``alpha``, plus a vector or a matrix times ``beta``."""

    alpha: float = 1.0
    beta: float = 1.0
    vector: ChannelVector | None = None
    matrix: DdrTensor | None = None

    @property
    def empty(self) -> bool:
        return self.alpha == 1.0 and self.vector is None and self.matrix is None


@lowering("MatMul", types=(*FLOATS, "int32", "int64"))
def matmul(k: Kernel, work: Work) -> None:
    """Batches broadcast; a vector is a row on the left and a column on the right."""
    a, b = work.input(0), work.input(1)
    if not work.output.fmt.is_float:
        core.matmul(k, work)
        return
    transposed = len(b.shape) == 1
    left = a.viewed(1, *a.shape) if len(a.shape) == 1 else a
    right = b.viewed(1, *b.shape) if transposed else b
    m, inner = left.shape[-2:]
    n = 1 if transposed else right.shape[-1]
    if math.prod(right.shape[:-2]) == 1:
        left = left.viewed(math.prod(left.shape[:-1]), inner)
        m, right = left.shape[0], right.viewed(*right.shape[-2:])
    shape = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    views = [_batch_view(left, shape), _batch_view(right, shape)]
    space = collapse(shape, views) if shape else Space((1,), (View(left, (0,)), View(right, (0,))))
    _multiply(k, Product(left, right, work.output, m, inner, n, space, transposed), Epilogue())


def _batch_view(tensor: DdrTensor, shape: tuple[int, ...]) -> View:
    """The first elements of a tensor's matrices, over the batches of the result."""
    matrix = tensor.shape[-2] * tensor.shape[-1]
    view = broadcast_view(replace(tensor, shape=tensor.shape[:-2]), shape)
    return View(tensor, tuple(step * matrix for step in view.strides))


@lowering("Gemm")
def gemm(k: Kernel, work: Work) -> None:
    """alpha A' B' + beta C; a transposed left operand is brought to [M, K] in DDR first."""
    call = work.spec
    a, b = work.input(0), work.input(1)
    if call.integer("transA"):
        a = _transposed(k, a)
    transposed = bool(call.integer("transB"))
    (m, inner), n = a.shape, b.shape[0] if transposed else b.shape[1]
    beta = call.number("beta")
    epilogue = Epilogue(call.number("alpha"), beta)
    if work.has(2) and beta != 0.0:
        epilogue = _with_addend(k, epilogue, work.input(2), m, n)
    batch = Space((1,), (View(a, (0,)), View(b, (0,))))
    _multiply(k, Product(a, b, work.output, m, inner, n, batch, transposed), epilogue)


def _transposed(k: Kernel, a: DdrTensor) -> DdrTensor:
    target = DdrTensor(k.scratch("a", a.size * a.bytes_each).symbol, a.fmt, (a.shape[1], a.shape[0]))
    permute(k, a, target, (1, 0))
    k.synchronize()
    return target


def _with_addend(k: Kernel, epilogue: Epilogue, addend: DdrTensor, m: int, n: int) -> Epilogue:
    """A vector per column stays one; any other shape is spread to the whole matrix."""
    if addend.value is not None:
        rows = np.broadcast_to(np.asarray(addend.value, np.float64), (m, n))
        if bool((rows == rows[:1]).all()):
            vector = replace(addend, value=rows[0], shape=(n,))
            return replace(epilogue, beta=1.0, vector=channel_vector(k, "bias_data", vector, epilogue.beta))
    elif addend.size == n and addend.shape[-1] == n and epilogue.beta == 1.0:
        return replace(epilogue, vector=channel_vector(k, "bias_data", addend.viewed(n)))
    matrix = addend
    if addend.shape != (m, n):
        symbol = k.scratch("addend", m * n * addend.bytes_each).symbol
        matrix = DdrTensor(symbol, addend.fmt, (m, n))
        copy_views(k, (m, n), broadcast_view(addend, (m, n)), whole(matrix))
        k.synchronize()
    return replace(epilogue, matrix=matrix)


@dataclass(frozen=True)
class Blocks:
    """Sizes of the slices: rows of A, columns of B, and how much of the inner dimension."""

    m: int
    n: int
    k: int


def _halved(extent: int) -> int:
    """About half, in whole planes as long as there are some."""
    return round_up(ceil_div(extent, 2), _STEP if extent > _STEP else _FINE)


def _choose(k: Kernel, p: Product) -> Blocks:
    """Large blocks that fit, but as many as there are tiles."""
    m, n, inner = min(p.m, _MOST_ROWS), min(p.n, _MOST_COLUMNS), min(p.k, _MOST_INNER)

    def items() -> int:
        return p.batches * ceil_div(p.m, m) * ceil_div(p.n, n)

    while items() < k.target.tiles and (m > _FEWEST_ROWS or n > _STEP):
        if m > _FEWEST_ROWS and (m >= n or n <= _STEP):
            m = ceil_div(m, 2)
        else:
            n = _halved(n)
    while _bytes(p, m, n, inner) > k.budget and (m > 1 or n > _FINE or inner > _FINE):
        if inner > _FINE and (inner * (m + n) > 4 * m * n or (m == 1 and n <= _FINE)):
            inner = _halved(inner)
        elif m > 1 and (m >= n or n <= _FINE):
            m = ceil_div(m, 2)
        else:
            n = _halved(n)
    return Blocks(m, n, inner)


def _bytes(p: Product, m: int, n: int, inner: int) -> int:
    """Scratchpad bytes of one step: operands (of FP32 the parts too), result, conversions."""
    fmt = p.out.fmt
    copies = 3 if part_count(fmt) > 1 else 2
    operands = aligned_bytes(m, inner, fmt) + aligned_bytes(inner, n, fmt)
    return copies * operands + 2 * aligned_bytes(m, n, Format.FP32) + 2 * aligned_bytes(m, n, fmt) + 8192


def _multiply(k: Kernel, p: Product, epilogue: Epilogue) -> None:
    """All blocks of the result, one stretch of columns after the other."""
    blocks = _choose(k, p)
    rows = ceil_div(p.m, blocks.m)
    dealt = 0
    for columns in stretches(p.n, blocks.n):
        right = _right_operand(k, p, columns, blocks.k)
        shared = p.batches == 1 and p.k <= blocks.k

        def prepare(column: Value, right: Right = right, shared: bool = shared) -> list[Value] | None:
            return right(column, Stretch(0, p.k, 1), 0, 0) if shared else None

        with k.grouped_items(columns.count, p.batches * rows, dealt, prepare) as (column, rest, loaded):
            batch, row = k.let(rest // rows), rest % rows
            begin = k.let(multiply(row, blocks.m))
            count = k.let(minimum(blocks.m, p.m - begin))
            block = _Block(Grid(count, 1, blocks.m), begin, batch, column, columns.size, loaded)
            result = _product(k, p, block, blocks, right, epilogue.empty)
            first = add(multiply(column, columns.size), columns.start)
            place = add(multiply(add(multiply(batch, p.m), begin), p.n), first)
            _finish(k, p, epilogue, result, first, place)
        dealt += columns.count * p.batches * rows


@dataclass(frozen=True)
class _Block:
    """A block of the result: its rows from ``begin`` on, its block of columns of ``width``.

    ``loaded`` is the right operand, if blocks share it.
    """

    grid: Grid
    begin: Value
    batch: Value
    column: Value
    width: int
    loaded: list[Value] | None


Right = Callable[[Value, Stretch, Value, Value], list[Value]]
"""Loads a block of B: column block, stretch of k, block of k, batch; one address per part."""


def _product(k: Kernel, p: Product, block: _Block, blocks: Blocks, right: Right, direct: bool) -> Aligned:
    """One block of the product; in FP32, or already rounded when nothing follows and k is in one piece."""
    inner = stretches(p.k, blocks.k)
    single = p.k <= blocks.k
    fmt = engine_format(p.out.fmt)
    out_format = fmt if direct and single and part_count(p.out.fmt) == 1 else Format.FP32
    result = slice_buffer(k, "product", out_format, block.grid, block.width)
    if not single:
        k.emit("td.memset.fp32", dst=result.base, value=0.0, n=result.elements)
    origin = add(p.origin(0, block.batch), multiply(block.begin, p.k))
    sizes: dict[str, Argument] = {
        "m": block.grid.height, "n": block.width,
        "rt": 0 if p.transposed and not _is_packed(p) else 1, "out_format": out_format.token,
    }  # fmt: skip
    for stretch in inner:
        with k.loop(stretch.count) as step:
            first = add(add(multiply(step, stretch.size), stretch.start), origin)
            left = split(k, load_aligned(k, "a", p.a, first, p.k, block.grid, stretch.size))
            b = block.loaded or right(block.column, stretch, step, block.batch)
            multiply_parts(
                k, f"ne.gemm.{fmt.token}", ("a", [part.base for part in left]), ("b", b), result.base,
                not single, {**sizes, "k": stretch.size},
            )  # fmt: skip
    return result


def _is_packed(p: Product) -> bool:
    """Whether B is laid out for the engine when compiling, which makes it [k, n]."""
    return p.b.value is not None and p.batches == 1


def _right_operand(k: Kernel, p: Product, columns: Stretch, inner: int) -> Right:
    """How blocks of B get into the scratchpad."""
    if _is_packed(p):
        return _constant_blocks(k, p, columns, inner)

    def load(column: Value, stretch: Stretch, step: Value, batch: Value) -> list[Value]:
        n0 = add(multiply(column, columns.size), columns.start)
        k0 = add(multiply(step, stretch.size), stretch.start)
        row, lane, rows, lanes_ = (n0, k0, columns.size, stretch.size) if p.transposed else (
            k0, n0, stretch.size, columns.size)  # fmt: skip
        pitch = p.k if p.transposed else p.n
        first = add(p.origin(1, batch), add(multiply(row, pitch), lane))
        block = load_aligned(k, "b", p.b, first, pitch, Grid(rows, 1, rows), lanes_)
        return [part.base for part in split(k, block)]

    return load


def _constant_blocks(k: Kernel, p: Product, columns: Stretch, inner: int) -> Right:
    """Blocks of a constant B, each one aligned matrix [k, n]; FP32 in two parts."""
    assert p.b.value is not None
    matrix = np.asarray(p.b.value).T if p.transposed else np.asarray(p.b.value)
    fmt = engine_format(p.out.fmt)
    images: dict[int, tuple[list[DdrTensor], int]] = {}
    for stretch in stretches(p.k, inner):
        parts: list[list[Array]] = [[] for _ in range(part_count(p.out.fmt))]
        for column in range(columns.count):
            for step in range(stretch.count):
                n0, k0 = columns.start + column * columns.size, stretch.start + step * stretch.size
                piece = matrix[k0 : k0 + stretch.size, n0 : n0 + columns.size]
                for images_of_part, data in zip(parts, constant_parts(piece, p.out.fmt), strict=True):
                    packed = pack(np.ascontiguousarray(data), fmt, Layout.CX)
                    images_of_part.append(packed.view(data.dtype))
        size = parts[0][0].size
        symbols = [k.constant("weights", fmt, np.concatenate(part)).symbol for part in parts]
        images[stretch.start] = [DdrTensor(symbol, fmt, (size,)) for symbol in symbols], size

    def load(column: Value, stretch: Stretch, step: Value, batch: Value) -> list[Value]:
        tensors, size = images[stretch.start]
        first = multiply(add(multiply(column, stretch.count), step), size)
        addresses: list[Value] = []
        for tensor in tensors:
            addresses.append(k.buffer("b", size * tensor.bytes_each))
            k.emit(f"rdma.{fmt.token}", dst=addresses[-1], src=tensor.at(first), n=size)
        return addresses

    return load


def _finish(k: Kernel, p: Product, epilogue: Epilogue, result: Aligned, column: Value, place: Value) -> None:
    """alpha and addend in FP32, one rounding, store."""
    v = Vector(k, Format.FP32, result.elements)
    if epilogue.alpha != 1.0:
        v.vs("mul", result.base, result.base, epilogue.alpha)
    if epilogue.vector is not None:
        bias = load_vector(k, "bias", epilogue.vector, column, result.channels)
        per_channel(k, "add", result, bias)
    if epilogue.matrix is not None:
        loaded = load_aligned(k, "c", epilogue.matrix, place, p.n, result.grid, result.channels)
        addend = widened_slice(k, loaded)
        if epilogue.beta != 1.0:
            v.vs("mul", addend.base, addend.base, epilogue.beta)
        v.vv("add", result.base, result.base, addend.base)
    if result.fmt is Format.FP32:
        result = narrowed_slice(k, result, p.out.fmt)
    store_aligned(k, result, p.out, place, p.n)
