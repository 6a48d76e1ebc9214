"""Rows [R, axis] of 16-bit elements transposed to FP32 lanes [axis, R] and back, by the matrix engine."""

from __future__ import annotations

import numpy as np

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel
from compiler.graph import Array
from tx8isa.numbers.division import ceil_div
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import LINE_BYTES, Layout
from tx8isa.numbers.packing import pack, storage_dtype

from .aligned import Aligned
from .long_runs import CompactSlice, out_of_planes, reorders, stored_width
from .matrix_transpose import ByteTransposer
from .precision import stored
from .tensors import BLOCK, DdrTensor, dma_loops
from .vector import convert, widened

_EACH = 2
"""Bytes of an element of a row."""


def identity(kernel: Kernel, size: int, fmt: Format) -> Value:
    """The identity [size, size] in a format that the matrix engine takes, loaded once."""
    return loaded_matrix(kernel, "identity", np.eye(size), fmt)


def loaded_matrix(kernel: Kernel, name: str, matrix: Array, fmt: Format) -> Value:
    """A known matrix in a format that the matrix engine takes, loaded once."""
    image = pack(stored(matrix, fmt), fmt, Layout.CX).view(storage_dtype(fmt))
    buffer = kernel.buffer(name, image.nbytes)
    kernel.emit(
        f"rdma.{fmt.token}", dst=buffer, src=kernel.constant(f"{name}_data", fmt, image), n=image.size
    )
    return buffer


class RowTransposer:
    """Transposes at most ``width`` rows of ``axis`` elements to lanes, and back.

    Its constant matrices are in the scratchpad from its construction. ``joined``: planes of rows are
    joined before they are stored, if that takes less time.
    """

    def __init__(self, kernel: Kernel, axis: int, width: int, joined: bool = False) -> None:
        self.kernel, self.axis, self.width, self.joined = kernel, axis, width, joined
        self.whole, self.rest = divmod(axis, BLOCK)
        self.forward = ByteTransposer(kernel, _EACH, width, width)
        self.back = self.forward
        if width != BLOCK and self.whole:
            self.back = ByteTransposer(kernel, _EACH, BLOCK, BLOCK)
        self.edge = ByteTransposer(kernel, _EACH, self.rest, stored_width(self.rest)) if self.rest else None

    def to_lanes(self, rows: Aligned, target: Value) -> None:
        """Write the rows as FP32 lanes to ``target``; lanes beyond the number of rows are 0."""
        columns = rows.planes * BLOCK + rows.tail
        transposed = self.forward.transpose(rows.base, columns, rows.grid.positions)
        convert(self.kernel, target, transposed, self.axis * self.width, rows.fmt, Format.FP32)

    def store(self, lanes: Value, count: Value, target: DdrTensor, first: Value, fmt: Format) -> None:
        """Write ``count`` FP32 lanes as rows of a tensor from element ``first``, rounded to ``fmt``.

        The tensor is in that format of 16 bits, or in FP32.
        """
        kernel, width = self.kernel, self.width
        narrow = kernel.buffer("narrow", _EACH * self.axis * width)
        convert(kernel, narrow, lanes, self.axis * width, Format.FP32, fmt)
        if self.joined and reorders(kernel, CompactSlice(width, 1, self.axis, _EACH, width), loading=False):
            self._store_joined(narrow, count, target, first, fmt)
            return
        if self.whole:
            with kernel.loop(self.whole) as plane:
                self._plane(self.back, narrow, plane, BLOCK, count, target, first, fmt)
        if self.edge is not None:
            self._plane(self.edge, narrow, self.whole, self.rest, count, target, first, fmt)

    def _store_joined(self, lanes: Value, count: Value, target: DdrTensor, first: Value, fmt: Format) -> None:
        """Transpose all planes, join them to rows, and write the rows as one run."""
        kernel, width, size = self.kernel, self.width, _EACH * BLOCK * self.width
        planes = kernel.buffer("planes", ceil_div(self.axis, BLOCK) * size + LINE_BYTES)
        with kernel.loop(self.whole) as plane:
            self.back.transpose(lanes + plane * size, width, into=planes + plane * size)
        if self.edge is not None:
            self.edge.transpose(lanes + self.whole * size, width, into=planes + self.whole * size)
        n, room = count * self.axis, width * self.axis
        rows: Value = kernel.buffer("joined", _EACH * room)
        out_of_planes(kernel, fmt, planes, rows, count, self.axis, pitch=width)
        if target.fmt is not fmt:
            rows = widened(kernel, rows, n, room, fmt)
        kernel.emit(f"wdma.{target.fmt.token}", dst=target.at(first), src=rows, n=n)

    def _plane(
        self,
        engine: ByteTransposer,
        lanes: Value,
        plane: Value,
        channels: int,
        count: Value,
        target: DdrTensor,
        first: Value,
        fmt: Format,
    ) -> None:
        """Transpose and write a plane of at most 64 channels of the rows, which has ``fmt``."""
        kernel, begin = self.kernel, plane * BLOCK
        rows = engine.transpose(lanes + begin * (_EACH * self.width), self.width)
        if channels != engine.width:
            compact = kernel.buffer("compact", _EACH * self.width * channels)
            kernel.emit(
                "td.gatherscatter",
                dst=compact,
                src0=rows,
                n=channels * _EACH,
                src_stride0=engine.width * _EACH,
                src_iter0=count,
                dst_stride0=channels * _EACH,
                dst_iter0=count,
            )
            rows = compact
        if target.fmt is not fmt:
            rows = widened(kernel, rows, count * channels, self.width * channels, fmt)
        loops = dma_loops((self.axis, 1), (count, channels))
        kernel.emit(f"wdma.{target.fmt.token}", dst=target.at(first + begin), src=rows, **loops)


def spread_over_lanes(kernel: Kernel, name: str, vector: Value, axis: int, width: int) -> Value:
    """FP32 [axis, width]: each of ``axis`` FP32 values in all lanes, by a product with ones.

    The values are exact to 22 bits.
    """
    ones = kernel.buffer("ones", 4 * width)
    kernel.emit("td.memset.tf32", dst=ones, value=1.0, n=width)
    high, low = kernel.buffer("high", 4 * axis), kernel.buffer("low", 4 * axis)
    convert(kernel, high, vector, axis, Format.FP32, Format.TF32)
    kernel.emit("ct.sub.vv.fp32", dst=low, src0=vector, src1=high, n=axis)
    convert(kernel, low, low, axis, Format.FP32, Format.TF32)
    table = kernel.buffer(name, 4 * axis * width)
    sizes: dict[str, Value | str] = {
        "b": ones,
        "out": table,
        "lt": 1,
        "rt": 1,
        "m": axis,
        "k": 1,
        "n": width,
        "out_format": "fp32",
    }
    kernel.emit("ne.gemm.tf32", a=high, **sizes)
    kernel.emit("ne.gemm.tf32", a=low, psum=table, **sizes)
    return table
