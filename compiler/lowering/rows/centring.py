"""Rows shifted to mean 0 by one product with a matrix.

A product with weights of -1/n in equal columns, with the row as initial sums, gives the row minus its mean. A
short format does not have 1/n exactly. So some weights are rounded down and some rounded up, such that their
sum is -1. A large mean then leaves no error.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.aligned import Aligned, aligned_bytes, slice_buffer
from compiler.codegen.slices.tensors import BLOCK
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import aligned_channels, tail_width
from tx8isa.numbers.rounding import rounded

MOST_COLUMNS = 512
"""Most columns of a matrix that is small enough."""


@dataclass
class CentringMatrix:
    """The matrix [columns, columns] for rows of numbers that the matrix engine takes, in the scratchpad."""

    kernel: Kernel
    columns: int
    fmt: Format
    base: Value = field(init=False)

    def __post_init__(self) -> None:
        columns, each = self.columns, self.fmt.bits // 8
        self.base = self.kernel.buffer("centring", aligned_bytes(columns, columns, self.fmt))
        tail = tail_width(columns, BLOCK)
        planes = aligned_channels(columns, BLOCK) // BLOCK
        first = 0
        for weight, count in weights_of_mean(columns, self.fmt):
            for width, place, repeats in ((BLOCK, 0, planes), (tail, planes * BLOCK * columns, 1)):
                if count and width and repeats:
                    self.kernel.emit(
                        f"td.memset.{self.fmt.token}",
                        dst=self.base + (place + first * width) * each,
                        value=-weight,
                        n=count * width,
                        stride0=columns * BLOCK * each,
                        iter0=repeats,
                    )
            first += count

    def centred(self, data: Aligned) -> Aligned:
        """The rows of a slice less their means, in FP32."""
        target = slice_buffer(self.kernel, "wide", Format.FP32, data.grid, data.channels)
        self.kernel.emit(
            f"ne.gemm.{self.fmt.token}",
            a=data.base,
            b=self.base,
            out=target.base,
            m=data.grid.positions,
            k=self.columns,
            n=self.columns,
            rt=1,
            out_format="fp32",
            psum=data.base,
            psum_format=data.fmt.token,
        )
        return target


def weights_of_mean(count: int, fmt: Format) -> tuple[tuple[float, int], tuple[float, int]]:
    """The two numbers of a format around 1/count, and how many of each add up to nearly 1."""
    exact = 1.0 / count
    near = float(rounded(np.asarray(exact), fmt))
    unit = 2.0 ** (np.floor(np.log2(exact)) - {Format.FP16: 10, Format.TF32: 10, Format.BF16: 7}[fmt])
    low = near if near <= exact else near - unit
    above = round((1.0 - count * low) / unit)
    return (low, count - above), (low + unit, above)
