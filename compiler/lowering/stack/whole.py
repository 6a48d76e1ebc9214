"""Stacks divided by channels: the test for it, and the values that every tile has whole.

Their channels are in the pieces that the tiles computed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from compiler.codegen.expr import Value
from compiler.codegen.slices.aligned import TAIL_WIDTHS, Aligned, Grid, within_plane
from compiler.codegen.slices.tensors import BLOCK, DdrTensor
from compiler.lowering.conv.layer import Kind
from compiler.lowering.record import SequenceWork
from tx8isa.numbers.division import round_up
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import LINE_BYTES

from .stages import Stage, Stages


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

    def bytes(self, grid: Grid, fmt: Format) -> int:
        """Bytes of one share at all positions of a grid."""
        return grid.room * grid.width * self.width * fmt.bits // 8

    def pitch(self, grid: Grid, fmt: Format) -> int:
        """Bytes from a tile's share to the next tile's.

        Parts of planes begin at lines, except parts of bytes, because one instruction reads many as one
        image.
        """
        size = self.bytes(grid, fmt)
        return size if self.width % BLOCK == 0 or fmt is Format.INT8 else round_up(size, LINE_BYTES)

    def piece(self, base: Value, grid: Grid, fmt: Format) -> ChannelPiece:
        """The shares of all tiles side by side; whole planes make one slice of all channels."""
        width, count = self.slices
        return ChannelPiece(base, width, count, self.pitch(grid, fmt) if count > 1 else 0)


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
        return Aligned(piece.base + tile * share.bytes(self.grid, self.fmt), self.fmt, self.grid, share.width)


def can_gather(work: SequenceWork, stages: Stages, tiles: int, spm_bytes: int) -> bool:
    """True if the channels of every stage can be divided, and tiles have the channels that they need."""
    found = {stage.result.symbol: share_of(stage.result.shape[-1], tiles) for stage in stages.order}
    shares = {symbol: share for symbol, share in found.items() if share is not None}
    if stages.last.layer.batch > 1 or len(shares) < len(found):
        return False
    if max(_whole_bytes(stage, stages) for stage in stages.order) > spm_bytes:
        return False
    stored = all(within_plane(work.output.shape[-1], shares[symbol].width) for symbol in stages.places)
    return stored and all(_stage_fits(stage, stages, shares) for stage in stages.order)


def _whole_bytes(stage: Stage, stages: Stages) -> int:
    """Bytes that every tile holds whole while a stage is computed: image, result, and added values."""
    tensors = [stage.source, stage.result]
    tensors += [tensor for tensor in added_values(stage) if tensor.symbol in stages.made]
    return sum(tensor.bytes_each * math.prod(tensor.shape[1:]) for tensor in tensors)


def _stage_fits(stage: Stage, stages: Stages, shares: dict[str, Share]) -> bool:
    """True if products need no parts, and a tile's own channels of operands are its shares."""
    layer, share = stage.layer, shares[stage.result.symbol]
    if layer.fmt is Format.FP32 or stage.work.output.fmt is Format.FP32:
        return False
    own = [*added_values(stage), *([stage.source] if is_channelwise(stage) else [])]
    return all(
        shares.get(tensor.symbol) == share
        if tensor.symbol in stages.made
        else within_plane(tensor.shape[-1], share.width)
        for tensor in own
    )


def is_channelwise(stage: Stage) -> bool:
    """True if a channel of the result depends only on the same channel of the image."""
    return stage.layer.channelwise


def added_values(stage: Stage) -> Iterator[DdrTensor]:
    """Tensors of the shape of the result that a stage adds to it or combines with it."""
    if stage.layer.kind is Kind.SUM:
        yield stage.work.input(1)
    if stage.epilogue.residual is not None:
        yield stage.epilogue.residual
    for step in stage.epilogue.steps:
        yield from (t for t in step.operands if t is not None and t.value is None)
