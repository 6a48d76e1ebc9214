"""Products with a row of minus ones: the matrix engine subtracts a number from a row, or widens the row.

An element of the row is the first value of a sum, and the only product of the sum is exact. So the results
have the bits that the vector engine would compute. A network has issued products before, so these need no
further kind of command, while a difference and a conversion each need one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.slices.aligned import aligned_bytes
from compiler.codegen.slices.precision import stored
from compiler.codegen.slices.tensors import DdrTensor
from tx8isa.cost.busy import busy_cycles
from tx8isa.numbers.division import round_up
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import LINE_BYTES

_SHORT = (Format.FP16, Format.BF16)
"""The formats whose numbers the engine multiplies without rounding, and adds up in FP32."""


def saves_kinds(target: Target, rows: int, axis: int, fmt: Format) -> bool:
    """True if products take a tile less time than conversion and difference of its ``rows`` rows of ``axis``.

    The difference and the conversion count with the first use of their kinds.
    """
    if fmt not in _SHORT:
        return False
    machine, issue = target.machine, target.machine.timing.issue
    sizes = {"m": 1, "k": 1, "n": axis, "out_format": int(Format.FP32)}
    product = busy_cycles(f"ne.gemm.{fmt.token}", machine, **sizes)
    vector = busy_cycles("ct.sub.vv.fp32", machine, n=axis)
    return rows * (product - 2 * vector) < 2 * issue.kind.value


@dataclass(frozen=True)
class RowProducts:
    """The right operand ``ones`` of products for rows of ``axis`` elements in ``fmt``, and a ``zero``."""

    kernel: Kernel
    axis: int
    fmt: Format
    ones: Value
    zero: Value

    @classmethod
    def loaded(cls, kernel: Kernel, axis: int, fmt: Format) -> RowProducts:
        """Load the operands, which are constants."""
        each = fmt.bits // 8
        count = round_up(axis, LINE_BYTES // each)
        data = stored(np.concatenate([np.full(count, -1.0), np.zeros(LINE_BYTES // each)]), fmt)
        source = DdrTensor(kernel.constant("minus_ones", fmt, data).symbol, fmt, data.shape)
        base = kernel.buffer("minus_ones", data.size * each)
        kernel.emit(f"rdma.{fmt.token}", dst=base, src=source.at(0), n=data.size)
        return cls(kernel, axis, fmt, base, base + count * each)

    def minus(self, row: Value, number: Value) -> Value:
        """The elements of a row less a number, both in ``fmt``, as FP32 in a new buffer."""
        target = self.kernel.buffer("wide", aligned_bytes(1, self.axis, Format.FP32))
        self._add(number, row, target)
        return target

    def widen(self, row: Value, target: Value) -> None:
        """Write the elements of a row as FP32."""
        self._add(self.zero, row, target)

    def _add(self, number: Value, row: Value, target: Value) -> None:
        """target = row - number."""
        self.kernel.emit(
            f"ne.gemm.{self.fmt.token}",
            a=number,
            b=self.ones,
            out=target,
            m=1,
            k=1,
            n=self.axis,
            rt=1,
            out_format=Format.FP32.token,
            psum=row,
            psum_format=self.fmt.token,
        )
