"""Sliding windows over blocks of output rows: the image rows that a block needs, and the padding."""

from __future__ import annotations

from dataclasses import dataclass, replace

from compiler.codegen.expr import Value, maximum, minimum
from compiler.codegen.kernel import Kernel
from compiler.evaluation.sizes import here, largest, least
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


def unsupported_window(window: Window) -> str | None:
    """The property of a window that the engines' packed operands cannot represent; None if there is none."""
    if max(window.kernel) > LARGEST_KERNEL:
        return f"kernels of at most {LARGEST_KERNEL}; found {list(window.kernel)}"
    if max(window.strides) > LARGEST_STRIDE or max(window.dilations) > LARGEST_DILATION:
        found = f"strides {list(window.strides)}, dilations {list(window.dilations)}"
        return f"strides and dilations of at most {LARGEST_STRIDE}; found {found}"
    if max(*window.pads_begin, *window.pads_end) > LARGEST_PAD:
        found = f"{list(window.pads_begin)} and {list(window.pads_end)}"
        return f"pads of at most {LARGEST_PAD}; found {found}"
    geometry = row_as_column(window_geometry(window))
    if max(geometry.width, geometry.columns) > LARGEST_EXTENT:
        return f"rows of at most {LARGEST_EXTENT} positions; found {window.image[1]} to {window.output[1]}"
    return None


@dataclass(frozen=True)
class Geometry:
    """Windows over an image of rows and columns; an image of one axis has one column.

    ``begin``: padding before the first row and column; ``rows`` and ``columns``: of the result. With a
    ``row_step`` of s the image consists of every s-th row in memory. ``whole``: blocks of output rows have
    the whole image, not only the rows that they need.
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
        """Columns of padding after the last one of the image."""
        reach = (self.columns - 1) * self.strides[1] + self.extent[1]
        right: int = largest(reach - self.width - self.begin[1], 0)
        return right

    def input_rows(self, rows: int) -> int:
        """The largest number of image rows of a block of ``rows`` output rows."""
        if self.whole:
            return self.height
        needed: int = least((rows - 1) * self.strides[0] + self.extent[0], self.height)
        return needed

    def input_columns(self, columns: int) -> int:
        """The largest number of image columns that ``columns`` neighbouring output columns need."""
        needed: int = least((columns - 1) * self.strides[1] + self.extent[1], self.width)
        return needed


def known_geometry(geometry: Geometry) -> Geometry:
    """The geometry with known sizes; dynamic ones have their present values in the range."""
    return replace(
        geometry,
        height=here(geometry.height),
        width=here(geometry.width),
        rows=here(geometry.rows),
        columns=here(geometry.columns),
    )


def window_geometry(window: Window) -> Geometry:
    """The geometry of a window of one or two spatial axes."""

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


def row_as_column(geometry: Geometry) -> Geometry:
    """An image of one row as an image of one column, whose rows can be divided among tiles.

    Other images, and windows that are higher than the row, are returned unchanged.
    """
    one_row = geometry.height == geometry.rows == geometry.kernel[0] == geometry.row_step == 1
    if not one_row or geometry.begin[0] != 0:
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


def with_dense_kernel(geometry: Geometry) -> Geometry:
    """Replace dilated windows by dense ones: every position from the first to the last tap is a tap."""
    return replace(geometry, kernel=geometry.extent, dilations=(1, 1))


def without_skipped_rows(geometry: Geometry) -> Geometry:
    """Read only every s-th row of the image, if windows are one row high and have a stride of s."""
    if geometry.kernel[0] > 1 or geometry.strides[0] == 1:
        return geometry
    return replace(
        geometry, height=geometry.rows, strides=(1, geometry.strides[1]), row_step=geometry.strides[0]
    )


def as_positions(geometry: Geometry, images: int) -> Geometry | None:
    """The positions of ``images`` images as rows of one column; None if a window has several positions."""
    if geometry.kernel != (1, 1) or geometry.strides != (1, 1) or geometry.row_step > 1:
        return None
    positions = images * geometry.height * geometry.width
    return replace(geometry, height=positions, width=1, rows=positions, columns=1)


@dataclass(frozen=True)
class ColumnRange:
    """A part of the columns: it begins at ``begin`` in the result and at ``first`` in the image.

    A row of the result has ``extent`` positions, a row of the image has ``width``.
    """

    begin: Value
    first: Value
    extent: int
    width: int


@dataclass(frozen=True)
class RowBlock:
    """A block of output rows from ``begin``, and the image rows from ``first`` that it needs.

    ``pad``: rows and columns of padding around these, [top, bottom, left, right]. ``columns`` is None for
    whole rows.
    """

    begin: Value
    output: Grid
    first: Value
    input: Grid
    pad: list[Value]
    row_step: int
    columns: ColumnRange | None = None

    def source(self, image: Value, lane: Value = 0) -> Place:
        """The place in the image where the rows begin."""
        if self.columns is None:
            position = self.first * (self.row_step * self.input.width)
            return Place(image, position, lane, self.row_step)
        width = self.columns.width
        position = self.first * (self.row_step * width) + self.columns.first
        return Place(image, position, lane, self.row_step, width)

    def target(self, image: Value, lane: Value = 0) -> Place:
        """The place in the result where the rows begin."""
        if self.columns is None:
            return Place(image, self.begin * self.output.width, lane)
        extent = self.columns.extent
        return Place(image, self.begin * extent + self.columns.begin, lane, 1, extent)


def row_block(kernel: Kernel, geometry: Geometry, begin: Value, count: Value, rows: int) -> RowBlock:
    """The block of output rows begin .. begin + count - 1; there are at most ``rows`` of them."""
    first, height, top, bottom = _image_range(kernel, geometry, 0, begin, count, rows)
    pad = [top, bottom, geometry.begin[1], geometry.right]
    output, image = (
        Grid(count, geometry.columns, rows),
        Grid(height, geometry.width, geometry.input_rows(rows)),
    )
    return RowBlock(begin, output, first, image, pad, geometry.row_step)


def block_of_columns(
    kernel: Kernel, geometry: Geometry, block: RowBlock, begin: Value, count: Value, columns: int
) -> RowBlock:
    """The part of a block with the columns begin .. begin + count - 1; there are at most ``columns``."""
    first, width, left, right = _image_range(kernel, geometry, 1, begin, count, columns)
    output = replace(block.output, width=columns, columns=count)
    image = replace(block.input, width=geometry.input_columns(columns), columns=width)
    pad = [*block.pad[:2], left, right]
    part = ColumnRange(begin, first, geometry.columns, geometry.width)
    return replace(block, output=output, input=image, pad=pad, columns=part)


def _image_range(
    kernel: Kernel, geometry: Geometry, axis: int, begin: Value, count: Value, most: int
) -> tuple[Value, Value, Value, Value]:
    """The image rows or columns that windows begin .. begin + count - 1 along an axis need.

    Returns the first, their number, and the padding before and after them.
    """
    size, whole = (geometry.height, geometry.whole) if axis == 0 else (geometry.width, False)
    room = geometry.input_rows(most) if axis == 0 else geometry.input_columns(most)
    step, extent = geometry.strides[axis], geometry.extent[axis]
    edge = begin * step - geometry.begin[axis]
    end = edge + ((count - 1) * step + extent)
    first = 0 if whole else kernel.let(minimum(maximum(edge, 0), size - 1))
    last = size if whole else maximum(minimum(end, size), first + 1)
    length = within(kernel.let(last - first), 1, room)
    before = within(maximum(first - edge, 0), 0, extent)
    after = within(maximum(end - size, 0), 0, extent + step)
    return first, length, before, after


def most_rows(geometry: Geometry) -> int:
    """Largest block of output rows whose rows and positions instructions can address."""
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
