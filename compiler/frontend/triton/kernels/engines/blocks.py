"""Blocks in the scratchpad: new ones, repeated axes written out, the matrix engine's order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from compiler.codegen.expr import Value, bounds, maximum, minimum
from compiler.codegen.kernel import Argument, Kernel
from compiler.codegen.slices.tensors import BLOCK
from compiler.codegen.slices.vector import spread_rows
from compiler.frontend.triton.kernels.values import (
    ELEMENT_FORMATS,
    FLOAT_FORMATS,
    TRUTH,
    Computed,
    Indices,
    KernelValue,
    Region,
    Shape,
    Splat,
    SpmBlock,
    UnsupportedOperation,
)
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import INT8_BLOCK_CHANNELS, SMALLEST_TAIL
from tx8isa.numbers.limits import MOST_MOVES

from .exchange import exchange

_LOOPS = 3
"""Loops of a move in the scratchpad."""
_WORD = 32
"""Bits of the widest element that is filled by an instruction."""

_FEW_ROWS = 32
"""The most rows for which a smaller number of moves is better than few moved pieces."""

MadeByCore = Callable[[KernelValue, str], SpmBlock]
"""Makes a block from a value and its type."""


def strides_of(shape: Shape) -> tuple[int, ...]:
    """Return the elements from one index to the next of a row-major block."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


@dataclass
class BlockCode:
    """Makes and moves blocks in the code of a kernel.

    ``home`` is the block wanted for the next result, if it is of the same size, format and order: values that
    a loop carries stay in place.
    """

    kernel: Kernel
    home: SpmBlock | None = None
    landing: Callable[[int], Value] | None = None
    """Returns the address for the next loaded block, from its number of bytes."""
    made_by_core: MadeByCore | None = None
    """Makes a block of a value that the core has to compute."""

    def empty(
        self, element: str, fmt: Format, shape: Shape, stored: Sequence[bool], blocked: bool = False
    ) -> SpmBlock:
        """Return a block without content."""
        made = SpmBlock(0, element, fmt, shape, tuple(stored), blocked)
        return replace(made, address=self.kernel.buffer("block", made.count * made.size))

    def landed(self, element: str, fmt: Format, shape: Shape, stored: Sequence[bool]) -> SpmBlock:
        """Return a block for loaded data: where ``landing`` puts it, or a new one."""
        if self.landing is None:
            return self.empty(element, fmt, shape, stored)
        made = SpmBlock(0, element, fmt, shape, tuple(stored))
        return replace(made, address=self.landing(made.count * made.size))

    def result(self, element: str, shape: Shape, stored: Sequence[bool], blocked: bool = False) -> SpmBlock:
        """Return the block that is wanted for a result, or a new one."""
        fmt, home, self.home = ELEMENT_FORMATS[element], self.home, None
        wanted = SpmBlock(0, element, fmt, shape, tuple(stored), blocked)
        if home is not None and (home.fmt, home.kept, home.blocked) == (fmt, wanted.kept, blocked):
            return replace(wanted, address=home.address)
        return self.empty(element, fmt, shape, stored, blocked)

    def fill(self, data: SpmBlock, number: float) -> None:
        """Set all elements to one number; an integer for a block of integers."""
        if data.fmt.bits > _WORD:
            self._fill_wide(data, int(number))
            return
        value: Argument = float(number) if data.fmt.is_float else int(number) & ((1 << data.fmt.bits) - 1)
        self.kernel.emit(f"td.memset.{data.fmt.token}", dst=data.address, value=value, n=data.count)

    def _fill_wide(self, data: SpmBlock, number: int) -> None:
        """Fill elements of 64 bits: one half of all of them, then the other."""
        for half in range(2):
            at, word = half * (data.size // 2), number >> (half * _WORD) & ((1 << _WORD) - 1)
            loops: dict[str, Argument] = {"stride0": data.size, "iter0": data.count}
            self.kernel.emit("td.memset.int32", dst=data.address + at, value=word, n=1, **loops)

    def copy(self, target: SpmBlock, source: SpmBlock) -> None:
        """Copy the bytes of a block of the same extents and order."""
        size = source.count * source.size
        self.kernel.emit("td.gatherscatter", dst=target.address, src0=source.address, n=size)

    def copied(self, data: SpmBlock) -> SpmBlock:
        """Return a copy in a block of its own."""
        made = self.empty(data.element, data.fmt, data.shape, data.stored, data.blocked)
        self.copy(made, data)
        return made

    def single(self, splat: Splat) -> SpmBlock:
        """Return a known number as data, one element."""
        data = self.empty(
            splat.element, FLOAT_FORMATS[splat.element], splat.shape, (False,) * len(splat.shape)
        )
        self.fill(data, splat.number)
        return data

    def data(self, value: KernelValue) -> SpmBlock:
        """Return numbers and truth values as data; UnsupportedOperation for pointers and values known by a
        formula."""
        if isinstance(value, Splat):
            return self.single(value)
        if isinstance(value, SpmBlock):
            return self.straight(value)
        if isinstance(value, Region):
            return self.truth(value, Format.FP32)
        if isinstance(value, Computed):
            return self.typed(value, value.element)
        raise UnsupportedOperation("needs numbers, not positions or pointers")

    def typed(self, value: KernelValue, element: str) -> SpmBlock:
        """Return a value of a type as data, also if it is a formula."""
        if isinstance(value, Computed | Indices) and self.made_by_core is not None:
            return self.made_by_core(value, element)
        return self.data(value)

    # --- written-out axes ---------------------------------------------------------------------------------

    def spread(self, data: SpmBlock, stored: Sequence[bool]) -> SpmBlock:
        """Return the block with at least the axes ``stored`` written out, row-major if any was not."""
        missing = [
            axis for axis, wanted in enumerate(stored) if wanted and data.kept[axis] < data.shape[axis]
        ]
        if not missing:
            return data
        data = self.compact(data)
        for axis in reversed(missing):
            rows, inner = math.prod(data.kept[:axis]), math.prod(data.kept[axis + 1 :])
            if rows > MOST_MOVES:
                raise UnsupportedOperation(f"{rows} rows to repeat along axis {axis}; at most {MOST_MOVES}")
            kept = tuple(kept or at == axis for at, kept in enumerate(data.stored))
            made = self.empty(data.element, data.fmt, data.shape, kept)
            spread_rows(self.kernel, made.address, data.address, rows, data.shape[axis], inner * data.size)
            data = made
        return data

    def repeated(self, data: SpmBlock, times: int) -> SpmBlock:
        """Repeat the last axis of a block, which is kept once, ``times`` (a square number).

        For few rows two moves do it, each with the root of the repetitions: the queue of the TDMA is short,
        and while it is full the core issues nothing else. For many, moves of twice as much each are faster.
        """
        data = self.compact(data)
        shape, each = (*data.kept[:-1], times), math.isqrt(times)
        made = self.empty(data.element, data.fmt, shape, [extent > 1 for extent in shape])
        if data.count > _FEW_ROWS:
            spread_rows(self.kernel, made.address, data.address, data.count, times, data.size)
            return made
        part = self.kernel.buffer("part", data.count * each * data.size)
        for target, source, size in ((part, data.address, data.size), (made.address, part, each * data.size)):
            self.kernel.emit(
                "td.gatherscatter",
                dst=target,
                src0=source,
                n=size,
                src_stride0=0,
                src_iter0=each,
                src_stride1=size,
                src_iter1=data.count,
                dst_stride0=size,
                dst_iter0=each,
                dst_stride1=each * size,
                dst_iter1=data.count,
            )
        return made

    def full(self, value: KernelValue) -> SpmBlock:
        """Return a value as a row-major block with all axes written out."""
        if isinstance(value, Splat):
            data = self.empty(
                value.element, FLOAT_FORMATS[value.element], value.shape, (True,) * len(value.shape)
            )
            self.fill(data, value.number)
            return data
        data = self.data(value)
        return self.compact(self.spread(data, (True,) * len(data.shape)))

    # --- orders -------------------------------------------------------------------------------------------

    def compact(self, data: SpmBlock) -> SpmBlock:
        """Return the block in row-major order."""
        if not data.blocked:
            return data
        made = self.empty(data.element, data.fmt, data.shape, data.stored)
        for plane in range(data.shape[1] // BLOCK):
            self._move_plane(made, data, plane, BLOCK, to_planes=False)
        return made

    def planes(self, data: SpmBlock) -> SpmBlock:
        """Return a matrix in the matrix engine's order: in planes of 64, if it has more columns."""
        data = self.spread(data, (True, True))
        if data.blocked or data.shape[1] <= BLOCK:
            return self._wide_enough(data)
        return self._in_planes(data, BLOCK)

    def byte_planes(self, data: SpmBlock) -> SpmBlock:
        """Return a matrix of bytes in the engine's order: planes of 128 columns, if it has more."""
        data = self._wide_enough(self.compact(self.spread(data, (True, True))))
        return self._in_planes(data, INT8_BLOCK_CHANNELS) if data.shape[1] > INT8_BLOCK_CHANNELS else data

    def _wide_enough(self, data: SpmBlock) -> SpmBlock:
        """Return a matrix; UnsupportedOperation for one with fewer columns than a plane has."""
        columns = data.shape[1]
        if columns < SMALLEST_TAIL:
            allowed = f"the matrix engine takes at least {SMALLEST_TAIL}"
            raise UnsupportedOperation(f"a matrix of {columns} columns; {allowed}")
        return data

    def _in_planes(self, data: SpmBlock, width: int) -> SpmBlock:
        """Move a row-major matrix into planes of ``width`` columns."""
        made = self.empty(data.element, data.fmt, data.shape, data.stored, blocked=True)
        for plane in range(data.shape[1] // width):
            self._move_plane(made, data, plane, width, to_planes=True)
        return made

    def _move_plane(
        self, target: SpmBlock, source: SpmBlock, plane: int, width: int, to_planes: bool
    ) -> None:
        """Move one plane of ``width`` columns between the two orders."""
        (rows, columns), size = source.shape, source.size
        if rows > MOST_MOVES:
            raise UnsupportedOperation(f"a matrix of {rows} rows; at most {MOST_MOVES}")
        in_planes, in_rows = plane * rows * width * size, plane * width * size
        near, far = width * size, columns * size
        one, other = (in_rows, far), (in_planes, near)
        (source_at, source_step), (target_at, target_step) = (one, other) if to_planes else (other, one)
        self.kernel.emit(
            "td.gatherscatter",
            dst=target.address + target_at,
            src0=source.address + source_at,
            n=near,
            src_stride0=source_step,
            src_iter0=rows,
            dst_stride0=target_step,
            dst_iter0=rows,
        )

    def straight(self, data: SpmBlock) -> SpmBlock:
        """Return the block with its rows following each other."""
        return self.transposed(self.as_stored(data)) if data.turned else data

    def as_stored(self, data: SpmBlock) -> SpmBlock:
        """Return a turned block as the matrix that it is in memory, its transpose; others unchanged."""
        if not data.turned:
            return data
        return replace(data, shape=data.shape[::-1], stored=data.stored[::-1], turned=False)

    def transposed(self, data: SpmBlock) -> SpmBlock:
        """Return a row-major block of two axes with its axes exchanged."""
        if not all(data.stored):
            return data.viewed(data.shape[::-1], data.stored[::-1])
        made = self.empty(data.element, data.fmt, data.shape[::-1], data.stored[::-1])
        rows, columns = data.shape
        exchange(self.kernel, made, self.compact(data), (1, rows, columns), 1)
        return made

    # --- truth values -------------------------------------------------------------------------------------

    def truth(self, region: Region, fmt: Format) -> SpmBlock:
        """Return a region as data: 1 where it holds, 0 elsewhere."""
        axes = range(len(region.shape))
        made = self.empty(TRUTH, fmt, region.shape, [not region.whole(axis) for axis in axes])
        self.fill(made, 0.0)
        if not region.nowhere:
            with self.inside(region):
                self._fill_box(made, region)
        return made

    def _fill_box(self, data: SpmBlock, region: Region) -> None:
        """Write 1 in the box of a region, which is not empty."""
        steps = strides_of(data.kept)
        at: Value = data.address
        loops: list[tuple[Value, int]] = []
        for axis, step in enumerate(steps):
            if data.kept[axis] > 1:
                span = region.spans[axis]
                at = at + span.low * (step * data.size)
                loops.append((span.high - span.low, step * data.size))
        operands: dict[str, Argument] = {"n": loops.pop()[0] if loops else 1}
        if len(loops) > _LOOPS:
            raise UnsupportedOperation(f"a mask of {len(loops) + 1} axes; at most {_LOOPS + 1}")
        for level, (extent, stride) in enumerate(reversed(loops)):
            operands |= {f"stride{level}": stride, f"iter{level}": extent}
        self.kernel.emit(f"td.memset.{data.fmt.token}", dst=at, value=1.0, **operands)

    def fill_axis(self, data: SpmBlock, axis: int, low: Value, high: Value, number: float) -> None:
        """Fill a range of indices of an axis, which is not empty, with one number."""
        if data.blocked:
            self._fill_planes(data, axis, low, high, number)
            return
        outer, inner = math.prod(data.kept[:axis]), math.prod(data.kept[axis + 1 :])
        self.kernel.emit(
            f"td.memset.{data.fmt.token}",
            dst=data.address + low * (inner * data.size),
            value=number,
            n=(high - low) * inner,
            stride0=data.kept[axis] * inner * data.size,
            iter0=outer,
        )

    def _fill_planes(self, data: SpmBlock, axis: int, low: Value, high: Value, number: float) -> None:
        """Fill such a range in planes of 64 columns."""
        rows, columns = data.shape
        line, plane = BLOCK * data.size, rows * BLOCK * data.size
        operands = {"value": number, "stride0": plane, "iter0": columns // BLOCK}
        if axis == 0:
            size = (high - low) * BLOCK
            self.kernel.emit(f"td.memset.{data.fmt.token}", dst=data.address + low * line, n=size, **operands)
            return
        operands |= {"stride0": line, "iter0": rows}
        for first in range(0, columns, BLOCK):
            begin = self.kernel.let(minimum(maximum(low - first, 0), BLOCK))
            end = self.kernel.let(minimum(maximum(high - first, 0), BLOCK))
            if bounds(end)[1] <= bounds(begin)[0]:
                continue
            with self.when([(begin, end)]):
                at = data.address + first // BLOCK * plane + begin * data.size
                self.kernel.emit(f"td.memset.{data.fmt.token}", dst=at, n=end - begin, **operands)

    @contextmanager
    def inside(self, region: Region) -> Iterator[None]:
        """Run the code inside if a region holds anywhere."""
        spans = [(s.low, s.high) for axis, s in enumerate(region.spans) if not region.whole(axis)]
        with self.when((*region.conditions, *spans)):
            yield

    @contextmanager
    def when(self, conditions: Sequence[tuple[Value, Value]]) -> Iterator[None]:
        """Run the code inside if the first of every pair is smaller."""
        with ExitStack() as stack:
            for smaller, larger in conditions:
                stack.enter_context(self.kernel.if_below(smaller, larger))
            yield
