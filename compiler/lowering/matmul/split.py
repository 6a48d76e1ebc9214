"""Products of few rows and columns and many terms: the terms are divided over tiles.

Tiles are a grid of batches, rows, columns and terms. Each tile computes one block of the result over its
terms. The tiles of a block add their sums (``codegen.collective``), each for a part of the block, and finish
and store that part.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from compiler.codegen.kernel import Argument, Kernel, Target
from compiler.codegen.slices.aligned import Aligned, Grid, Place, slice_buffer, store_aligned
from compiler.codegen.slices.precision import engine_format, multiply_parts
from compiler.codegen.slices.rates import Rates, rates_of
from compiler.codegen.slices.shards import sharded_blocks, slices
from compiler.codegen.slices.tensors import BLOCK, Stretch, stretches
from compiler.codegen.slices.vector import WORD
from compiler.codegen.teams.collective import WAYS, Exchange
from compiler.codegen.teams.team import Team, TileGrid, tile_grid
from compiler.lowering.record import Cut
from tx8isa.numbers.division import ceil_div
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import aligned_channels, full_blocks, tail_width
from tx8isa.numbers.limits import LARGEST_CHANNELS, LARGEST_EXTENT

from .blocks import OperandRange, load_operand, right_operand, step_bytes
from .product import Matrix, Product
from .result import ResultBlock, finish

_FEWEST_TERMS = 512
"""Least terms that tiles share; with fewer terms, the exchange takes longer than the products."""
_MANY_TERMS, _FEW_BLOCKS = 2048, 4
"""Without a search, terms are shared if there are at least this many, and this many tiles for each block."""
_PROPOSED, _CHUNKS = 3, 2
"""Number of proposed splits, and how many of them may have the same grid."""


@dataclass(frozen=True)
class Parts:
    """The ``count`` parts of a block for its owners: ``planes`` of columns and ``rows`` of each.

    A part is consecutive in the aligned layout: whole planes, or some rows of one. It has ``size`` elements.
    """

    planes: int
    rows: int
    across: int
    """Parts of the rows of a plane."""
    count: int
    lanes: int
    """A divisor of the stored width of all planes."""
    size: int


@dataclass(frozen=True)
class Split:
    """``grid``: tiles along batch, rows, columns and terms; ``k``: terms of a chunk; ``way`` of exchange."""

    grid: tuple[int, int, int, int]
    k: int
    way: str

    def block(self, product: Product) -> tuple[int, int]:
        """Rows and columns of a tile's block."""
        return product.m // self.grid[1], product.n // self.grid[2]

    def parts(self, product: Product) -> Parts:
        """The parts of a block for its owners."""
        parts = _parts(*self.block(product), self.grid[3])
        if parts is None:
            raise ValueError(f"blocks of {self.block(product)} are too large to be added up")
        return parts

    def cut(self) -> Cut:
        """This plan as a cut, the form in which the search stores it."""
        tiles = tuple(zip(("batch", "m", "n", "k"), self.grid, strict=True))
        return Cut(tiles, (("k", self.k),), (("way", "split"), ("exchange", self.way)))


def _parts(rows: int, columns: int, members: int) -> Parts | None:
    """Equal parts of a block, one for each owner; None if a part is too large for the exchange."""
    planes, tail = full_blocks(columns, BLOCK), tail_width(columns, BLOCK)
    many, lanes = max(planes, 1), tail or BLOCK
    if planes and tail:
        parts = Parts(planes + 1, rows, 1, 1, lanes, rows * aligned_channels(columns, BLOCK))
    elif (together := min(size for size in _divisors(many) if many // size <= members)) > 1:
        parts = Parts(together, rows, 1, many // together, lanes, together * rows * lanes)
    else:
        each = min(size for size in _divisors(rows) if many * (rows // size) <= members)
        parts = Parts(1, each, rows // each, many * (rows // each), lanes, each * lanes)
    return parts if parts.size // lanes <= LARGEST_EXTENT else None


def split_of(product: Product, cut: Cut, tiles: int) -> Split:
    """The split that a cut names; ValueError if this product has no such split."""
    grid = (cut.parts("batch"), cut.parts("m"), cut.parts("n"), cut.parts("k"))
    split = Split(grid, cut.size("k"), cut.choice("exchange", ""))
    if (
        math.prod(grid) > tiles
        or grid not in set(_grids(product, tiles))
        or split.way not in WAYS
        or split.k < 1
    ):
        sizes = f"{product.batches} x {product.m} x {product.k} x {product.n}"
        raise ValueError(f"{split} does not divide a product of {sizes}")
    return split


def splits(product: Product, target: Target, room: int) -> list[tuple[float, Split]]:
    """Good splits of the terms in ``room`` bytes of scratchpad, with their rough cycles.

    None for a product of few terms, or of more blocks than tiles.
    """
    tiles, rates = target.tiles, rates_of(target.machine)
    if product.k < _FEWEST_TERMS or _blocks(product) > tiles:
        return []
    found = []
    for grid in _grids(product, tiles):
        fitting = [split for split in _chunks(product, grid) if _bytes(product, split) <= room]
        priced = [(_cost(product, split, rates), split) for split in fitting]
        found += sorted(priced, key=lambda pair: pair[0])[:_CHUNKS]
    best = sorted(found, key=lambda pair: pair[0])[:_PROPOSED]
    return [(cost, replace(split, way=way)) for cost, split in best for way in _ways(product, split, rates)]


def _ways(product: Product, split: Split, rates: Rates) -> tuple[str, ...]:
    """Ways of exchange: the DTE only if it saves more than a program's first copy costs (in no price)."""
    rows, columns = split.block(product)
    moved = 2 * WORD * rows * columns * math.prod(split.grid)
    return WAYS if moved / rates.ddr > rates.first_copy else WAYS[1:]


def rule(product: Product, target: Target, room: int) -> Split | None:
    """The split without a search; None unless most tiles would otherwise be idle."""
    if product.k < _MANY_TERMS or _FEW_BLOCKS * _blocks(product) > target.tiles:
        return None
    found = splits(product, target, room)
    return found[0][1] if found else None


def _blocks(product: Product) -> int:
    """Blocks of 64 by 64 of the result."""
    return product.batches * ceil_div(product.m, BLOCK) * ceil_div(product.n, BLOCK)


def _grids(product: Product, tiles: int) -> Iterator[tuple[int, int, int, int]]:
    """Grids in which the terms are divided and every tile has one block, all of equal size."""
    for rows, columns in itertools.product(_divisors(product.m), _divisors(product.n)):
        aligned = (rows == 1 or product.left.along_k or product.m // rows % BLOCK == 0) and (
            columns == 1 or product.n // columns % BLOCK == 0
        )
        terms = min(tiles // (product.batches * rows * columns), ceil_div(product.k, BLOCK))
        if aligned and terms > 1 and _parts(product.m // rows, product.n // columns, terms) is not None:
            yield product.batches, rows, columns, terms


def _chunks(product: Product, grid: tuple[int, int, int, int]) -> Iterator[Split]:
    """Chunks of whole planes that give the tiles almost equally many terms."""
    most = ceil_div(ceil_div(product.k, grid[3]), BLOCK)
    for turns in (1, 2, 3, 4, 6, 8, 12, 16):
        size = BLOCK * ceil_div(most, turns)
        if size <= LARGEST_CHANNELS and (turns == 1 or size > BLOCK):
            yield Split(grid, size, WAYS[0])


def _divisors(number: int) -> list[int]:
    return [part for part in range(1, number + 1) if number % part == 0]


def _bytes(product: Product, split: Split) -> int:
    """Scratchpad bytes of a step and of the exchange."""
    parts = split.parts(product)
    rows, columns = split.block(product)
    return step_bytes(product, rows, columns, split.k) + WORD * (split.grid[3] + 3) * parts.size


_COMMANDS = 4
"""Commands of an iteration, which the core issues."""


def _cost(product: Product, split: Split, rates: Rates) -> float:
    """Estimated cycles of a split: its slowest stage, the other stages of one iteration, and the exchange."""
    rows, columns = split.block(product)
    tiles, turns = math.prod(split.grid), ceil_div(ceil_div(product.k, split.k), split.grid[3])
    terms = turns * split.k
    left, right = terms * rows, terms * columns
    size = left * product.left.tensor.bytes_each + right * product.right.tensor.bytes_each
    runs = tiles * (rows if product.left.along_k else terms) * turns
    if not product.packed:
        runs += tiles * (columns * turns if product.right.along_k else terms)
    converted = left * _passes(product, product.left) + (
        0 if product.packed else right * _passes(product, product.right)
    )
    stages = (
        max(size / rates.load, size * tiles / rates.ddr + rates.ddr_run * runs),
        converted / rates.vector,
        rates.products(product.compute, rows, terms, columns, wide=True),
    )
    sums = WORD * rows * columns
    work = max(stages) + (sum(stages) - max(stages)) / turns + _COMMANDS * rates.issue * turns
    return work + sums * (2 * tiles / rates.ddr + 1 / rates.store)


def _passes(product: Product, matrix: Matrix) -> int:
    """Vector instructions that bring an operand into the format of the matrix engine."""
    if product.compute is Format.FP32:
        return 3
    return int(matrix.tensor.fmt is not product.compute)


def multiply_split(kernel: Kernel, product: Product, split: Split) -> None:
    """The code of a split."""
    rows, columns = split.block(product)
    parts = split.parts(product)
    exchange = Exchange(kernel, split.way, split.grid[3], parts.size, parts.lanes, parts.count)
    right = right_operand(kernel, product, Stretch(0, columns, split.grid[2]), stretches(product.k, split.k))
    with tile_grid(kernel, split.grid) as grid:
        batch, row, column, place = grid.position
        sums = slice_buffer(kernel, "sums", Format.FP32, Grid(rows, 1, rows), columns)
        kernel.emit("td.memset.fp32", dst=sums.base, value=0.0, n=sums.elements)
        operands: dict[str, Argument] = {
            "m": rows,
            "n": columns,
            "lt": int(not product.left.along_k),
            "rt": int(product.packed or not product.right.along_k),
            "out_format": "fp32",
        }
        x = OperandRange(batch, kernel.let(row * rows), rows, rows)
        for stretch, own in sharded_blocks(product.k, split.k, split.grid[3], place):
            with slices(kernel, own) as (step, _):
                k0 = step * stretch.size + stretch.start
                left = load_operand(kernel, "a", product, product.left, x, k0, stretch.size)
                b = right(column, stretch, step, batch)
                mnemonic = f"ne.gemm.{engine_format(product.compute).token}"
                multiply_parts(
                    kernel, mnemonic, ("a", left), ("b", b), sums.base, True, {**operands, "k": stretch.size}
                )
        _finish(kernel, product, split, parts, exchange, grid, sums)


def _finish(
    kernel: Kernel,
    product: Product,
    split: Split,
    parts: Parts,
    exchange: Exchange,
    grid: TileGrid,
    sums: Aligned,
) -> None:
    """Exchange the sums; each owner finishes and stores its part."""
    team = grid.team(kernel, 3)
    exchange.exchange(team, sums.base)
    rows, columns = split.block(product)
    batch, row, column, _ = grid.position
    # The last planes of a block may have fewer columns than they store.
    for stretch in stretches(columns, parts.planes * BLOCK):
        before = stretch.start // (parts.planes * BLOCK) * parts.across
        with _members(kernel, team, before, stretch.count * parts.across):
            plane, piece = team.member // parts.across, team.member % parts.across
            base = exchange.folded(team, "sum")
            part = Aligned(base, Format.FP32, Grid(parts.rows, 1, parts.rows), stretch.size)
            begin = kernel.let(row * rows + piece * parts.rows)
            first = kernel.let(column * columns + plane * (parts.planes * BLOCK))
            at = Place(0, kernel.let(product.row(batch, begin)), first)
            result = finish(product, ResultBlock(kernel, part, at, product.n))
            store_aligned(kernel, result, product.out, product.place(batch, begin, first), product.n)


@contextmanager
def _members(kernel: Kernel, team: Team, first: int, count: int) -> Iterator[None]:
    """Code for ``count`` members of a team from ``first`` on."""
    number = team.member
    if first:
        number = (team.member + (team.size - first)) % team.size
    with kernel.if_below(number, count):
        yield
