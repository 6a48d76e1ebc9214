"""Sliding windows over blocks of output rows: which image rows a block needs, and what of its window is
padding."""

from __future__ import annotations

from dataclasses import dataclass, replace

from compiler.operators.window import Window

from .aligned import MOST_POSITIONS, Grid, Place
from .dealing import within
from .expr import Value, add, maximum, minimum, multiply, subtract
from .kernel import Kernel

_LARGEST_KERNEL, _LARGEST_STEP, _LARGEST_EXTENT = 255, 1023, 4096


def limits(window: Window) -> str | None:
    """What of a window does not fit the engines' packed operands."""
    if max(window.kernel) > _LARGEST_KERNEL:
        return f"kernels of at most {_LARGEST_KERNEL}; found {list(window.kernel)}"
    if max(*window.strides, *window.dilations) > _LARGEST_STEP:
        found = f"strides {list(window.strides)}, dilations {list(window.dilations)}"
        return f"strides and dilations of at most {_LARGEST_STEP}; found {found}"
    if max(*window.pads_begin, *window.pads_end) > _LARGEST_STEP:
        found = f"{list(window.pads_begin)} and {list(window.pads_end)}"
        return f"pads of at most {_LARGEST_STEP}; found {found}"
    if len(window.image) == 2 and max(window.image[1], window.output[1]) > _LARGEST_EXTENT:
        return f"rows of at most {_LARGEST_EXTENT} positions; found {window.image[1]} to {window.output[1]}"
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


def geometry(window: Window) -> Geometry:
    """The window with two spatial axes."""

    def two(values: tuple[int, ...], other: int) -> tuple[int, int]:
        return (values[0], values[1]) if len(values) == 2 else (values[0], other)

    (height, width), (rows, columns) = two(window.image, 1), two(window.output, 1)
    return Geometry(
        height, width, two(window.kernel, 1), two(window.strides, 1), two(window.dilations, 1),
        two(window.pads_begin, 0), rows, columns,
    )  # fmt: skip


def skipping(g: Geometry) -> Geometry:
    """The same windows over the rows that they touch, if they are one row high."""
    if g.kernel[0] > 1 or g.strides[0] == 1:
        return g
    return replace(g, height=g.rows, strides=(1, g.strides[1]), row_step=g.strides[0])


def flattened(g: Geometry, images: int) -> Geometry | None:
    """The positions of ``images`` images as rows of one column; None if windows are more than a position."""
    if g.kernel != (1, 1) or g.strides != (1, 1) or g.row_step > 1:
        return None
    positions = images * g.height * g.width
    return replace(g, height=positions, width=1, rows=positions, columns=1)


@dataclass(frozen=True)
class RowBlock:
    """A block of output rows and the image rows it needs: in both the first row, and a grid of positions."""

    begin: Value
    output: Grid
    first: Value
    input: Grid
    pad: list[Value]
    row_step: int

    def source(self, image: Value, lane: Value = 0) -> Place:
        """Where its part of an image begins."""
        position = multiply(self.first, self.row_step * self.input.width)
        return Place(image, position, lane, self.row_step)

    def target(self, image: Value, lane: Value = 0) -> Place:
        """Where its part of the result begins."""
        return Place(image, multiply(self.begin, self.output.width), lane)


def row_block(k: Kernel, g: Geometry, begin: Value, count: Value, rows: int) -> RowBlock:
    """Output rows begin .. begin + count - 1, at most ``rows``; what of their window is no image row is
    padding."""
    top_edge = subtract(multiply(begin, g.strides[0]), g.begin[0])
    reach = add(multiply(subtract(count, 1), g.strides[0]), g.extent[0])
    end = add(top_edge, reach)
    first = 0 if g.whole else k.let(minimum(maximum(top_edge, 0), g.height - 1))
    last = g.height if g.whole else maximum(minimum(end, g.height), add(first, 1))
    room = g.input_rows(rows)
    height = within(k.let(subtract(last, first)), 1, room)
    top = within(maximum(subtract(first, top_edge), 0), 0, g.extent[0])
    bottom = within(maximum(subtract(end, g.height), 0), 0, g.extent[0] + g.strides[0])
    pad = [top, bottom, g.begin[1], g.right]
    output, image = Grid(count, g.columns, rows), Grid(height, g.width, room)
    return RowBlock(begin, output, first, image, pad, g.row_step)


def most_rows(g: Geometry) -> int:
    """Output rows beyond which a block has more rows or positions than instructions take."""
    rows = g.rows
    while rows > 1 and (
        max(rows * g.columns, g.input_rows(rows) * g.width) > MOST_POSITIONS
        or (max(g.columns, g.width) > 1 and max(rows, g.input_rows(rows)) > _LARGEST_EXTENT)
    ):
        rows -= max(1, rows // 16)
    return rows
