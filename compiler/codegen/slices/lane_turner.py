"""Rows as lanes and back, by the matrix engine: [R, axis] in 16-bit planes and FP32 [axis, R]."""

from __future__ import annotations

import numpy as np

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel
from compiler.graph import Array
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import Layout
from tx8isa.numbers.packing import pack, storage_dtype

from .aligned import BLOCK, Aligned
from .matrix_transpose import ByteTransposer, stored_width
from .precision import stored
from .tensors import DdrTensor, dma_loops
from .vector import convert

_EACH = 2
"""Bytes of an element of rows."""


def identity(k: Kernel, size: int, fmt: Format) -> Value:
    """The identity [size, size] in a format that the matrix engine takes, loaded once."""
    return loaded_matrix(k, "identity", np.eye(size), fmt)


def loaded_matrix(k: Kernel, name: str, matrix: Array, fmt: Format) -> Value:
    """A known matrix in a format that the matrix engine takes, loaded once."""
    image = pack(stored(matrix, fmt), fmt, Layout.CX).view(storage_dtype(fmt))
    buffer = k.buffer(name, image.nbytes)
    k.emit(f"rdma.{fmt.token}", dst=buffer, src=k.constant(f"{name}_data", fmt, image), n=image.size)
    return buffer


class LaneTurner:
    """Turns rows of ``axis`` elements, ``width`` of them at most, to lanes and back.

    Its tables lie in the scratchpad from here on.
    """

    def __init__(self, k: Kernel, axis: int, width: int) -> None:
        self.k, self.axis, self.width = k, axis, width
        self.whole, self.rest = divmod(axis, BLOCK)
        self.forward = ByteTransposer(k, _EACH, width, width)
        self.back = self.forward
        if width != BLOCK and self.whole:
            self.back = ByteTransposer(k, _EACH, BLOCK, BLOCK)
        self.edge = ByteTransposer(k, _EACH, self.rest, stored_width(self.rest)) if self.rest else None

    def to_lanes(self, rows: Aligned, target: Value) -> None:
        """target = the rows as FP32 lanes; those beyond the number of rows are 0."""
        columns = rows.planes * BLOCK + rows.tail
        turned = self.forward.turn(rows.base, columns, rows.grid.positions)
        convert(self.k, target, turned, self.axis * self.width, rows.fmt, Format.FP32)

    def store(self, lanes: Value, count: Value, target: DdrTensor, first: Value) -> None:
        """Write ``count`` FP32 lanes as rows of a tensor from element ``first`` on, rounded once."""
        k, width = self.k, self.width
        narrow = k.buffer("narrow", _EACH * self.axis * width)
        convert(k, narrow, lanes, self.axis * width, Format.FP32, target.fmt)
        if self.whole:
            with k.loop(self.whole) as plane:
                self._plane(self.back, narrow, plane, BLOCK, count, target, first)
        if self.edge is not None:
            self._plane(self.edge, narrow, self.whole, self.rest, count, target, first)

    def _plane(
        self,
        engine: ByteTransposer,
        lanes: Value,
        plane: Value,
        channels: int,
        count: Value,
        target: DdrTensor,
        first: Value,
    ) -> None:
        """A plane of at most 64 channels of the rows."""
        k, begin = self.k, plane * BLOCK
        rows = engine.turn(lanes + begin * (_EACH * self.width), self.width)
        if channels != engine.width:
            compact = k.buffer("compact", _EACH * self.width * channels)
            k.emit(
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
        loops = dma_loops((self.axis, 1), (count, channels))
        k.emit(f"wdma.{target.fmt.token}", dst=target.at(first + begin), src=rows, **loops)


def spread_over_lanes(k: Kernel, name: str, vector: Value, axis: int, width: int) -> Value:
    """FP32 [axis, width]: each of ``axis`` FP32 values in all lanes, to 22 bits: a product with ones."""
    ones = k.buffer("ones", 4 * width)
    k.emit("td.memset.tf32", dst=ones, value=1.0, n=width)
    high, low = k.buffer("high", 4 * axis), k.buffer("low", 4 * axis)
    convert(k, high, vector, axis, Format.FP32, Format.TF32)
    k.emit("ct.sub.vv.fp32", dst=low, src0=vector, src1=high, n=axis)
    convert(k, low, low, axis, Format.FP32, Format.TF32)
    table = k.buffer(name, 4 * axis * width)
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
    k.emit("ne.gemm.tf32", a=high, **sizes)
    k.emit("ne.gemm.tf32", a=low, psum=table, **sizes)
    return table
