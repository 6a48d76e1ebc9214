"""Adds bytes by products on the matrix engine alone, if results may differ by one step.

A slice is a matrix of rows of 16 bytes, whatever its channels, and its product with a diagonal matrix is that
slice times a whole number. Two such products for each operand are added in int32, and the engine's own steps
make bytes of them. The exact method (``sums``) takes three passes of the vector engine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Argument, Kernel
from compiler.codegen.slices.aligned import Aligned, slice_buffer
from compiler.graph import Array
from compiler.operators.quantised.sums import SumQuantisation
from tx8isa.numbers.formats import Format

from .engine_chain import MOST_WRONG

ROW = 16
"""Elements of a row; the engine takes this many in a step."""
_ZERO = -128
"""The zero point of a matrix: its numbers are 0 to 255."""
_LARGEST = 2 * 255
"""The largest factor of an operand."""
_SMALLEST_UNIT = 320
"""Numbers of this size are exact enough; smaller ones are not tried."""
_SHIFT = 3
"""Sums of two products with the largest number have 18 bits and a sign; the chain takes 16 of these."""
_SHORT = np.iinfo(np.int16)


@dataclass(frozen=True)
class NearSum:
    """Integer factors of both operands; the bias, factor and shift that turn their sum into bytes."""

    left: int
    right: int
    bias: int
    scale: int
    q0: int
    relu: bool

    @property
    def data(self) -> Array:
        """Matrices, biases and scales as bytes, contiguous."""
        parts = [min(self.left, 255), max(0, self.left - 255), min(self.right, 255), max(0, self.right - 255)]
        matrices = np.stack([np.eye(ROW) * part + _ZERO for part in parts]).astype(np.int8)
        found: list[Array] = [matrices, np.full(ROW, self.bias, np.int32), np.full(ROW, self.scale, np.int16)]
        return np.concatenate([each.reshape(-1).view(np.uint8) for each in found])

    @property
    def _unit(self) -> float:
        """Steps of a sum of 1."""
        return math.ldexp(self.scale, -_SHIFT - self.q0)

    def of_factors(self, how: SumQuantisation) -> float:
        """Largest error of a sum in steps by factors that are not exact."""
        left, right = how.a_scale / how.y_scale, how.b_scale / how.y_scale
        return float(255 * (abs(self.left * self._unit - left) + abs(self.right * self._unit - right)))

    def wrong(self, how: SumQuantisation) -> float:
        """Largest error of a sum in steps, before it is rounded."""
        return float(self.of_factors(how) + self._unit * (2**_SHIFT + 1) / 2)


@lru_cache(maxsize=1024)
def near_sum(how: SumQuantisation) -> NearSum | None:
    """Numbers with exact factors, or with the least error; None if it is more than a fraction of a step."""
    relu = how.low > _ZERO
    if how.high < -_ZERO - 1 or (relu and how.low != how.y_zero) or (relu and how.y_zero not in (0, _ZERO)):
        return None
    factors = how.a_scale / how.y_scale, how.b_scale / how.y_scale
    found = [each for unit in range(_SMALLEST_UNIT, _LARGEST + 1) if (each := _candidate(how, factors, unit))]
    best = min(found, key=lambda each: (each.of_factors(how) > 0.0, each.wrong(how)), default=None)
    return best if best is not None and best.wrong(how) <= MOST_WRONG else None


def _candidate(how: SumQuantisation, factors: tuple[float, float], most: int) -> NearSum | None:
    """The numbers, scaled so that the larger integer is ``most``."""
    unit = max(factors) / most
    left, right = (round(each / unit) for each in factors)
    q0 = math.floor(math.log2(_SHORT.max / unit)) - _SHIFT
    if not 1 <= q0 <= 31:
        return None
    scale = round(math.ldexp(unit, _SHIFT + q0))
    whole = math.ldexp(scale, -_SHIFT - q0)
    bias = round((0.5 + how.y_zero) / whole) + (2**_SHIFT >> 1)
    return NearSum(left, right, bias, scale, q0, how.low > _ZERO)


def near_summed_slice(
    kernel: Kernel, how: SumQuantisation, a: Aligned, b: Aligned, data: Value, numbers: NearSum
) -> Aligned:
    """The sum of two slices of bytes, in a buffer of its own; ``data``: where its numbers are."""
    sums = slice_buffer(kernel, "sums", Format.INT32, a.grid, a.channels)
    result = slice_buffer(kernel, "bytes", Format.INT8, a.grid, a.channels)
    size, vectors = ROW * ROW, data + 4 * ROW * ROW
    last: dict[str, Argument] = {"bias": vectors, "scale_p": vectors + 4 * ROW}
    last |= {"q1": _SHIFT, "q0": numbers.q0} | ({"relu": 1} if numbers.relu else {})
    for at, (image, zero) in enumerate(((a, how.a_zero), (a, how.a_zero), (b, how.b_zero), (b, how.b_zero))):
        target = sums if at < 3 else result
        operands: dict[str, Argument] = {} if at < 3 else dict(last)
        if at:
            operands |= {"psum": sums.base, "psum_format": "int32"}
        kernel.emit(
            "ne.gemm.int8",
            out=target.base,
            out_format=target.fmt.token,
            m=a.elements // ROW,
            k=ROW,
            n=ROW,
            a=image.base,
            b=data + at * size,
            zp_a=zero & 0xFF,
            zp_b=_ZERO & 0xFF,
            **operands,
        )
    return result
