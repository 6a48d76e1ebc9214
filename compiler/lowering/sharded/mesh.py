"""The mesh of tiles over which a sharded sequence is divided, and the parts of values that tiles hold.

A value is a matrix. Its rows are divided along the axis ``rows`` of the mesh: each tile has equally many
adjacent rows. Its columns are divided along the axis ``columns`` (*sharded*), or every tile has all columns
of its rows (*gathered*).
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.codegen.expr import Value
from compiler.codegen.phase import Target
from compiler.codegen.slices.aligned import Aligned, Grid
from compiler.codegen.slices.tensors import BLOCK
from compiler.lowering.record import Cut
from tx8isa.numbers.division import round_up
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import LINE_BYTES


@dataclass(frozen=True)
class Mesh:
    """Tiles along the two axes.

    ``pitch``: from a tile to the next in its mesh column. A mesh that fits into the grid of the chip has the
    pitch of the grid, so that copies within its rows and columns take few links; others take the first tiles.
    """

    rows: int
    columns: int
    pitch: int

    @property
    def size(self) -> int:
        return self.rows * self.columns

    @property
    def tiles(self) -> int:
        """The set of its tiles, with bit t for tile t."""
        return sum(((1 << self.columns) - 1) << (row * self.pitch) for row in range(self.rows))

    def cut(self) -> Cut:
        """This mesh as a cut, the form in which the search stores it."""
        return Cut((("rows", self.rows), ("columns", self.columns)))


def mesh_on(target: Target, rows: int, columns: int) -> Mesh:
    """A mesh of tiles of a chip; it follows the grid of the chip if all its tiles take part."""
    grid = target.machine.grid
    fits = target.tiles == grid.x * grid.y and rows <= grid.x and columns <= grid.y
    return Mesh(rows, columns, grid.y if fits else columns)


def mesh_of(target: Target, cut: Cut) -> Mesh:
    """The mesh of a cut."""
    return mesh_on(target, cut.parts("rows"), cut.parts("columns"))


@dataclass(frozen=True)
class ShardedMatrix:
    """This tile's columns of its rows, as a slice of ``width`` channels.

    ``single``: the address of the FP32 values before rounding, if these are kept.
    """

    base: Value
    fmt: Format
    rows: int
    width: int
    single: Value | None = None

    @property
    def slice(self) -> Aligned:
        return Aligned(self.base, self.fmt, Grid(self.rows, 1, self.rows), self.width)

    @property
    def bytes(self) -> int:
        return self.rows * self.width * self.fmt.bits // 8


@dataclass(frozen=True)
class Gathered:
    """All columns of this tile's rows, in whole planes; the tiles of a mesh row contribute in order."""

    base: Value
    fmt: Format
    rows: int
    channels: int

    @property
    def slice(self) -> Aligned:
        return Aligned(self.base, self.fmt, Grid(self.rows, 1, self.rows), self.channels)

    def sharded(self, column: Value, columns: int) -> ShardedMatrix:
        """The share of column ``column`` of the mesh, of ``columns``."""
        width = self.channels // columns
        pitch = self.rows * width * self.fmt.bits // 8
        return ShardedMatrix(self.base + column * pitch, self.fmt, self.rows, width)


@dataclass(frozen=True)
class Heads:
    """Matrices [rows, depth] of heads, one after another; ``rows`` are this tile's, or all."""

    base: Value
    fmt: Format
    count: int
    rows: int
    depth: int

    @property
    def head_bytes(self) -> int:
        return self.rows * self.depth * self.fmt.bits // 8

    def part(self, first: int, count: int) -> Heads:
        """Some of the heads."""
        return Heads(self.base + first * self.head_bytes, self.fmt, count, self.rows, self.depth)


def whole_planes(columns: int, parts: int) -> bool:
    """True if each of ``parts`` equal parts of the columns consists of whole planes."""
    return columns % (parts * BLOCK) == 0


def whole_lines(size: int) -> bool:
    """True if ``size`` bytes end at the end of a line: engines write whole lines."""
    return round_up(size, LINE_BYTES) == size
