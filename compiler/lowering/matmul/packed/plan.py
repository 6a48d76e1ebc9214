"""Plans of products with packed weights: the columns of each tile, and the sizes of chunks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from compiler.codegen.kernel import Target
from compiler.codegen.slices.aligned import aligned_bytes
from compiler.codegen.slices.rates import Rates, rates_of
from compiler.codegen.slices.tensors import BLOCK
from compiler.lowering.matmul.product import Product
from compiler.lowering.record import Cut
from tx8isa.numbers.division import ceil_div
from tx8isa.numbers.formats import Format

from .chunk import Numbers, PackedChunk

WAY = "packed"
"""The name of this lowering in cuts."""

SLOTS = 3
"""Chunks in the scratchpad: one that is being unpacked, the others in transit."""
_LARGEST_CHUNK, _SMALLEST_CHUNK = 1 << 18, 1 << 14
"""Elements of a chunk: unpacked it must leave room for a second one, and be large enough to outlast the issue
of its instructions."""
_ROWS, _PLANES = (4096, 2048, 1024, 512, 256, 128, 64), (16, 8, 4, 3, 2, 1)
_SPARE = 32 << 10
"""Scratchpad bytes for vectors and other data of steps, in addition to blocks."""
_PROPOSED = 8


@dataclass(frozen=True)
class PackedPlan:
    """``planes`` of columns for a tile at a time, ``rows`` of the weights in a chunk."""

    planes: int
    rows: int

    def chunk(self, numbers: Numbers, fmt: Format) -> PackedChunk:
        """The chunks of the weights."""
        has_zeros = numbers.zero is not None
        return PackedChunk(self.rows, self.planes, numbers.bits, numbers.block, has_zeros, fmt)

    def blocks(self, product: Product) -> int:
        """Blocks of columns."""
        return product.n // BLOCK // self.planes

    def cut(self) -> Cut:
        """This plan as a cut, the form in which the search stores it."""
        return Cut(sizes=(("planes", self.planes), ("k", self.rows)), choices=(("way", WAY),))


def is_possible(product: Product) -> bool:
    """True if weights of a product can be unpacked: whole planes, in a short format."""
    short = product.compute in (Format.FP16, Format.BF16)
    return short and product.left.along_k and product.k % BLOCK == product.n % BLOCK == 0


def plan_of(product: Product, cut: Cut) -> PackedPlan:
    """The plan that a cut names; ValueError if this product has no such plan."""
    plan = PackedPlan(cut.size("planes"), cut.size("k"))
    if not (is_possible(product) and _divides(product, plan)):
        raise ValueError(f"{plan} does not divide a product of {product.m} x {product.k} x {product.n}")
    return plan


def _divides(product: Product, plan: PackedPlan) -> bool:
    whole = plan.planes > 0 and plan.rows > 0 and plan.rows % BLOCK == 0
    return whole and product.n // BLOCK % plan.planes == 0 and product.k % plan.rows == 0


def plans(product: Product, numbers: Numbers, target: Target, room: int) -> list[PackedPlan]:
    """Plans that fit ``room`` bytes of scratchpad; those with equal work for all tiles come first."""
    if not is_possible(product):
        return []
    found = [plan for plan in _candidates(product) if _bytes(product, numbers, plan) <= room]
    rates = rates_of(target.machine)
    return sorted(found, key=lambda plan: _cost(product, numbers, plan, target.tiles, rates))[:_PROPOSED]


def _candidates(product: Product) -> Iterator[PackedPlan]:
    whole = [product.k // parts for parts in range(1, 65) if product.k % parts == 0]
    for rows in sorted({*_ROWS, *whole}, reverse=True):
        for planes in _PLANES:
            plan = PackedPlan(planes, rows)
            elements = rows * planes * BLOCK
            if _divides(product, plan) and _SMALLEST_CHUNK <= elements <= _LARGEST_CHUNK:
                yield plan


def _bytes(product: Product, numbers: Numbers, plan: PackedPlan) -> int:
    """Scratchpad bytes: the left operand, chunks as loaded, one unpacked and one multiplied chunk, sums."""
    chunk = plan.chunk(numbers, product.compute)
    left = aligned_bytes(product.m, product.k, product.compute)
    if product.left.tensor.fmt is not product.compute:
        left += aligned_bytes(product.m, product.k, product.left.tensor.fmt)
    sums = aligned_bytes(product.m, plan.planes * BLOCK, Format.FP32)
    return left + SLOTS * chunk.size + 2 * chunk.packed + 2 * chunk.elements * chunk.each + 8 * sums + _SPARE


_PASSES, _INSTRUCTIONS = 1.25, 10
"""Passes of the vector engine over a weight to unpack it, counted in FP32; and commands for a chunk."""


def _cost(product: Product, numbers: Numbers, plan: PackedPlan, tiles: int, rates: Rates) -> float:
    """Cycles, roughly: the slowest of loading, unpacking and issuing, and the first and the last chunk."""
    chunk, blocks = plan.chunk(numbers, product.compute), plan.blocks(product)
    steps = product.k // plan.rows * ceil_div(blocks, tiles)
    load, unpack = chunk.size * min(tiles, blocks) / rates.ddr, _PASSES * chunk.elements / rates.vector
    return steps * max(load, unpack, _INSTRUCTIONS * rates.issue) + load + unpack
