"""Products of any shape, block by block: small, narrow, or uneven ones.

The result is cut into blocks of rows and of columns. Narrower blocks at the end have separate code, because
engines must know a width when compiling. A long inner dimension is cut too and accumulated in FP32. Constant
right operands are laid out for the engine when compiling.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np

from compiler.codegen.expr import Value, minimum
from compiler.codegen.kernel import Argument, Kernel
from compiler.codegen.slices.aligned import (
    Aligned,
    Grid,
    Place,
    aligned_bytes,
    load_aligned,
    slice_buffer,
    store_aligned,
)
from compiler.codegen.slices.precision import constant_parts, engine_format, multiply_parts, part_count, split
from compiler.codegen.slices.tensors import BLOCK, DdrTensor, Stretch, stretches
from compiler.codegen.slices.vector import convert
from compiler.codegen.spm import RESERVED_BYTES
from compiler.evaluation.sizes import here
from compiler.graph import Array
from tx8isa.numbers.division import ceil_div, round_up
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import Layout, batch_bytes
from tx8isa.numbers.limits import LARGEST_EXTENT
from tx8isa.numbers.packing import pack

from .product import ConstantPlanes, Matrix, PlaneBox, Product, constant_planes, in_planes
from .result import ResultBlock, finish, sums_format

Prepared = TypeVar("Prepared")

MOST_COLUMNS, MOST_ROWS = 256, 512
"""Largest extents of a block; its part of the inner dimension may be the rows of a packed shape."""
_FEWEST_ROWS = 16
_FINE = 8


@dataclass(frozen=True)
class Blocks:
    """Sizes of the slices: rows and columns of the result, and elements of the inner dimension."""

    m: int
    n: int
    k: int


def _halved(extent: int) -> int:
    """About half of a size, rounded to whole planes if it has several."""
    return round_up(ceil_div(extent, 2), BLOCK if extent > BLOCK else _FINE)


def _choose(kernel: Kernel, product: Product, columns: int) -> Blocks:
    """The largest blocks that fit, but at least as many as there are tiles."""
    rows, columns = here(product.m), here(columns)
    m, n, inner = min(rows, MOST_ROWS), min(columns, MOST_COLUMNS), min(here(product.k), LARGEST_EXTENT)

    def items() -> int:
        return here(product.batches) * ceil_div(rows, m) * ceil_div(columns, n)

    while items() < kernel.target.tiles and (m > _FEWEST_ROWS or n > BLOCK):
        if m > _FEWEST_ROWS and (m >= n or n <= BLOCK):
            m = ceil_div(m, 2)
        else:
            n = _halved(n)
    while step_bytes(product, m, n, inner) > kernel.budget and (m > 1 or n > _FINE or inner > _FINE):
        if inner > _FINE and (inner * (m + n) > 4 * m * n or (m == 1 and n <= _FINE)):
            inner = _halved(inner)
        elif m > 1 and (m >= n or n <= _FINE):
            m = ceil_div(m, 2)
        else:
            n = _halved(n)
    return Blocks(m, n, inner)


def step_bytes(product: Product, m: int, n: int, inner: int) -> int:
    """Scratchpad bytes of one step: operands (with the parts of FP32), result, conversions."""
    fmt = product.compute
    copies = 3 if part_count(fmt) > 1 else 2
    operands = aligned_bytes(m, inner, fmt) + aligned_bytes(inner, n, fmt)
    for matrix, x in ((product.left, m), (product.right, n)):
        if matrix.tensor.fmt is not fmt:
            operands += aligned_bytes(x, inner, matrix.tensor.fmt)
    return (
        copies * operands
        + 2 * aligned_bytes(m, n, Format.FP32)
        + 2 * aligned_bytes(m, n, fmt)
        + RESERVED_BYTES
    )


def multiply_blocks(kernel: Kernel, product: Product, start: int = 0) -> None:
    """The columns of the result from ``start`` on, one stretch of columns after the other."""
    blocks = _choose(kernel, product, product.n - start)
    rows = (
        [Stretch(0, blocks.m, ceil_div(product.m, blocks.m))]
        if product.left.along_k
        else stretches(product.m, blocks.m)
    )
    dealt = 0
    for part in stretches(product.n - start, blocks.n):
        columns = Stretch(part.start + start, part.size, part.count)
        right = right_operand(kernel, product, columns, stretches(product.k, blocks.k))
        for stretch in rows:
            _stretch(kernel, product, blocks, stretch, columns, right, dealt)
            dealt += columns.count * product.batches * stretch.count


@contextmanager
def _grouped_items(
    kernel: Kernel, groups: int, size: int, first: int, prepare: Callable[[Value], Prepared]
) -> Iterator[tuple[Value, Value, Prepared]]:
    """The work items of this tile among ``groups`` groups of ``size``: group, number in the group, prepared
    data.

    ``prepare`` loads data that all items of a group need. Each tile prepares a group once if the group has
    items for all tiles; otherwise groups are distributed as well, and prepared for every item.
    """
    if here(size) >= kernel.target.tiles:
        with kernel.loop(groups) as group:
            prepared = prepare(group)
            with kernel.items(size, first) as item:
                yield group, item, prepared
        return
    with kernel.items(groups * size, first) as item:
        group = kernel.let(item // size)
        yield group, kernel.let(item % size), prepare(group)


def _stretch(
    kernel: Kernel,
    product: Product,
    blocks: Blocks,
    rows: Stretch,
    columns: Stretch,
    right: Right,
    dealt: int,
) -> None:
    """Compute the blocks of one width; tile ``dealt`` computes the first one."""
    shared = product.batches == 1 and product.k <= blocks.k

    def prepare(column: Value) -> list[Value] | None:
        return right(column, Stretch(0, product.k, 1), 0, 0) if shared else None

    with _grouped_items(kernel, columns.count, product.batches * rows.count, dealt, prepare) as (
        column,
        rest,
        loaded,
    ):
        batch = kernel.let(rest // rows.count)
        begin = kernel.let(rest % rows.count * rows.size + rows.start)
        count = kernel.let(minimum(rows.size, product.m - begin))
        block = _Block(Grid(count, 1, rows.size), begin, batch, column, columns.size, loaded)
        sums = _product(kernel, product, block, blocks, right)
        first = kernel.let(column * columns.size + columns.start)
        result = finish(
            product,
            ResultBlock(kernel, sums, Place(0, kernel.let(product.row(batch, begin)), first), product.n),
        )
        store_aligned(kernel, result, product.out, product.place(batch, begin, first), product.n)


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
"""Loads a block of the right operand: block of columns, stretch of k, block of k, batch; returns an address
for each part."""


def _product(kernel: Kernel, product: Product, block: _Block, blocks: Blocks, right: Right) -> Aligned:
    """Compute one block of the product: in FP32, or rounded if no step follows and k is in one piece."""
    single = product.k <= blocks.k
    fmt = engine_format(product.compute)
    sums = slice_buffer(kernel, "product", sums_format(product, single), block.grid, block.width)
    if not single:
        kernel.emit("td.memset.fp32", dst=sums.base, value=0.0, n=sums.elements)
    sizes: dict[str, Argument] = {
        "m": block.grid.height,
        "n": block.width,
        "lt": int(not product.left.along_k),
        "rt": int(product.packed or not product.right.along_k),
        "out_format": sums.fmt.token,
    }
    for stretch in stretches(product.k, blocks.k):
        with kernel.loop(stretch.count) as step:
            k0 = step * stretch.size + stretch.start
            x = OperandRange(block.batch, block.begin, block.grid.height, block.grid.room)
            left = load_operand(kernel, "a", product, product.left, x, k0, stretch.size)
            b = block.loaded or right(block.column, stretch, step, block.batch)
            multiply_parts(
                kernel,
                f"ne.gemm.{fmt.token}",
                ("a", left),
                ("b", b),
                sums.base,
                not single,
                {**sizes, "k": stretch.size},
            )
    return sums


@dataclass(frozen=True)
class OperandRange:
    """Rows or columns of a batch: ``count`` of them from ``first`` on, at most ``room``."""

    batch: Value
    first: Value
    count: Value
    room: int


def load_operand(
    kernel: Kernel, name: str, product: Product, matrix: Matrix, x: OperandRange, k0: Value, inner: int
) -> list[Value]:
    """A slice of an operand in the order of the matrix engine: an address for each part."""
    first = matrix.first(product.batch(x.batch), x.first, k0)
    grid, lanes = (Grid(x.count, 1, x.room), inner) if matrix.along_k else (Grid(inner, 1, inner), x.room)
    return as_operand(
        kernel, name, product, load_aligned(kernel, name, matrix.tensor, first, matrix.pitch, grid, lanes)
    )


def as_operand(kernel: Kernel, name: str, product: Product, loaded: Aligned) -> list[Value]:
    """A slice of an operand in the format of the product: an address for each part."""
    if loaded.fmt is not product.compute:
        rounded = slice_buffer(kernel, f"{name}_rounded", product.compute, loaded.grid, loaded.channels)
        convert(kernel, rounded.base, loaded.base, loaded.elements, loaded.fmt, product.compute)
        loaded = rounded
    return [part.base for part in split(kernel, loaded)]


def right_operand(kernel: Kernel, product: Product, columns: Stretch, inner: list[Stretch]) -> Right:
    """Return the loader of blocks of the right operand, with these columns and stretches of k."""
    if in_planes(product, columns):
        return _plane_blocks(kernel, constant_planes(kernel, product), columns)
    if product.packed:
        return _constant_blocks(kernel, product, columns, inner)

    def load(column: Value, stretch: Stretch, step: Value, batch: Value) -> list[Value]:
        n0 = column * columns.size + columns.start
        k0 = step * stretch.size + stretch.start
        x = OperandRange(batch, n0, columns.size, columns.size)
        return load_operand(kernel, "b", product, product.right, x, k0, stretch.size)

    return load


def _plane_blocks(kernel: Kernel, planes: ConstantPlanes, columns: Stretch) -> Right:
    """Blocks of a constant that is in planes."""

    def load(column: Value, stretch: Stretch, step: Value, batch: Value) -> list[Value]:
        row = step * stretch.size + stretch.start
        box = PlaneBox(column * columns.size + columns.start, columns.size, row, stretch.size)
        fmt = planes.tensors[0].fmt
        size = batch_bytes(stretch.size, columns.size, fmt.bits)
        addresses = [kernel.buffer("b", size) for _ in planes.tensors]
        planes.load(kernel, addresses, box)
        return addresses

    return load


def _constant_blocks(kernel: Kernel, product: Product, columns: Stretch, inner: list[Stretch]) -> Right:
    """Blocks of a constant, each one aligned matrix [k, n]; FP32 in two parts."""
    fmt = engine_format(product.compute)
    images: dict[int, tuple[list[DdrTensor], int]] = {}

    def image(stretch: Stretch, part: int) -> Array:
        matrix = product.constant()
        blocks = []
        for column, step in itertools.product(range(columns.count), range(stretch.count)):
            n0, k0 = columns.start + column * columns.size, stretch.start + step * stretch.size
            piece = matrix[k0 : k0 + stretch.size, n0 : n0 + columns.size]
            data = constant_parts(piece, product.compute)[part]
            blocks.append(pack(np.ascontiguousarray(data), fmt, Layout.CX).view(data.dtype))
        return np.concatenate(blocks)

    for stretch in inner:
        size = batch_bytes(stretch.size, columns.size, fmt.bits) * 8 // fmt.bits
        tensors = []
        for part in range(part_count(product.compute)):
            make = partial(image, stretch, part)
            symbol = kernel.lazy_constant("weights", fmt, size * columns.count * stretch.count, make).symbol
            tensors.append(DdrTensor(symbol, fmt, (size,)))
        images[stretch.start] = tensors, size

    def load(column: Value, stretch: Stretch, step: Value, batch: Value) -> list[Value]:
        tensors, size = images[stretch.start]
        first = (column * stretch.count + step) * size
        addresses: list[Value] = []
        for tensor in tensors:
            addresses.append(kernel.buffer("b", size * tensor.bytes_each))
            kernel.emit(f"rdma.{tensor.fmt.token}", dst=addresses[-1], src=tensor.at(first), n=size)
        return addresses

    return load
