"""Sliding windows in blocks of output rows: which image rows each needs, and what of its window is
padding."""

from __future__ import annotations

from dataclasses import dataclass, replace

from compiler.operators.window import Window

from .aligned import MOST_POSITIONS, Grid
from .expr import Value, Variable, add, ceil_div, maximum, minimum, multiply, subtract
from .kernel import Kernel
from .spm import SpmOverflow

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
    """A window over an image of rows and columns; one of one axis has one column."""

    height: int
    width: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    begin: tuple[int, int]
    rows: int
    columns: int

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
        """Image rows that ``rows`` output rows need, at most."""
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


@dataclass(frozen=True)
class RowBlock:
    """A block of output rows and the image rows it needs."""

    begin: Value
    output: Grid
    first: Value
    input: Grid
    pad: list[Value]


def row_block(k: Kernel, g: Geometry, block: Value, rows: int) -> RowBlock:
    """Output rows block*rows ..., at most ``rows``; what of their window is no image row is padding."""
    begin = k.let(multiply(block, rows))
    count = k.let(minimum(rows, subtract(g.rows, begin)))
    top_edge = subtract(multiply(begin, g.strides[0]), g.begin[0])
    reach = add(multiply(subtract(count, 1), g.strides[0]), g.extent[0])
    end = add(top_edge, reach)
    first = k.let(minimum(maximum(top_edge, 0), g.height - 1))
    last = maximum(minimum(end, g.height), add(first, 1))
    height = k.let(subtract(last, first))
    top = k.let(maximum(subtract(first, top_edge), 0))
    bottom = k.let(maximum(subtract(end, g.height), 0))
    room = g.input_rows(rows)
    if not isinstance(height, int):
        height = _within(height, 1, room)
    top, bottom = _within(top, 0, g.extent[0]), _within(bottom, 0, g.extent[0] + g.strides[0])
    pad = [top, bottom, g.begin[1], g.right]
    return RowBlock(begin, Grid(count, g.columns, rows), first, Grid(height, g.width, room), pad)


def _within(value: Value, low: int, high: int) -> Value:
    """The same value with a range that the geometry guarantees and interval arithmetic cannot see."""
    return value if not isinstance(value, Variable) else replace(value, low=low, high=min(high, value.high))


def rows_per_block(k: Kernel, g: Geometry, per_row_out: int, per_row_in: int, fixed: int, items: int) -> int:
    """Output rows of a slice: as many as fit, fewer where the tiles would have nothing to do."""
    rows = min(g.rows, max(1, ceil_div(g.rows * items, k.target.tiles)))
    while rows > 1 and (
        rows * per_row_out + g.input_rows(rows) * per_row_in + fixed > k.budget
        or max(rows * g.columns, g.input_rows(rows) * g.width) > MOST_POSITIONS
        or max(rows, g.input_rows(rows)) > _LARGEST_EXTENT
    ):
        rows -= max(1, rows // 8)
    if rows * per_row_out + g.input_rows(rows) * per_row_in + fixed > k.target.spm_bytes:
        raise SpmOverflow(f"one row of output and {g.input_rows(rows)} of input do not fit the SPM")
    return rows
