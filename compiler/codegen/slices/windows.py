"""Sliding windows over blocks of output rows: which image rows a block needs, and what of its window is
padding."""

from __future__ import annotations

from dataclasses import dataclass, replace

from compiler.codegen.expr import Value, maximum, minimum
from compiler.codegen.kernel import Kernel
from compiler.operators.windows.geometry import Window
from tx8isa.numbers.limits import (
    LARGEST_DILATION,
    LARGEST_EXTENT,
    LARGEST_KERNEL,
    LARGEST_PAD,
    LARGEST_STRIDE,
    MOST_MOVES,
)

from .aligned import Grid, Place
from .shards import within


def limits(window: Window) -> str | None:
    """What of a window does not fit the engines' packed operands."""
    if max(window.kernel) > LARGEST_KERNEL:
        return f"kernels of at most {LARGEST_KERNEL}; found {list(window.kernel)}"
    if max(window.strides) > LARGEST_STRIDE or max(window.dilations) > LARGEST_DILATION:
        found = f"strides {list(window.strides)}, dilations {list(window.dilations)}"
        return f"strides and dilations of at most {LARGEST_STRIDE}; found {found}"
    if max(*window.pads_begin, *window.pads_end) > LARGEST_PAD:
        found = f"{list(window.pads_begin)} and {list(window.pads_end)}"
        return f"pads of at most {LARGEST_PAD}; found {found}"
    geometry = upright(window_geometry(window))
    if max(geometry.width, geometry.columns) > LARGEST_EXTENT:
        return f"rows of at most {LARGEST_EXTENT} positions; found {window.image[1]} to {window.output[1]}"
    return None


@dataclass(frozen=True)
class Geometry:
    """A window over an image of rows and columns; one of one axis has one column.

    The rows of the image are every ``row_step``-th that there are. ``whole``: blocks of output rows have the
    whole image, not only what they need of it.
    """

    height: int
    width: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    begin: tuple[int, int]
    rows: int
    columns: int
    row_step: int = 1
    whole: bool = False

    @property
    def extent(self) -> tuple[int, int]:
        """Rows and columns from the first to the last tap."""
        kernel, dilations = self.kernel, self.dilations
        return (kernel[0] - 1) * dilations[0] + 1, (kernel[1] - 1) * dilations[1] + 1

    @property
    def right(self) -> int:
        """Padding columns that the last window reaches."""
        reach = (self.columns - 1) * self.strides[1] + self.extent[1]
        return max(reach - self.width - self.begin[1], 0)

    def input_rows(self, rows: int) -> int:
        """Image rows that a block of ``rows`` output rows has, at most."""
        if self.whole:
            return self.height
        return min((rows - 1) * self.strides[0] + self.extent[0], self.height)

    def input_columns(self, columns: int) -> int:
        """Image columns that ``columns`` neighbouring output columns need, at most."""
        return min((columns - 1) * self.strides[1] + self.extent[1], self.width)


def window_geometry(window: Window) -> Geometry:
    """The window with two spatial axes."""

    def two(values: tuple[int, ...], other: int) -> tuple[int, int]:
        return (values[0], values[1]) if len(values) == 2 else (values[0], other)

    (height, width), (rows, columns) = two(window.image, 1), two(window.output, 1)
    return Geometry(
        height,
        width,
        two(window.kernel, 1),
        two(window.strides, 1),
        two(window.dilations, 1),
        two(window.pads_begin, 0),
        rows,
        columns,
    )


def upright(geometry: Geometry) -> Geometry:
    """The same windows over an image of one row as over one of one column, whose rows can be divided.

    Any other image, and windows that begin above the row or reach beyond it, stay.
    """
    if (geometry.height, geometry.rows, geometry.kernel[0], geometry.begin[0]) != (
        1,
        1,
        1,
        0,
    ) or geometry.row_step > 1:
        return geometry
    return Geometry(
        geometry.width,
        1,
        (geometry.kernel[1], 1),
        (geometry.strides[1], 1),
        (geometry.dilations[1], 1),
        (geometry.begin[1], 0),
        geometry.columns,
        1,
    )


def dense(geometry: Geometry) -> Geometry:
    """The same windows with all that lies between the first and the last tap as taps."""
    return replace(geometry, kernel=geometry.extent, dilations=(1, 1))


def skipping(geometry: Geometry) -> Geometry:
    """The same windows over the rows that they touch, if they are one row high."""
    if geometry.kernel[0] > 1 or geometry.strides[0] == 1:
        return geometry
    return replace(
        geometry, height=geometry.rows, strides=(1, geometry.strides[1]), row_step=geometry.strides[0]
    )


def flattened(geometry: Geometry, images: int) -> Geometry | None:
    """The positions of ``images`` images as rows of one column; None if windows are more than a position."""
    if geometry.kernel != (1, 1) or geometry.strides != (1, 1) or geometry.row_step > 1:
        return None
    positions = images * geometry.height * geometry.width
    return replace(geometry, height=positions, width=1, rows=positions, columns=1)


@dataclass(frozen=True)
class Columns:
    """Part of the rows of a result, of ``extent`` positions, and of an image, of ``width``.

    The first in the result and in the image.
    """

    begin: Value
    first: Value
    extent: int
    width: int


@dataclass(frozen=True)
class RowBlock:
    """A block of output rows and the image rows it needs: in both the first row, and a grid of positions.

    ``columns``: which part of the rows, None for all.
    """

    begin: Value
    output: Grid
    first: Value
    input: Grid
    pad: list[Value]
    row_step: int
    columns: Columns | None = None

    def source(self, image: Value, lane: Value = 0) -> Place:
        """Where its part of an image begins."""
        if self.columns is None:
            position = self.first * (self.row_step * self.input.width)
            return Place(image, position, lane, self.row_step)
        width = self.columns.width
        position = self.first * (self.row_step * width) + self.columns.first
        return Place(image, position, lane, self.row_step, width)

    def target(self, image: Value, lane: Value = 0) -> Place:
        """Where its part of the result begins."""
        if self.columns is None:
            return Place(image, self.begin * self.output.width, lane)
        extent = self.columns.extent
        return Place(image, self.begin * extent + self.columns.begin, lane, 1, extent)


def row_block(kernel: Kernel, geometry: Geometry, begin: Value, count: Value, rows: int) -> RowBlock:
    """Output rows begin .. begin + count - 1, at most ``rows``; what of their window is no image row is
    padding."""
    first, height, top, bottom = _reach(kernel, geometry, 0, begin, count, rows)
    pad = [top, bottom, geometry.begin[1], geometry.right]
    output, image = (
        Grid(count, geometry.columns, rows),
        Grid(height, geometry.width, geometry.input_rows(rows)),
    )
    return RowBlock(begin, output, first, image, pad, geometry.row_step)


def block_of_columns(
    kernel: Kernel, geometry: Geometry, block: RowBlock, begin: Value, count: Value, columns: int
) -> RowBlock:
    """Of the rows of a block the output positions begin .. begin + count - 1, at most ``columns``."""
    first, width, left, right = _reach(kernel, geometry, 1, begin, count, columns)
    output = replace(block.output, width=columns, columns=count)
    image = replace(block.input, width=geometry.input_columns(columns), columns=width)
    pad = [*block.pad[:2], left, right]
    part = Columns(begin, first, geometry.columns, geometry.width)
    return replace(block, output=output, input=image, pad=pad, columns=part)


def _reach(
    kernel: Kernel, geometry: Geometry, axis: int, begin: Value, count: Value, most: int
) -> tuple[Value, Value, Value, Value]:
    """What windows begin .. begin + count - 1 along an axis need of an image: the first row or column, how
    many, and how many before and behind them are padding."""
    size, whole = (geometry.height, geometry.whole) if axis == 0 else (geometry.width, False)
    room = geometry.input_rows(most) if axis == 0 else geometry.input_columns(most)
    step, extent = geometry.strides[axis], geometry.extent[axis]
    edge = begin * step - geometry.begin[axis]
    end = edge + ((count - 1) * step + extent)
    first = 0 if whole else kernel.let(minimum(maximum(edge, 0), size - 1))
    last = size if whole else maximum(minimum(end, size), first + 1)
    length = within(kernel.let(last - first), 1, room)
    before = within(maximum(first - edge, 0), 0, extent)
    behind = within(maximum(end - size, 0), 0, extent + step)
    return first, length, before, behind


def most_rows(geometry: Geometry) -> int:
    """Output rows beyond which a block has more rows or positions than instructions take."""
    rows = geometry.rows
    while rows > 1 and (
        max(rows * geometry.columns, geometry.input_rows(rows) * geometry.width) > MOST_MOVES
        or (
            max(geometry.columns, geometry.width) > 1
            and max(rows, geometry.input_rows(rows)) > LARGEST_EXTENT
        )
    ):
        rows -= max(1, rows // 16)
    return rows
