"""Exchanges of neighbouring axes of blocks in the scratchpad, by moves of the TDMA."""

from __future__ import annotations

from itertools import product

from compiler.codegen.kernel import Kernel
from compiler.frontend.triton.kernels.values import SpmBlock
from tx8isa.numbers.limits import MOST_MOVES


def exchange(
    kernel: Kernel, target: SpmBlock, source: SpmBlock, extents: tuple[int, int, int], inner: int
) -> None:
    """Exchange rows and columns of compact blocks of outer x rows x columns (``extents``) x inner elements.

    Extents are powers of two. The chip ends an instruction that takes too long, so many pieces are moved by
    several instructions.
    """
    (outer, rows, columns), size = extents, inner * source.size
    matrix = rows * columns * size
    height = min(rows, MOST_MOVES)
    width = min(columns, MOST_MOVES // height)
    depth = min(outer, MOST_MOVES // (height * width))
    for index, row, column in product(
        range(0, outer, depth), range(0, rows, height), range(0, columns, width)
    ):
        kernel.emit(
            "td.gatherscatter",
            dst=target.address + index * matrix + (column * rows + row) * size,
            src0=source.address + index * matrix + (row * columns + column) * size,
            n=size,
            src_stride0=columns * size,
            src_iter0=height,
            src_stride1=size,
            src_iter1=width,
            src_stride2=matrix,
            src_iter2=depth,
            dst_stride0=size,
            dst_iter0=height,
            dst_stride1=rows * size,
            dst_iter1=width,
            dst_stride2=matrix,
            dst_iter2=depth,
        )
