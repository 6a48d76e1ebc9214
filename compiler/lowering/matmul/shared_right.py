"""Products whose right operand fits every scratchpad: all tiles load it together, and each takes rows.

The right operand is one run of DDR, of which every tile loads a part and sends it to all as it is; each moves
it to planes by itself. Rows of the left operand and of the result are whole, so that neither has short runs,
and no size has to come out even.
"""

from __future__ import annotations

from dataclasses import dataclass

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
from compiler.codegen.slices.long_runs import into_planes
from compiler.codegen.slices.precision import engine_format, multiply_parts, part_count
from compiler.codegen.slices.tensors import BLOCK
from compiler.codegen.teams.gather import Gather, enter, meet_all
from compiler.codegen.teams.team import Team
from compiler.lowering.record import Cut
from tx8isa.numbers.division import ceil_div
from tx8isa.numbers.formats import Format
from tx8isa.numbers.limits import LARGEST_CHANNELS, LARGEST_EXTENT, MOST_MOVES

from .blocks import OperandRange, as_operand, load_operand
from .product import Product
from .result import ResultBlock, finish, sums_format

WAY = "rows"
"""The name of this way in cuts."""
_TURNS = (1, 2, 3, 4, 6, 8)
"""Blocks of rows of a tile that are proposed, as far as they fit."""
_PROPOSED = 2
_SPARE = 12 << 10
"""Scratchpad bytes for vectors and what else an epilogue needs besides blocks."""


@dataclass(frozen=True)
class RowBlocks:
    """Blocks of at most ``size`` rows; tiles take them in turns."""

    size: int

    def count(self, product: Product) -> int:
        return ceil_div(product.m, self.size)

    def cut(self) -> Cut:
        """This plan as a cut, the form in which the search stores it."""
        return Cut(sizes=(("m", self.size),), choices=(("way", WAY),))


def row_blocks(product: Product, tiles: int, room: int, extra: int) -> list[RowBlocks]:
    """The largest blocks that give all tiles as many, in ``room`` bytes of scratchpad.

    ``extra``: bytes of scratchpad for each element of a block that the epilogue needs.
    """
    if not _possible(product) or tiles == 1 or product.m < tiles:
        return []
    sizes = dict.fromkeys(ceil_div(product.m, tiles * turns) for turns in _TURNS)
    fitting = [size for size in sizes if _bytes(product, size, tiles, extra) <= room]
    return [RowBlocks(size) for size in fitting[:_PROPOSED]]


def row_blocks_of(product: Product, cut: Cut) -> RowBlocks:
    """The blocks that a cut names; ValueError when the product cannot be divided like this."""
    blocks = RowBlocks(cut.size("m"))
    if not _possible(product) or not 0 < blocks.size <= LARGEST_EXTENT:
        sizes = f"{product.batches} x {product.m} x {product.k} x {product.n}"
        raise ValueError(f"{blocks} do not divide a product of {sizes}")
    return blocks


def _possible(product: Product) -> bool:
    """One computed matrix on the right that one instruction moves to planes, and whole rows on the left."""
    right = product.right
    rows, lanes = (right.x, right.k) if right.along_k else (right.k, right.x)
    return (
        product.batches == 1
        and not product.packed
        and product.left.along_k
        and max(product.k, product.n) <= LARGEST_CHANNELS
        and rows <= LARGEST_EXTENT
        and rows * ceil_div(lanes, BLOCK) <= MOST_MOVES
    )


def _bytes(product: Product, size: int, tiles: int, extra: int) -> int:
    """Scratchpad bytes: the right operand as it is and in planes, two blocks of rows of each kind."""
    fmt, parts = product.compute, part_count(product.compute)
    left, right = product.left.tensor, product.right.tensor
    held = product.n * product.k * right.bytes_each
    own = size * product.k * left.bytes_each
    for tensor, rows in ((right, product.n), (left, size)):
        converted = (parts if parts > 1 else 0) + (tensor.fmt is not fmt)
        operand = aligned_bytes(rows, product.k, tensor.fmt)
        operand += converted * aligned_bytes(rows, product.k, engine_format(fmt))
        held, own = (held + operand, own) if tensor is right else (held, own + operand)
    result = aligned_bytes(size, product.n, Format.FP32) + 2 * aligned_bytes(size, product.n, product.out.fmt)
    return held + held // tiles + 2 * (own + result) + extra * size * product.n + _SPARE


def multiply_rows(kernel: Kernel, product: Product, blocks: RowBlocks) -> None:
    """The code for all rows. The first block of rows is loaded while the right operand is on its way."""
    tiles, count = kernel.target.tiles, blocks.count(product)
    tensor, elements = product.right.tensor, product.k * product.n
    compact = kernel.buffer("b_rows", elements * tensor.bytes_each)
    everyone = Team(tiles, kernel.tile, (1 << tiles) - 1)
    gather = Gather(
        kernel, everyone, (tensor, product.right.first(product.batch(0), 0, 0), elements), compact
    )
    enter(kernel, compact)
    gather.send()
    early = _load_early(kernel, product, blocks) if count <= tiles else None
    meet_all(kernel, [gather])
    right = _in_planes(kernel, product, compact)
    with kernel.items(count) as item:
        begin = kernel.let(item * blocks.size)
        rows = kernel.let(minimum(blocks.size, product.m - begin))
        _block(kernel, product, Grid(rows, 1, blocks.size), begin, early, right)


def _load_early(kernel: Kernel, product: Product, blocks: RowBlocks) -> Aligned:
    """The only block of rows of this tile, as it is in DDR."""
    matrix = product.left
    target = slice_buffer(kernel, "a", matrix.tensor.fmt, Grid(blocks.size, 1, blocks.size), product.k)
    with kernel.items(blocks.count(product)) as item:
        begin = kernel.let(item * blocks.size)
        rows = kernel.let(minimum(blocks.size, product.m - begin))
        grid, first = Grid(rows, 1, blocks.size), matrix.first(product.batch(0), begin, 0)
        load_aligned(kernel, "a", matrix.tensor, first, product.k, grid, product.k, into=target.base)
    return target


def _in_planes(kernel: Kernel, product: Product, compact: Value) -> list[Value]:
    """The right operand as the matrix engine takes it: an address for each part."""
    right = product.right
    rows, lanes = (right.x, right.k) if right.along_k else (right.k, right.x)
    planes = slice_buffer(kernel, "b", right.tensor.fmt, Grid(rows, 1, rows), lanes)
    into_planes(kernel, right.tensor.fmt, planes.base, compact, (1, rows), lanes)
    return as_operand(kernel, "b", product, planes)


def _block(
    kernel: Kernel, product: Product, grid: Grid, begin: Value, early: Aligned | None, right: list[Value]
) -> None:
    """The rows from ``begin`` on; ``early`` is the left operand if it is loaded already."""
    if early is None:
        rows = OperandRange(0, begin, grid.height, grid.room)
        left = load_operand(kernel, "a", product, product.left, rows, 0, product.k)
    else:
        left = as_operand(kernel, "a", product, Aligned(early.base, early.fmt, grid, product.k))
    engine, fmt = engine_format(product.compute), sums_format(product, True)
    sums = slice_buffer(kernel, "product", fmt, grid, product.n)
    operands: dict[str, Argument] = {
        "m": grid.height,
        "k": product.k,
        "n": product.n,
        "lt": 0,
        "rt": int(not product.right.along_k),
        "out_format": fmt.token,
    }
    multiply_parts(kernel, f"ne.gemm.{engine.token}", ("a", left), ("b", right), sums.base, False, operands)
    result = finish(product, ResultBlock(kernel, sums, Place(0, begin, 0), product.n))
    store_aligned(kernel, result, product.out, product.place(0, begin, 0), product.n)
