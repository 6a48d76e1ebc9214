"""From the FP32 sums of a block in the scratchpad to elements of the result."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.codegen.expr import Value
from compiler.codegen.slices.aligned import Aligned, load_vector, per_channel, slice_buffer
from compiler.codegen.slices.tensors import DdrTensor
from compiler.codegen.slices.vector import Vector, convert
from compiler.lowering.pointwise.epilogue import AlignedResult, apply_steps
from tx8isa.numbers.formats import Format

from .product import Product


@dataclass(frozen=True)
class ResultBlock(AlignedResult):
    """A block of the result. Its place is a row, counted over all batches, and a column."""

    columns: int

    def load_like(self, tensor: DdrTensor) -> Value:
        """Load this block's elements of another tensor with the result's shape as FP32; returns their
        address."""
        return super().load_like(tensor.viewed(1, tensor.size // self.columns, self.columns))


def finish(product: Product, block: ResultBlock, rounded: Aligned | None = None) -> Aligned:
    """Apply alpha, addend and steps in FP32 and round once; return the block ready to be stored.

    ``rounded``: the buffer of the result if it cannot overwrite the sums; None for a new one.
    """
    kernel, sums, epilogue = block.kernel, block.data, product.epilogue
    v = Vector(kernel, sums.fmt, sums.elements)
    if epilogue.alpha != 1.0:
        v.vs("mul", sums.base, sums.base, epilogue.alpha)
    if epilogue.vector is not None:
        bias = load_vector(kernel, "bias", epilogue.vector, block.at.lane, sums.channels)
        per_channel(kernel, "add", sums, bias)
    if epilogue.matrix is not None:
        addend = block.load_like(epilogue.matrix)
        if epilogue.beta != 1.0:
            v.vs("mul", addend, addend, epilogue.beta)
        v.vv("add", sums.base, sums.base, addend)
    if epilogue.steps:
        apply_steps(block, sums.base, epilogue.steps)
    if sums.fmt is product.out.fmt:
        return sums
    if rounded is None:
        rounded = slice_buffer(kernel, "rounded", product.out.fmt, sums.grid, sums.channels)
    convert(kernel, rounded.base, sums.base, sums.elements, Format.FP32, product.out.fmt)
    return rounded


def sums_format(product: Product, single: bool) -> Format:
    """Format in which the engine writes a block.

    FP32, unless the engine rounds the result already: no step follows and k is in one piece (``single``).
    """
    if (
        single
        and product.epilogue.empty
        and product.out.fmt is product.compute
        and product.compute is not Format.FP32
    ):
        return product.compute
    return Format.FP32
