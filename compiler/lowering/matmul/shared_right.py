"""Products whose right operand fits the scratchpad as a whole: tiles divide the rows, and any sizes are
possible.

Rows of the left operand and of the result are whole, so that neither has short runs. The right operand is
one run of DDR. Normally all tiles load it together: each loads a part, sends it to all others, and moves the
whole to planes. A constant is in planes in DDR already. Some tiles then load all of it, each for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compiler.codegen.expr import Value, minimum
from compiler.codegen.kernel import Argument, Kernel, Target
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
from compiler.codegen.slices.rates import Rates, rates_of
from compiler.codegen.slices.shards import within
from compiler.codegen.slices.tensors import BLOCK, DdrTensor
from compiler.codegen.teams.gather import Gather, enter, meet_all
from compiler.codegen.teams.team import Team, tile_grid
from compiler.evaluation.sizes import Size
from compiler.lowering.record import Cut
from tx8isa.numbers.division import ceil_div, round_up
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import LINE_BYTES
from tx8isa.numbers.limits import LARGEST_CHANNELS, LARGEST_EXTENT, MOST_MOVES

from .blocks import OperandRange, as_operand, load_operand
from .feed import to_parts
from .product import Product, constant_planes
from .result import ResultBlock, finish, sums_format

WAY = "rows"
"""The name of this lowering in cuts."""
_TURNS = (1, 2, 3, 4, 6, 8)
"""Numbers of blocks of rows of a tile that are proposed, as far as they fit."""
_PROPOSED, _PROPOSED_CONSTANT = 2, 4
_SPARE = 12 << 10
"""Scratchpad bytes for vectors and other data of an epilogue, in addition to blocks."""


@dataclass(frozen=True)
class RowBlocks:
    """Blocks of at most ``size`` rows, which are distributed round robin."""

    size: int
    alone: int = 0
    """Tiles that load all of the right operand, each for itself; 0 if all tiles load it together."""

    def count(self, product: Product) -> int:
        return ceil_div(product.m, self.size)

    def cut(self) -> Cut:
        """This plan as a cut, the form in which the search stores it."""
        tiles = (("m", self.alone),) if self.alone else ()
        return Cut(tiles, sizes=(("m", self.size),), choices=(("way", WAY),))


def row_blocks(product: Product, tiles: int, room: int, extra: int) -> list[RowBlocks]:
    """The largest blocks, equally many for all tiles, in ``room`` bytes of scratchpad.

    ``extra``: bytes of scratchpad for each element of a block that the epilogue needs.
    """
    if not _possible(product) or tiles == 1 or product.m < tiles:
        return []
    sizes = dict.fromkeys(ceil_div(product.m, tiles * turns) for turns in _TURNS)
    fitting = [size for size in sizes if _bytes(product, size, tiles, extra) <= room]
    return [RowBlocks(size) for size in fitting[:_PROPOSED]]


def constant_row_blocks(
    product: Product, target: Target, room: int, extra: int
) -> list[tuple[float, RowBlocks]]:
    """Good blocks for a constant right operand and a known number of rows, and roughly their cycles."""
    if not _possible(product):
        return []
    tiles, rates = target.tiles, rates_of(target.machine)
    shared = row_blocks(product, tiles, room, extra)[:1]
    together = [(_cost(product, tiles, 1, True, rates), blocks) for blocks in shared]
    alone = [_blocks_alone(product, used, room, extra, rates) for used in range(1, min(tiles, product.m) + 1)]
    found = together + [priced for blocks in alone for priced in blocks]
    return sorted(found, key=lambda pair: pair[0])[:_PROPOSED_CONSTANT]


def _blocks_alone(
    product: Product, used: int, room: int, extra: int, rates: Rates
) -> list[tuple[float, RowBlocks]]:
    """The best blocks for ``used`` tiles that load the right operand themselves; none if none fit."""
    sizes = {turns: ceil_div(product.m, used * turns) for turns in _TURNS}
    fitting = [turns for turns, size in sizes.items() if _bytes(product, size, 0, extra) <= room]
    priced = ((_cost(product, used, turns, False, rates), RowBlocks(sizes[turns], used)) for turns in fitting)
    return sorted(priced, key=lambda pair: pair[0])[:1]


_COMMANDS = 8
"""Commands of an iteration, which the core issues."""


def _cost(product: Product, used: int, turns: int, together: bool, rates: Rates) -> float:
    """Cycles of ``used`` tiles that take rows in ``turns``, roughly.

    The first product waits for the right operand. After that the slowest of DDR, stores, engine and core
    decides.
    """
    rows, parts = ceil_div(product.m, used * turns), part_count(product.compute)
    held = parts * aligned_bytes(product.k, product.n, engine_format(product.compute))
    left = rows * product.k * product.left.tensor.bytes_each
    out = rows * product.n * product.out.bytes_each
    engine = rates.products(product.compute, rows, product.k, product.n, wide=True)
    if together:
        begin = rates.first_copy + held / rates.shared_link + (held + used * left) / rates.ddr
    else:
        begin = (held + left) * max(1 / rates.load, used / rates.ddr)
    moved = ((turns - 1) * left + turns * out) * used / rates.ddr
    return (
        begin + engine + max(moved, turns * out / rates.store, turns * max(engine, _COMMANDS * rates.issue))
    )


def row_blocks_of(product: Product, cut: Cut, tiles: int) -> RowBlocks:
    """The blocks that a cut names; ValueError if the product cannot be divided like this.

    A constant with a dynamic number of rows is refused, because one size of blocks suits few numbers.
    """
    blocks = RowBlocks(cut.size("m"), dict(cut.tiles).get("m", 0))
    wrong = blocks.alone and not (product.packed and 0 < blocks.alone <= tiles)
    wrong = wrong or (product.packed and isinstance(product.m, Size))
    if wrong or not _possible(product) or not 0 < blocks.size <= LARGEST_EXTENT:
        sizes = f"{product.batches} x {product.m} x {product.k} x {product.n}"
        raise ValueError(f"{blocks} do not divide a product of {sizes}")
    return blocks


def _possible(product: Product) -> bool:
    """True for one right matrix, in planes or moved there by one instruction, and whole rows on the left."""
    right = product.right
    rows, lanes = (right.x, right.k) if right.along_k else (right.k, right.x)
    moved = rows <= LARGEST_EXTENT and rows * ceil_div(lanes, BLOCK) <= MOST_MOVES
    return (
        product.batches == 1
        and product.left.along_k
        and max(product.k, product.n) <= LARGEST_CHANNELS
        and (product.packed or moved)
    )


def _bytes(product: Product, size: int, team: int, extra: int) -> int:
    """Scratchpad bytes: the right operand as in DDR and in planes, two blocks of rows of each kind.

    ``team``: number of tiles that load the right operand together, or 0.
    """
    engine, parts = engine_format(product.compute), part_count(product.compute)
    left, right = product.left.tensor, product.right.tensor

    def operand(tensor: DdrTensor, rows: int) -> int:
        converted = (parts if parts > 1 else 0) + (tensor.fmt is not product.compute)
        return aligned_bytes(rows, product.k, tensor.fmt) + converted * aligned_bytes(rows, product.k, engine)

    held = product.n * product.k * right.bytes_each + operand(right, product.n)
    if product.packed:
        held = parts * aligned_bytes(product.k, product.n, engine)
    own = size * product.k * left.bytes_each + operand(left, size)
    result = aligned_bytes(size, product.n, Format.FP32) + 2 * aligned_bytes(size, product.n, product.out.fmt)
    staged = held // team if team else 0
    return held + staged + 2 * (own + result) + extra * size * product.n + _SPARE


def multiply_rows(kernel: Kernel, product: Product, blocks: RowBlocks) -> None:
    """The code for all rows. The first block of rows is loaded while the right operand arrives."""
    if blocks.alone:
        _multiply_alone(kernel, product, blocks)
        return
    tiles, count = kernel.target.tiles, blocks.count(product)
    everyone = Team(tiles, kernel.tile, (1 << tiles) - 1)
    loaded = _loaded(kernel, product)
    gathers = [Gather.loaded(kernel, everyone, (tensor, 0, tensor.size), target) for tensor, target in loaded]
    targets = [target for _, target in loaded]
    enter(kernel, *targets)
    for gather in gathers:
        gather.send()
    early = _load_early(kernel, product, blocks) if count <= tiles else None
    meet_all(kernel, gathers)
    right = targets if product.packed else _in_planes(kernel, product, targets[0])
    with kernel.items(count) as item:
        begin = kernel.let(item * blocks.size)
        rows = kernel.let(minimum(blocks.size, product.m - begin))
        _block(kernel, product, Grid(rows, 1, blocks.size), begin, early, right)


def _multiply_alone(kernel: Kernel, product: Product, blocks: RowBlocks) -> None:
    """Write the code of tiles that load the right operand themselves, after their first block of rows.

    Each iteration loads the rows of the next one before it stores its own, so that the matrix engine does not
    wait for the TDMA.
    """
    loaded, size, count = _loaded(kernel, product), blocks.size, blocks.count(product)
    right = [target for _, target in loaded]
    slot_bytes = round_up(aligned_bytes(size, product.k, engine_format(product.compute)), LINE_BYTES)
    slots = [kernel.buffer("a", 2 * slot_bytes) for _ in range(part_count(product.compute))]

    def place(item: Value) -> tuple[Value, Grid, list[Value]]:
        begin = kernel.let(item * size)
        grid = Grid(kernel.let(within(minimum(size, product.m - begin), 1, size)), 1, size)
        return begin, grid, [slot + item // blocks.alone % 2 * slot_bytes for slot in slots]

    with tile_grid(kernel, (blocks.alone,)) as tiles, kernel.if_below(tiles.position[0], count):
        _bring(kernel, product, *place(tiles.position[0]))
        for tensor, target in loaded:
            kernel.emit(f"rdma.{tensor.fmt.token}", dst=target, src=tensor.at(0), n=tensor.size)
        with kernel.loop(count, tiles.position[0], blocks.alone) as item:
            begin, grid, left = place(item)
            sums = _multiply(kernel, product, grid, left, right)
            if count > blocks.alone:
                with kernel.if_below(item + blocks.alone, count):
                    _bring(kernel, product, *place(item + blocks.alone))
            _finish(kernel, product, begin, sums)


def _bring(kernel: Kernel, product: Product, begin: Value, grid: Grid, targets: Sequence[Value]) -> None:
    """Load rows of the left operand from ``begin`` on, and convert them; one target for each part."""
    matrix, first = product.left, product.left.first(product.batch(0), begin, 0)
    direct = matrix.tensor.fmt is engine_format(product.compute)
    into = targets[0] if direct else None
    rows = load_aligned(kernel, "a", matrix.tensor, first, product.k, grid, product.k, into=into)
    if not direct:
        to_parts(kernel, targets, rows.base, rows.elements, rows.fmt, product.compute)


def _loaded(kernel: Kernel, product: Product) -> list[tuple[DdrTensor, Value]]:
    """The right operand as in DDR, with the addresses for it; a constant in planes has one for each part."""
    if not product.packed:
        tensor = product.right.tensor
        return [(tensor, kernel.buffer("b_rows", tensor.size * tensor.bytes_each))]
    size = aligned_bytes(product.k, product.n, engine_format(product.compute))
    return [(tensor, kernel.buffer("b", size)) for tensor in constant_planes(kernel, product).tensors]


def _load_early(kernel: Kernel, product: Product, blocks: RowBlocks) -> Aligned:
    """Load the only block of rows of this tile, in its format in DDR."""
    matrix = product.left
    target = slice_buffer(kernel, "a", matrix.tensor.fmt, Grid(blocks.size, 1, blocks.size), product.k)
    with kernel.items(blocks.count(product)) as item:
        begin = kernel.let(item * blocks.size)
        rows = kernel.let(minimum(blocks.size, product.m - begin))
        grid, first = Grid(rows, 1, blocks.size), matrix.first(product.batch(0), begin, 0)
        load_aligned(kernel, "a", matrix.tensor, first, product.k, grid, product.k, into=target.base)
    return target


def _in_planes(kernel: Kernel, product: Product, compact: Value) -> list[Value]:
    """The right operand in the order of the matrix engine: an address for each part."""
    right = product.right
    rows, lanes = (right.x, right.k) if right.along_k else (right.k, right.x)
    planes = slice_buffer(kernel, "b", right.tensor.fmt, Grid(rows, 1, rows), lanes)
    into_planes(kernel, right.tensor.fmt, planes.base, compact, (1, rows), lanes)
    return as_operand(kernel, "b", product, planes)


def _block(
    kernel: Kernel, product: Product, grid: Grid, begin: Value, early: Aligned | None, right: list[Value]
) -> None:
    """Multiply the rows from ``begin`` on; ``early`` is the left operand if it is loaded already."""
    if early is None:
        rows = OperandRange(0, begin, grid.height, grid.room)
        left = load_operand(kernel, "a", product, product.left, rows, 0, product.k)
    else:
        left = as_operand(kernel, "a", product, Aligned(early.base, early.fmt, grid, product.k))
    _finish(kernel, product, begin, _multiply(kernel, product, grid, left, right))


def _multiply(
    kernel: Kernel, product: Product, grid: Grid, left: Sequence[Value], right: Sequence[Value]
) -> Aligned:
    """Multiply the rows of a block."""
    engine, fmt = engine_format(product.compute), sums_format(product, True)
    sums = slice_buffer(kernel, "product", fmt, grid, product.n)
    operands: dict[str, Argument] = {
        "m": grid.height,
        "k": product.k,
        "n": product.n,
        "lt": 0,
        "rt": int(product.packed or not product.right.along_k),
        "out_format": fmt.token,
    }
    multiply_parts(kernel, f"ne.gemm.{engine.token}", ("a", left), ("b", right), sums.base, False, operands)
    return sums


def _finish(kernel: Kernel, product: Product, begin: Value, sums: Aligned) -> None:
    """Finish the rows from ``begin`` on, and store them."""
    result = finish(product, ResultBlock(kernel, sums, Place(0, begin, 0), product.n))
    store_aligned(kernel, result, product.out, product.place(0, begin, 0), product.n)
