"""Values that every tile has whole, with their channels in the pieces that the tiles computed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from compiler.codegen.expr import Value
from compiler.codegen.slices.aligned import TAIL_WIDTHS, Aligned, Grid
from compiler.codegen.slices.tensors import BLOCK
from compiler.codegen.slices.windows import Geometry
from tx8isa.numbers.division import round_up
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import LINE_BYTES


@dataclass(frozen=True)
class Share:
    """The channels of a value divided among tiles: ``width`` channels for each of the first ``tiles``."""

    width: int
    tiles: int

    @property
    def channels(self) -> int:
        """The channels of all shares."""
        return self.width * self.tiles

    @property
    def slices(self) -> tuple[int, int]:
        """The width and the number of slices that instructions read: whole planes are one slice."""
        return (self.channels, 1) if self.width % BLOCK == 0 else (self.width, self.tiles)


@lru_cache(maxsize=1024)
def share_of(channels: int, tiles: int) -> Share | None:
    """The narrowest equal shares of channels that engines can address; None if there are none.

    A share is a part of a plane that has a layout of its own, or whole planes.
    """
    most = -(-channels // BLOCK) * BLOCK
    for width in (*TAIL_WIDTHS, *range(BLOCK, most + 1, BLOCK)):
        if channels % width == 0 and channels // width <= tiles:
            return Share(width, channels // width)
    return None


@dataclass(frozen=True)
class ChannelPiece:
    """Consecutive channels of a value: ``count`` slices of ``width`` channels, ``pitch`` bytes apart."""

    base: Value
    width: int
    count: int
    pitch: int


@dataclass(frozen=True)
class Whole:
    """A value that every tile has whole; ``grid`` are all its positions."""

    fmt: Format
    grid: Grid
    pieces: tuple[ChannelPiece, ...]

    def slices(self) -> list[Aligned]:
        """All slices, in the order of channels."""
        return [
            Aligned(piece.base + number * piece.pitch, self.fmt, self.grid, piece.width)
            for piece in self.pieces
            for number in range(piece.count)
        ]

    def own(self, tile: Value, share: Share) -> Aligned | None:
        """The share of a tile; None if the value is divided otherwise."""
        if len(self.pieces) != 1:
            return None
        (piece,) = self.pieces
        if piece.count > 1:
            if piece.width != share.width:
                return None
            return Aligned(piece.base + tile * piece.pitch, self.fmt, self.grid, piece.width)
        if share.width % BLOCK:
            return None
        return Aligned(
            piece.base + tile * slice_bytes(self.grid, share.width, self.fmt),
            self.fmt,
            self.grid,
            share.width,
        )


def all_positions(geometry: Geometry) -> Grid:
    """All positions of a stage's result."""
    return Grid(geometry.rows, geometry.columns, geometry.rows)


def slice_bytes(grid: Grid, width: int, fmt: Format) -> int:
    """Bytes of a slice of ``width`` channels of all positions."""
    return grid.room * grid.width * width * fmt.bits // 8


def piece_of(base: Value, grid: Grid, fmt: Format, share: Share) -> ChannelPiece:
    """The shares of all tiles side by side; whole planes make one slice of all channels."""
    width, count = share.slices
    return ChannelPiece(base, width, count, pitch_of(grid, fmt, share) if count > 1 else 0)


def pitch_of(grid: Grid, fmt: Format, share: Share) -> int:
    """Bytes from a tile's share to the next tile's.

    Parts of planes begin at lines, except parts of bytes, because one instruction reads many as one image.
    """
    size = slice_bytes(grid, share.width, fmt)
    return size if share.width % BLOCK == 0 or fmt is Format.INT8 else round_up(size, LINE_BYTES)
