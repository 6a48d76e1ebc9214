"""Vector instructions on scratchpad data of one format and length."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel
from compiler.evaluation.sizes import Size, least, most
from tx8isa.numbers.formats import Format

WIDE = (Format.FP32, Format.TF32)
"""Formats whose elements are FP32 words already."""

WORD = 4
"""Bytes of an FP32 element."""


@dataclass(frozen=True)
class Vector:
    """Emits element-wise instructions on ``n`` elements of ``fmt``; operands are scratchpad addresses."""

    kernel: Kernel
    fmt: Format
    n: Value

    def unary(self, name: str, dst: Value, src: Value) -> None:
        """dst = name(src)."""
        self.kernel.emit(f"ct.{name}.v.{self.fmt.token}", dst=dst, src0=src, n=self.n)

    def vv(self, name: str, dst: Value, src0: Value, src1: Value) -> None:
        """dst = src0 name src1, element by element."""
        self.kernel.emit(f"ct.{name}.vv.{self.fmt.token}", dst=dst, src0=src0, src1=src1, n=self.n)

    def vs(self, name: str, dst: Value, src0: Value, scalar: float | Size) -> None:
        """dst = src0 name scalar, which may be a size of the run."""
        if isinstance(scalar, Size):
            self.vuv(name, dst, src0, self._number(scalar), 1)
            return
        self.kernel.emit(f"ct.{name}.vs.{self.fmt.token}", dst=dst, src0=src0, src1=float(scalar), n=self.n)

    def _number(self, size: Size) -> Value:
        """The address of a size as an element of the format, rounded to nearest even."""
        integer, number = (self.kernel.buffer(name, WORD) for name in ("size", "number"))
        self.kernel.emit("td.memset.int32", dst=integer, value=size, n=1)
        convert(self.kernel, number, integer, 1, Format.INT32, self.fmt)
        return number

    def vuv(self, name: str, dst: Value, src0: Value, src1: Value, unit: int) -> None:
        """dst = src0 name src1, where src1 has ``unit`` (1 to 64) elements that repeat."""
        self.kernel.emit(
            f"ct.{name}.vuv.{self.fmt.token}", dst=dst, src0=src0, src1=src1, n=self.n, unit=unit
        )


def convert(kernel: Kernel, dst: Value, src: Value, n: Value, source: Format, target: Format) -> None:
    """dst = src in another format, rounded to nearest even."""
    kernel.emit(f"ct.cvt.{source.token}.{target.token}", dst=dst, src0=src, n=n)


def widened(kernel: Kernel, src: Value, n: Value, room: int, fmt: Format) -> Value:
    """The address of the data as FP32: in a new buffer, unless they are FP32 words already.

    ``room`` is the largest number of elements.
    """
    if fmt in WIDE:
        return src
    wide = kernel.buffer("wide", 4 * room)
    convert(kernel, wide, src, n, fmt, Format.FP32)
    return wide


def narrowed(kernel: Kernel, src: Value, n: Value, room: int, fmt: Format) -> Value:
    """The address of FP32 data rounded once to ``fmt``: in a new buffer, unless that is FP32."""
    if fmt is Format.FP32:
        return src
    narrow = kernel.buffer("narrow", fmt.bits // 8 * room)
    convert(kernel, narrow, src, n, Format.FP32, fmt)
    return narrow


def round_in_place(kernel: Kernel, data: Value, n: Value, room: int, fmt: Format) -> None:
    """Round FP32 data to numbers of ``fmt``; they stay in FP32. ``room``: the largest number of elements."""
    if fmt in WIDE and fmt is not Format.FP32:
        convert(kernel, data, data, n, Format.FP32, fmt)
    elif fmt is not Format.FP32:
        convert(kernel, data, narrowed(kernel, data, n, room, fmt), n, fmt, Format.FP32)


def spread_rows(kernel: Kernel, dst: Value, src: Value, rows: Value, columns: int, size: int) -> None:
    """Repeat element r of ``src``, of ``size`` bytes, ``columns`` times as row r of ``dst``.

    The rows (at most ``limits.MOST_MOVES``) are doubled until they are full. The strides of a load from DDR
    could repeat elements too, but the DMA would count each copy as a separate run.
    """
    step, done = columns * size, 0
    while done < most(columns):
        with kernel.if_below(done, columns):
            source, count, stride = (dst, least(done, columns - done), step) if done else (src, 1, size)
            kernel.emit(
                "td.gatherscatter",
                dst=dst + done * size,
                src0=source,
                n=count * size,
                src_stride0=stride,
                src_iter0=rows,
                dst_stride0=step,
                dst_iter0=rows,
            )
        done = 2 * done or 1


def repeat_rows(
    kernel: Kernel, target: Value, source: Value, size: Value, count: Value, times: Value
) -> None:
    """Repeat each of ``count`` rows of ``size`` bytes, which follow one another, ``times`` times."""
    kernel.emit(
        "td.gatherscatter",
        dst=target,
        src0=source,
        n=size,
        src_stride0=0,
        src_iter0=times,
        src_stride1=size,
        src_iter1=count,
        dst_stride0=size,
        dst_iter0=times * count,
    )
