"""Products with packed weights: every tile streams the weights of its columns through its scratchpad.

The left operand, of few rows, is whole in all scratchpads. While a chunk of the weights is unpacked and
multiplied, the next ones are loaded. The first chunks are loaded before the phase waits for other tiles.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

import numpy as np

from compiler.codegen.expr import Address, Value
from compiler.codegen.kernel import Argument, Kernel, Target
from compiler.codegen.slices.aligned import Aligned, Grid, Place, slice_buffer, store_aligned
from compiler.codegen.slices.tensors import BLOCK
from compiler.graph import FLOATS, Array
from compiler.lowering.matmul.blocks import OperandRange, load_operand
from compiler.lowering.matmul.matmul import multiply, product_cuts, product_of
from compiler.lowering.matmul.product import Product, ProductEpilogue
from compiler.lowering.matmul.result import ResultBlock, finish
from compiler.lowering.record import Cut, Engine, Work, lowering
from compiler.operators.quantised.packed_products import dequantised
from compiler.operators.record import Call
from tx8isa.numbers.division import ceil_div
from tx8isa.numbers.formats import Format

from .chunk import Numbers, PackedChunk, packed_chunks
from .plan import SLOTS, WAY, PackedPlan, plan_of, plans
from .unpacking import Unpacker


@dataclass(frozen=True)
class FloatProduct(Product):
    """The same product with weights that become floats when compiling."""

    numbers: Numbers | None = None

    def constant(self) -> Array:
        """The weights as floats."""
        numbers = self.numbers
        assert numbers is not None
        return dequantised(numbers.values, numbers.scale, numbers.zero, numbers.block)


def _check(call: Call) -> str | None:
    known = [call.values[at] is not None for at in range(1, 4) if call.has(at)]
    return None if all(known) else "weights, scales and zero points that are known when compiling"


def _numbers(work: Work) -> Numbers:
    values = [None if not work.has(at) else np.asarray(work.input(at).value) for at in range(1, 4)]
    numbers, scale, zero = values
    assert numbers is not None
    assert scale is not None
    return Numbers(numbers, scale, zero, work.spec.integer("bits"), work.spec.integer("block_size"))


def _as_floats(work: Work, numbers: Numbers) -> FloatProduct:
    """The product as a MatMul has it."""
    right = replace(work.input(1), fmt=work.arithmetic)
    product = product_of(replace(work, inputs=(work.inputs[0], right)))
    parts = product.left, product.right, product.out, product.batch_sizes, product.compute
    return FloatProduct(*parts, epilogue=ProductEpilogue(steps=work.steps), numbers=numbers)


def _cuts(target: Target, work: Work) -> Iterator[Cut]:
    """Packed or as floats, the likeliest cuts of both first: a short search tries some of each."""
    numbers = _numbers(work)
    product = _as_floats(work, numbers)
    packed = [plan.cut() for plan in plans(product, numbers, target, target.spm_bytes)]
    floats = product_cuts(target, work, product)
    yield from packed[:2]
    yield from islice(floats, 2)
    yield from packed[2:]
    yield from floats


@lowering(
    "PackedMatMul",
    check=_check,
    types=("int8", *FLOATS),
    cuts=_cuts,
    anchor=True,
    prefetch=True,
    takes_fp32=True,
    engines=(Engine.MATRIX, Engine.VECTOR),
)
def packed_matmul(kernel: Kernel, work: Work) -> None:
    """Weights are unpacked if the search finds that faster, or, without a search, if there is room."""
    numbers = _numbers(work)
    product = _as_floats(work, numbers)
    plan = _plan(kernel, work, product, numbers)
    if plan is None:
        kernel.await_earlier_phases()
        multiply(kernel, work, product)
        return
    _Stream(kernel, product, numbers, plan).run()


def _plan(kernel: Kernel, work: Work, product: Product, numbers: Numbers) -> PackedPlan | None:
    """The plan by which weights are unpacked; None if they are floats."""
    if work.cut is None:
        return next(iter(plans(product, numbers, kernel.target, kernel.budget)), None)
    return plan_of(product, work.cut) if work.cut.choice("way", "plan") == WAY else None


class _Stream:
    """The code of a plan."""

    def __init__(self, kernel: Kernel, product: Product, numbers: Numbers, plan: PackedPlan) -> None:
        power = 2.0**-numbers.highest
        self.product = replace(product, epilogue=replace(product.epilogue, alpha=power))
        self.kernel, self.plan = kernel, plan
        self.chunk: PackedChunk = plan.chunk(numbers, product.compute)
        self.blocks, self.chunks = plan.blocks(product), product.k // plan.rows
        self.steps = ceil_div(self.blocks, kernel.target.tiles) * self.chunks
        self.places, self.ahead = min(SLOTS, self.steps), min(SLOTS - 1, self.steps)
        size = self.chunk.size * self.blocks * self.chunks
        make = partial(packed_chunks, numbers, self.chunk)
        self.source: Address = kernel.lazy_constant("packed_weights", Format.INT8, size, make)
        self.slots = kernel.buffer("packed", self.places * self.chunk.size)

    def run(self) -> None:
        kernel, product = self.kernel, self.product
        for step in range(self.ahead):
            self._load(step)
        unpacker = Unpacker(kernel, self.chunk)
        kernel.await_earlier_phases()
        rows = OperandRange(0, 0, product.m, product.m)
        (left,) = load_operand(kernel, "a", product, product.left, rows, 0, product.k)
        with kernel.loop(ceil_div(self.blocks, kernel.target.tiles)) as turn:
            block = kernel.let(self._block(turn))
            with kernel.if_below(block, self.blocks):
                self._block_of_columns(turn, block, left, unpacker)

    def _block(self, turn: Value) -> Value:
        """The block of columns of this tile in an iteration."""
        tiles = self.kernel.target.tiles
        return turn * tiles + (self.kernel.tile if tiles > 1 else 0)

    def _slot(self, step: Value) -> Value:
        return self.slots + step % self.places * self.chunk.size

    def _load(self, step: Value) -> None:
        """Load the chunk of a step, unless this tile has none."""
        kernel, size = self.kernel, self.chunk.size
        block = self._block(step // self.chunks)
        with kernel.if_below(block, self.blocks):
            first = (block * self.chunks + step % self.chunks) * size
            kernel.emit("rdma.int8", dst=self._slot(step), src=self.source + first, n=size)

    def _block_of_columns(self, turn: Value, block: Value, left: Value, unpacker: Unpacker) -> None:
        kernel, product, width = self.kernel, self.product, self.plan.planes * BLOCK
        grid = Grid(product.m, 1, product.m)
        sums = slice_buffer(kernel, "sums", Format.FP32, grid, width)
        kernel.emit("td.memset.fp32", dst=sums.base, value=0.0, n=sums.elements)
        with kernel.loop(self.chunks) as number:
            step = kernel.let(turn * self.chunks + number)
            if self.steps > self.ahead:
                with kernel.if_below(step, self.steps - self.ahead):
                    self._load(step + self.ahead)
            weights = kernel.buffer("weights", self.chunk.elements * self.chunk.each)
            unpacker.unpack(kernel.let(self._slot(step)), weights)
            self._multiply(left, number, weights, sums)
        first = kernel.let(block * width)
        result = finish(product, ResultBlock(kernel, sums, Place(0, 0, first), product.n))
        store_aligned(kernel, result, product.out, product.place(0, 0, first), product.n)

    def _multiply(self, left: Value, number: Value, weights: Value, sums: Aligned) -> None:
        """Add the product of some planes of the left operand and a chunk."""
        product, rows = self.product, self.plan.rows
        operands: dict[str, Argument] = {"m": product.m, "k": rows, "n": sums.channels, "rt": 1}
        self.kernel.emit(
            f"ne.gemm.{product.compute.token}",
            a=left + number * (rows * product.m * self.chunk.each),
            b=weights,
            out=sums.base,
            psum=sums.base,
            out_format="fp32",
            **operands,
        )
