"""Adds bytes in stacks on the matrix engine, which multiplies, adds and includes zero points.

A slice is a matrix of rows of 16 elements, whatever its channels. Its product with a diagonal matrix is that
slice times a number. The sum of such products and a constant is FP32, and one conversion makes bytes of it.
The vector engine needs less than half of the time for that. Numbers have parts in FP16, so that they are as
exact as in FP32. As in ``pointwise/sums.py``, all pairs of bytes must have ONNX's sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Argument, Kernel
from compiler.codegen.slices.aligned import Aligned, narrowed_slice, slice_buffer, widened_slice
from compiler.codegen.slices.tensors import BLOCK
from compiler.codegen.slices.vector import Vector, convert
from compiler.graph import Array
from compiler.lowering.pointwise.sums import add_bytes
from compiler.operators.quantised.sums import SumQuantisation, summed_bytes
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import LINE_BYTES, aligned_channels

from .near_sums import ROW, NearSum, near_sum, near_summed_slice

_LAST_PARTS = 3
"""Parts of the constant addend; it is stored in as many lanes as the engine needs for it."""
_LAST_LANES = 4


@dataclass(frozen=True)
class SumParts:
    """Two factors, each the sum of two FP16 numbers, and a last addend, the sum of three."""

    left: tuple[float, ...]
    right: tuple[float, ...]
    last: tuple[float, ...]

    def bytes_of(self, how: SumQuantisation, a: Array, b: Array) -> Array:
        """The sum of bytes as the engines compute it: fused multiply-adds in FP32.

        A sum of an FP32 number and a product of these is exact in binary64.
        """
        total = np.zeros(np.broadcast_shapes(a.shape, b.shape), np.float32)
        terms: list[tuple[Array | float, float]] = [(1.0, part) for part in self.last]
        terms += [(data, part) for data, parts in ((a, self.left), (b, self.right)) for part in parts]
        for data, part in terms:
            total = (total.astype(np.float64) + np.asarray(data, np.float64) * part).astype(np.float32)
        return np.clip(np.rint(total), how.low, how.high).astype(np.int8)

    @property
    def matrices(self) -> Array:
        """The right operands of the products, contiguous: four diagonal ones, and the last number."""
        diagonals = [np.eye(ROW) * part for part in (*self.left, *self.right)]
        last = np.zeros((2 * ROW, _LAST_LANES))
        last[:ROW, :_LAST_PARTS] = self.last
        return np.concatenate([each.reshape(-1) for each in (*diagonals, last)]).astype(np.float16)


@lru_cache(maxsize=1024)
def sum_parts(how: SumQuantisation) -> SumParts | None:
    """Numbers with which every pair of bytes has ONNX's sum; None if none were found."""
    a, b = np.arange(-128, 128)[:, None], np.arange(-128, 128)[None, :]
    want = summed_bytes(how, a, b)
    return next((each for each in _candidates(how) if (each.bytes_of(how, a, b) == want).all()), None)


def _candidates(how: SumQuantisation) -> Iterator[SumParts]:
    """Yield the quotients of the scales, and numbers near them."""
    factors = [scale / how.y_scale for scale in (how.a_scale, how.b_scale)]
    if not all(2.0**-8 < each < 2.0**8 for each in factors):
        return
    near = (0, 1, -1, 2, -2)
    for steps in sorted(product(near, near, near), key=lambda each: sum(map(abs, each))):
        left, right = (_parts(each, 2, step) for each, step in zip(factors, steps[:2], strict=True))
        last = how.y_zero - how.a_zero * sum(left) - how.b_zero * sum(right)
        yield SumParts(left, right, _parts(last + steps[2] * 2.0**-18, _LAST_PARTS, 0))


def _parts(number: float, count: int, step: int) -> tuple[float, ...]:
    """FP16 numbers whose sum is close to a number; the last one is changed by ``step`` units in the last
    place."""
    found = list[float]()
    for _ in range(count):
        found.append(float(np.float16(number - sum(found))))
    found[-1] += step * float(np.spacing(np.float16(found[-1])))
    return tuple(found)


def sum_data(how: SumQuantisation) -> Array:
    """The matrices by which the engine multiplies the operands of a sum, as bytes that fill whole lines."""
    near, parts = near_numbers(how), sum_parts(how)
    if near is not None:
        data = near.data
    elif parts is not None:
        data = parts.matrices.view(np.uint8)
    else:
        data = np.zeros(0, np.uint8)
    return np.concatenate([data, np.zeros(-data.size % LINE_BYTES, np.uint8)])


def near_numbers(how: SumQuantisation) -> NearSum | None:
    """The numbers of a sum whose results may differ by one step."""
    return None if how.exact else near_sum(how)


def summed_slice(kernel: Kernel, how: SumQuantisation, a: Aligned, b: Aligned, matrices: Value) -> Aligned:
    """The sum of two slices of bytes, in a buffer of its own; ``matrices``: where its ``sum_data`` are."""
    near = near_numbers(how)
    if near is not None and aligned_channels(a.channels, BLOCK) % ROW == 0:
        return near_summed_slice(kernel, how, a, b, matrices, near)
    if sum_parts(how) is None or aligned_channels(a.channels, BLOCK) % ROW:
        wide = [widened_slice(kernel, each) for each in (a, b)]
        add_bytes(Vector(kernel, Format.FP32, wide[0].elements), how, wide[0].base, wide[1].base)
        return narrowed_slice(kernel, wide[0], Format.INT8)
    rows = a.elements // ROW
    ones = kernel.buffer("ones", 2 * _LAST_LANES * (a.room // ROW))
    kernel.emit("td.memset.fp16", dst=ones, value=1.0, n=rows * _LAST_LANES)
    total = slice_buffer(kernel, "total", Format.FP32, a.grid, a.channels)
    size = 2 * ROW * ROW
    common: dict[str, Argument] = {"out": total.base, "out_format": "fp32", "m": rows, "n": ROW}
    kernel.emit("ne.gemm.fp16", a=ones, b=matrices + 4 * size, k=_LAST_PARTS, **common)
    for at, data in enumerate((a, b)):
        half = slice_buffer(kernel, "half", Format.FP16, a.grid, a.channels)
        convert(kernel, half.base, data.base, data.elements, Format.INT8, Format.FP16)
        for part in (2 * at, 2 * at + 1):
            operands = common | {"k": ROW, "psum": total.base, "psum_format": "fp32"}
            kernel.emit("ne.gemm.fp16", a=half.base, b=matrices + part * size, **operands)
    vector = Vector(kernel, Format.FP32, total.elements)
    if how.low > np.iinfo(np.int8).min:
        vector.vs("max", total.base, total.base, how.low)
    if how.high < np.iinfo(np.int8).max:
        vector.vs("min", total.base, total.base, how.high)
    return narrowed_slice(kernel, total, Format.INT8)
