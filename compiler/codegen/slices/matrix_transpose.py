"""Matrices in DDR transposed by the matrix engine, byte by byte.

The TDMA moves one element in two cycles. The matrix engine multiplies bytes as integers, which keeps every
bit pattern, NaN included. It also takes its left operand transposed. For elements of e bytes in a slice [R,
C]:

1. A product with a matrix of ones and zeros spreads the bytes of a column to all e places they may belong
to: spread[e*c + b, e*r + b'] = data[r, e*c + b].
2. A convolution with a window and a stride of e keeps, at each place, the byte that belongs there:
   transposed[c, e*r + b'] = sum over b of spread[e*c + b, e*r + b'] * (b == b').
   It is a depthwise one. For lines of up to four elements, as images have, it is one of all channels where
   that takes no longer: networks of images have that kind of command anyway, and the first of a kind is
   expensive.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel
from compiler.evaluation.sizes import here
from tx8isa.numbers.division import ceil_div, round_up
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import LINE_BYTES, SMALLEST_TAIL, Layout, block_channels
from tx8isa.numbers.limits import LARGEST_EXTENT
from tx8isa.numbers.packing import pack

from .long_runs import CompactSlice, into_planes, out_of_planes, reorders, stored_width
from .tensors import BLOCK, DdrTensor, Stretch, dma_loops, stretches, unravel
from .vector import convert

_PLANE_BYTES = block_channels(8)
"""Bytes of a line in a plane of INT8 elements, which all data here are for the matrix engine."""
_FEWEST_ROWS = 8
_MOST_TOGETHER = 8
"""The most pieces that become one part of the lines of the target."""
_RESERVED_BYTES = 16 * LINE_BYTES
"""Bytes kept free: the matrices of ones and zeros of short lines, and the ends of buffers."""
_UNIT = Format.FP16
"""A format whose planes of 64 elements have as many bytes as the engine's planes."""


@dataclass(frozen=True)
class Side:
    """The storage of matrices in DDR, in lines of adjacent elements.

    ``outer`` are the elements from one matrix to the next along each outer axis, ``step`` those from one line
    to the next. If ``planes`` is not 0, it is the number of lines, and each matrix is stored in planes of
    channels: a line has the channels of a position.
    """

    tensor: DdrTensor
    outer: tuple[int, ...]
    step: int
    planes: int = 0

    def matrix(self, index: Sequence[Value]) -> Value:
        """The element at which a matrix begins."""
        element: Value = 0
        for at, stride in zip(index, self.outer, strict=True):
            element = element + at * stride
        return element


@dataclass(frozen=True)
class _Slice:
    """``columns`` columns from ``begin``, of lines from ``row``, of the matrix ``index``."""

    index: list[Value]
    row: Value
    begin: Value
    columns: int


@dataclass(frozen=True)
class _Piece(Stretch):
    """Lines of the source that one product takes, and how they are stored in the target.

    ``width``: elements of a line of the result with padding; ``plane``: those of a line of the target's
    plane, 0 if it is compact; ``lane``: the position in that line at which the first of these pieces begins.
    """

    width: int
    plane: int = 0
    lane: int = 0


def transpose(
    kernel: Kernel, source: Side, target: Side, outer: tuple[int, ...], rows: int, columns: int
) -> None:
    """Write column c of the source's ``rows`` lines as line c of the target, in the target's format.

    ``outer`` are the extents of the outer axes that both sides have. The matrices that the engine multiplies
    by are loaded before the phase waits for earlier ones.
    """
    transposer = _SliceTransposer(kernel, source, target)
    most, width = transposer.slice_sizes(math.prod(outer), rows, columns)
    first = 0
    for piece in _pieces(target, rows, most):
        engine = ByteTransposer(kernel, transposer.each, piece.size, piece.width)
        kernel.await_earlier_phases()
        many, part = transposer.together(piece, math.prod(outer), columns, width)
        for stretch in stretches(columns, part):
            groups = piece.count // many
            count = math.prod(outer) * groups * stretch.count
            with kernel.items(count, first) as item:
                step, rest = item % stretch.count, item // stretch.count
                row = kernel.let(rest % groups * (many * piece.size) + piece.start)
                index = [kernel.let(at) for at in unravel(rest // groups, outer)]
                begin = kernel.let(step * stretch.size + stretch.start)
                taken = _Slice(index, row, begin, stretch.size)
                if many > 1:
                    transposer.join(taken, piece, many, engine)
                else:
                    data, stored = transposer.load(taken, piece.size)
                    transposer.store(taken, piece, engine.transpose(data, stored))
            first += count


def _pieces(target: Side, rows: int, most: int) -> Iterator[_Piece]:
    """Split the lines of the source into pieces of at most ``most`` elements; no piece crosses a plane of the
    target."""
    if not target.planes:
        for stretch in stretches(rows, most):
            width = stored_width(stretch.size) if stretch.size <= BLOCK else _PLANE_BYTES
            yield _Piece(stretch.start, stretch.size, stretch.count, width)
        return
    whole = rows // BLOCK * BLOCK
    if whole:
        yield _Piece(0, most, whole // most, most, BLOCK)
    plane = stored_width(rows - whole)
    for start in range(whole, rows, most):
        lane = start - whole
        yield _Piece(start, min(most, rows - start), 1, min(most, plane - lane), plane, lane)


@dataclass(frozen=True)
class _SliceTransposer:
    """Loads slices for the engine and stores its results.

    Elements are transposed in the format of fewer bytes, planes of channels always in that of the source.
    """

    kernel: Kernel
    source: Side
    target: Side

    @property
    def fmt(self) -> Format:
        """The format in which elements are transposed."""
        before, after = self.source.tensor.fmt, self.target.tensor.fmt
        return before if self.source.planes or before.bits <= after.bits else after

    @property
    def each(self) -> int:
        return self.fmt.bits // 8

    @property
    def block(self) -> int:
        """Elements of a line in a plane of the engine."""
        return _PLANE_BYTES // self.each

    def slice_sizes(self, matrices: int, rows: int, columns: int) -> tuple[int, int]:
        """Lines and columns of a slice: the largest that fits twice, with work for every tile."""
        kernel, each = self.kernel, self.each
        ends = self.source.tensor.bytes_each + self.target.tensor.bytes_each
        element_bytes = 2 * ends + each * (each + 2)
        most = self._line
        while most > _FEWEST_ROWS and 2 * BLOCK * most * element_bytes > kernel.budget:
            most //= 2
        lines = stored_width(rows) if rows < most else most
        fit = max((kernel.budget - _RESERVED_BYTES) // (2 * lines * element_bytes) // BLOCK * BLOCK, BLOCK)
        if self.source.planes and self.block > BLOCK:
            fit = BLOCK  # several planes of bytes in a row have another order than the engine's planes
        parts = ceil_div(kernel.target.tiles, here(matrices) * ceil_div(rows, most))
        width = min(round_up(ceil_div(columns, parts), BLOCK), fit, LARGEST_EXTENT)
        if self.block > BLOCK and any(part.size % self.block > BLOCK for part in stretches(columns, width)):
            width = BLOCK  # the TDMA pads what is left of a line in planes of 64
        return most, width

    @property
    def _line(self) -> int:
        """The largest number of elements of a line that are adjacent both in planes of the engine and in
        those of the target."""
        return min(self.block, BLOCK) if self.target.planes else self.block

    def together(self, piece: _Piece, matrices: int, columns: int, width: int) -> tuple[int, int]:
        """Return the pieces that become one part of a compact target's lines, and a slice's columns.

        A single piece gives lines of 128 bytes. Several pieces give as many planes, which are reordered.
        Longer lines of the target make those of the source shorter, so the chosen number minimizes the runs
        of both.
        """
        if self.target.planes or piece.size != self.block:
            return 1, width
        found = [(1, width)]
        for many in range(2, _MOST_TOGETHER + 1):
            part = width // many // BLOCK * BLOCK
            items = here(matrices) * (piece.count // many) * ceil_div(columns, max(part, 1))
            if part and piece.count % many == 0 and items >= self.kernel.target.tiles:
                found.append((many, part))
        many, part = min(found, key=lambda way: 1 / way[1] + 1 / (way[0] * piece.size))
        lines = CompactSlice(part, 1, many * BLOCK, _UNIT.bits // 8, 1)
        return (many, part) if many > 1 and reorders(self.kernel, lines, loading=False) else (1, width)

    def join(self, taken: _Slice, piece: _Piece, many: int, engine: ByteTransposer) -> None:
        """Transpose ``many`` pieces one after the other, and store them as parts of the same lines."""
        kernel, tensor, columns = self.kernel, self.target.tensor, taken.columns
        stored, wide = self._stored(columns), many * piece.size
        plane = stored * _PLANE_BYTES
        planes = kernel.buffer("planes", many * plane + LINE_BYTES)
        with kernel.loop(many) as part:
            row = kernel.let(taken.row + part * piece.size)
            data, _ = self.load(replace(taken, row=row), piece.size)
            engine.transpose(data, stored, into=planes + part * plane)
        lines = kernel.buffer("lines", columns * wide * self.each)
        out_of_planes(kernel, _UNIT, planes, lines, columns, many * BLOCK, pitch=stored)
        if tensor.fmt is not self.fmt:
            converted = kernel.buffer("converted", columns * wide * tensor.bytes_each)
            convert(kernel, converted, lines, columns * wide, self.fmt, tensor.fmt)
            lines = converted
        first = self.target.matrix(taken.index) + taken.begin * self.target.step + taken.row
        loops = dma_loops((self.target.step, 1), (columns, wide))
        kernel.emit(f"wdma.{tensor.fmt.token}", dst=tensor.at(first), src=lines, **loops)

    def _stored(self, columns: int) -> int:
        """Columns of a slice with padding."""
        rest = columns % (BLOCK if self.source.planes else self.block)
        return columns - rest + (stored_width(rest) if rest else 0)

    def load(self, taken: _Slice, rows: int) -> tuple[Value, int]:
        """Load a slice in planes of the engine: its address, and its number of columns with padding."""
        kernel, tensor = self.kernel, self.source.tensor
        rest, stored = taken.columns % self.block, self._stored(taken.columns)
        data = kernel.buffer("x", rows * stored * tensor.bytes_each + LINE_BYTES)
        if self.source.planes:
            self._load_planes(taken, rows, stored, data)
        else:
            self._load_lines(taken, rows, rest, data)
        if tensor.fmt is self.fmt:
            return data, stored
        narrow = kernel.buffer("narrow", rows * stored * self.each + LINE_BYTES)
        convert(kernel, narrow, data, rows * stored, tensor.fmt, self.fmt)
        return narrow, stored

    def _load_planes(self, taken: _Slice, rows: int, stored: int, data: Value) -> None:
        """Load planes of 64 channels, each in two halves if a line of the engine has 32, and the tail."""
        kernel, side = self.kernel, self.source
        tensor, first = side.tensor, side.matrix(taken.index) + taken.begin * side.planes
        whole, width = divmod(stored, BLOCK)
        if whole:
            part = min(self.block, BLOCK)
            extents = (whole, BLOCK // part, rows, part)
            loops = dma_loops((side.planes * BLOCK, part, BLOCK, 1), extents)
            source = tensor.at(first + taken.row * BLOCK)
            kernel.emit(f"rdma.{tensor.fmt.token}", dst=data, src=source, **loops)
        if width:
            source = tensor.at(first + whole * BLOCK * side.planes + taken.row * width)
            place = data + whole * BLOCK * rows * tensor.bytes_each
            kernel.emit(f"rdma.{tensor.fmt.token}", dst=place, src=source, n=rows * width)

    def _load_lines(self, taken: _Slice, rows: int, rest: int, data: Value) -> None:
        """Load parts of lines as long as the engine's lines; the TDMA pads a shorter rest.

        It divides whole lines instead if that takes less time.
        """
        kernel, side, whole = self.kernel, self.source, taken.columns // self.block
        tensor = side.tensor
        first = side.matrix(taken.index) + taken.row * side.step + taken.begin
        piece = CompactSlice(rows, 1, taken.columns, tensor.bytes_each, 1)
        if self.block == BLOCK and reorders(kernel, piece, loading=True):
            lines = kernel.buffer("lines", piece.bytes)
            loops = dma_loops((side.step, 1), (rows, taken.columns))
            kernel.emit(f"rdma.{tensor.fmt.token}", dst=lines, src=tensor.at(first), **loops)
            into_planes(kernel, tensor.fmt, data, lines, (1, rows), taken.columns)
            return
        if whole:
            loops = dma_loops((self.block, side.step, 1), (whole, rows, self.block))
            kernel.emit(f"rdma.{tensor.fmt.token}", dst=data, src=tensor.at(first), **loops)
        if rest:
            done = whole * self.block
            place = data + done * rows * tensor.bytes_each
            compact = rest != stored_width(rest)
            into = kernel.buffer("edge", rows * rest * tensor.bytes_each) if compact else place
            loops = dma_loops((side.step, 1), (rows, rest))
            kernel.emit(f"rdma.{tensor.fmt.token}", dst=into, src=tensor.at(first + done), **loops)
            if compact:
                shape: list[Value] = [1, rows, 1, rest]
                mnemonic = f"td.channelnorm.{tensor.fmt.token}"
                kernel.emit(mnemonic, dst=place, src0=into, shape=shape, dst_shape=shape)

    def store(self, taken: _Slice, piece: _Piece, data: Value) -> None:
        """Write lines of ``piece.width`` elements to their places in the target."""
        kernel, side, columns = self.kernel, self.target, taken.columns
        tensor = side.tensor
        if tensor.fmt is not self.fmt:
            wide = kernel.buffer("converted", columns * piece.width * tensor.bytes_each + LINE_BYTES)
            convert(kernel, wide, data, columns * piece.width, self.fmt, tensor.fmt)
            data = wide
        first = side.matrix(taken.index)
        if not side.planes:
            first = first + taken.begin * side.step + taken.row
            loops = dma_loops((side.step, 1), (columns, piece.size))
            data = self._compacted(columns, piece, data)
        else:
            lane: Value = taken.row % BLOCK if piece.plane == BLOCK and not piece.lane else piece.lane
            plane = (taken.row - lane) * side.planes
            first = first + plane + (taken.begin * piece.plane + lane)
            loops = dma_loops((piece.plane, 1), (columns, piece.width))
        kernel.emit(f"wdma.{tensor.fmt.token}", dst=tensor.at(first), src=data, **loops)

    def _compacted(self, columns: int, piece: _Piece, data: Value) -> Value:
        """The address of the lines without their padding."""
        if piece.size == piece.width:
            return data
        kernel, each = self.kernel, self.target.tensor.bytes_each
        compact = kernel.buffer("compact", columns * piece.size * each)
        kernel.emit(
            "td.gatherscatter",
            dst=compact,
            src0=data,
            n=piece.size * each,
            src_stride0=piece.width * each,
            src_iter0=columns,
            dst_stride0=piece.size * each,
            dst_iter0=columns,
        )
        return compact


@dataclass
class ByteTransposer:
    """Transposes ``rows`` lines of elements of ``each`` bytes into lines of ``width``, padded with zeros."""

    kernel: Kernel
    each: int
    rows: int
    width: int

    def __post_init__(self) -> None:
        each, places = self.each, np.arange(self.each * self.width)
        used = places[: each * self.rows]
        spread, keep = np.zeros((self.rows, len(places)), np.int8), np.zeros((each, len(places)), np.int8)
        spread[used // each, used] = 1
        keep[places % each, places] = 1
        self.all_channels = self.width <= SMALLEST_TAIL
        if self.all_channels:
            keep = (keep[:, :, None] * np.eye(len(places), dtype=np.int8)).reshape(-1, len(places))
        self.spread, self.keep = self._loaded([spread, keep] if each > 1 else [spread])

    def _loaded(self, matrices: Sequence[npt.NDArray[np.int8]]) -> tuple[Value, Value]:
        """Load constant matrices in the layout of the engine, by one command: the first and last address."""
        packed = [pack(matrix, Format.INT8, Layout.CX).view(np.int8) for matrix in matrices]
        lines = [np.pad(each, (0, -each.size % LINE_BYTES)) for each in packed]
        data = np.concatenate(lines)
        base = self.kernel.buffer("matrices", data.size)
        self.kernel.emit(
            "rdma.int8", dst=base, src=self.kernel.constant("matrices", Format.INT8, data), n=data.size
        )
        return base, base + (data.size - lines[-1].size)

    def transpose(
        self, data: Value, columns: int, rows: Value | None = None, into: Value | None = None
    ) -> Value:
        """Write the columns of a slice as lines: their address.

        ``rows`` is the number of lines if not all; ``into`` is the target if it is not a new buffer.
        """
        kernel, each, line = self.kernel, self.each, self.each * self.width
        taken = self.rows if rows is None else rows
        whole = each == 1  # there is one place that a byte may belong to
        spread = (
            into if whole and into is not None else kernel.buffer("bytes", columns * each * line + LINE_BYTES)
        )
        kernel.emit(
            "ne.gemm.int8", a=data, b=self.spread, out=spread, m=each * columns, k=taken, n=line, lt=1, rt=1
        )
        if whole:
            return spread
        transposed = kernel.buffer("turned", columns * line + LINE_BYTES) if into is None else into
        kernel.emit(
            "ne.conv.int8" if self.all_channels else "ne.dwconv.int8",
            a=spread,
            w=self.keep,
            out=transposed,
            shape=[1, columns, each, line],
            dst_shape=[1, columns, 1, line],
            window=[each, 1, each, 1],
        )
        return transposed
