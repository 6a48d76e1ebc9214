"""The place of each element of a tensor in memory: two compact and two channel-blocked layouts.

The rules are those of docs/isa.md, Layouts (spec, checked against board spans). A blocked batch is
``full_blocks`` planes of HW x block elements followed by one plane of HW x tail elements; each batch
starts on a 256-byte line. The module-level functions on ints hold the arithmetic. They use only 64-bit
integers and names of this module. So Numba compiles them unchanged, and kernels and tools share one
definition.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import prod

from tx8isa.errors import Tx8Error

from .formats import Format


class LayoutError(Tx8Error):
    """A tensor that no layout rule places, or an element outside it."""


class Layout(IntEnum):
    """The order of storage, with the vendor library's number (docs/isa.md, Layouts, spec)."""

    TENSOR = 0
    """Plain row-major, no padding; the name for dimension 0 equal to 1."""
    CX = 33
    """Channel-blocked, one volume: HW is the product of all dimensions but the last."""
    NTENSOR = 34
    """Plain row-major, no padding; the name for dimension 0 greater than 1."""
    NCX = 35
    """Channel-blocked, one volume per index of dimension 0."""

    @property
    def token(self) -> str:
        """Spelling in assembly, images and graphs: ``ncx``."""
        return self.name.lower()

    @property
    def blocked(self) -> bool:
        return self in (Layout.CX, Layout.NCX)

    @classmethod
    def parse(cls, token: str) -> Layout:
        """Return the layout spelt ``token``; LayoutError names the allowed ones."""
        try:
            return cls[token.upper()]
        except KeyError:
            allowed = " ".join(layout.token for layout in cls)
            raise LayoutError(f"unknown layout '{token}': expected one of {allowed}") from None


LINE_BYTES = 256
"""Each blocked batch starts on, and fills up to, a multiple of this: 2048 bits, one SPM bank line (spec)."""

BLOCK_CHANNELS, INT8_BLOCK_CHANNELS = 64, 128
"""Channels in one plane, and in one of INT8 elements (spec)."""

SMALLEST_TAIL = 4
"""Channels in the narrowest tail plane (spec)."""

BLOCKED_FORMATS = tuple(fmt for fmt in Format if fmt is not Format.BOOL and fmt.bits <= 32)
"""Formats with a blocked placement. The vendor leaves BOOL and the 64-bit ones undefined; refusing them
is our rule (docs/isa.md, Channel split, proposed)."""


def block_channels(bits: int) -> int:
    """Channels in one block for elements of ``bits`` storage bits: 128 for one byte, else 64."""
    return INT8_BLOCK_CHANNELS if bits == 8 else BLOCK_CHANNELS


def full_blocks(channels: int, block: int) -> int:
    """Cx: number of planes of ``block`` channels; a remainder above half a block takes a whole one."""
    return channels // block + (1 if 2 * (channels % block) > block else 0)


def tail_width(channels: int, block: int) -> int:
    """C0: channels stored by the tail plane, 0 without one, else 4, 8, 16, 32 (or 64 when block is 128)."""
    remainder = channels % block
    if remainder == 0 or 2 * remainder > block:
        return 0
    width = SMALLEST_TAIL
    while width < remainder:
        width *= 2
    return width


def aligned_channels(channels: int, block: int) -> int:
    """Channels that are stored, padding lanes included."""
    return full_blocks(channels, block) * block + tail_width(channels, block)


def used_bytes(hw: int, channels: int, bits: int) -> int:
    """Bytes of one blocked batch before it is rounded up to whole lines."""
    return hw * aligned_channels(channels, block_channels(bits)) * (bits // 8)


def batch_bytes(hw: int, channels: int, bits: int) -> int:
    """Bytes from the start of one blocked batch to the next, the gap at its end included."""
    return (used_bytes(hw, channels, bits) + LINE_BYTES - 1) // LINE_BYTES * LINE_BYTES


def element_offset(hw: int, channels: int, bits: int, n: int, p: int, c: int) -> int:
    """Byte offset in NCx of channel ``c`` at position ``p`` (0..hw-1) of batch ``n``; Cx is batch 0."""
    block = block_channels(bits)
    full = full_blocks(channels, block)
    b = c // block
    lane = c - b * block
    width = block if b < full else tail_width(channels, block)
    return n * batch_bytes(hw, channels, bits) + (b * hw * block + p * width + lane) * (bits // 8)


@dataclass(frozen=True, slots=True)
class ChannelSplit:
    """The division of a channel extent into planes; compact layouts have none: 0, 0, 0, channels."""

    full_blocks: int
    """Cx, the number of whole planes."""
    tail: int
    """C0, the width of the tail plane; 0 without one."""
    block: int
    """B, the width of a whole plane."""
    aligned: int
    """Stored channels: ``full_blocks * block + tail``; in compact layouts the channels themselves."""


def channel_split(channels: int, fmt: Format) -> ChannelSplit:
    """Divide ``channels`` into planes of the blocked layouts; LayoutError for formats without any."""
    if fmt not in BLOCKED_FORMATS:
        allowed = " ".join(f.token for f in BLOCKED_FORMATS)
        raise LayoutError(
            f"format {fmt.token} has no channel-blocked placement: expected one of {allowed}; "
            "keep it in layout tensor or ntensor"
        )
    if channels < 1:
        raise LayoutError(f"channel extent {channels}: expected at least 1")
    block = block_channels(fmt.bits)
    return ChannelSplit(
        full_blocks(channels, block), tail_width(channels, block), block, aligned_channels(channels, block)
    )


@dataclass(frozen=True, slots=True)
class Placement:
    """The geometry of one tensor in memory; made by ``place``."""

    fmt: Format
    shape: tuple[int, ...]
    layout: Layout
    split: ChannelSplit
    hw: int
    """Positions per batch: the product of the dimensions between batch and channel."""
    batches: int
    """Volumes that start on their own line; 1 in every layout but NCx."""
    used_bytes: int
    """Bytes per batch before rounding up to lines."""
    batch_stride: int
    """Bytes from one batch to the next."""
    total_bytes: int
    """Bytes the tensor occupies, the gap after its last batch included."""
    logical_bytes: int
    """Bytes of the elements alone, without padding."""

    def offset(self, index: Sequence[int]) -> int:
        """Byte offset of the element at ``index`` (one integer per dimension, none negative).

        For BOOL, the byte that holds its bit; the bit in it is the row-major element number modulo 8.
        """
        self._check_index(index)
        if not self.layout.blocked:
            return _ravel(index, self.shape) * self.fmt.bits // 8
        outer = 1 if self.layout is Layout.NCX else 0
        batch = index[0] if outer else 0
        position = _ravel(index[outer:-1], self.shape[outer:-1])
        return element_offset(self.hw, self.shape[-1], self.fmt.bits, batch, position, index[-1])

    def index_at(self, byte_offset: int) -> tuple[int, ...] | None:
        """Return the index of the element at a byte, None for padding; for BOOL the first of eight."""
        if not 0 <= byte_offset < self.total_bytes:
            raise LayoutError(f"byte offset {byte_offset}: expected 0..{self.total_bytes - 1} in {self}")
        if not self.layout.blocked:
            return _unravel(byte_offset * 8 // self.fmt.bits, self.shape)
        n, within = divmod(byte_offset, self.batch_stride)
        p, c = self._position_at(within * 8 // self.fmt.bits)
        if p >= self.hw or c >= self.shape[-1]:
            return None
        if self.layout is Layout.NCX:
            return (n, *_unravel(p, self.shape[1:-1]), c)
        return (*_unravel(p, self.shape[:-1]), c)

    def _position_at(self, element: int) -> tuple[int, int]:
        """Return position p and channel of a batch's ``element``-th stored lane; p is hw past the end."""
        split = self.split
        plane = self.hw * split.block
        b = element // plane
        if b < split.full_blocks:
            p, lane = divmod(element % plane, split.block)
        elif split.tail:
            p, lane = divmod(element - split.full_blocks * plane, split.tail)
            b = split.full_blocks
        else:
            return self.hw, 0
        return p, b * split.block + lane

    def _check_index(self, index: Sequence[int]) -> None:
        if len(index) != len(self.shape):
            found = f"index {tuple(index)} has rank {len(index)}"
            raise LayoutError(f"{found}: expected {len(self.shape)} in {self}")
        for axis, (i, extent) in enumerate(zip(index, self.shape, strict=True)):
            if not 0 <= i < extent:
                raise LayoutError(f"index {i} on dimension {axis}: expected 0..{extent - 1} in {self}")

    def __str__(self) -> str:
        return f"{self.fmt.token} {_times(self.shape)} {self.layout.token}"


def place(fmt: Format, shape: Sequence[int], layout: Layout) -> Placement:
    """Compute the placement of a tensor; LayoutError for a shape or format the layout cannot hold.

    A 0-dimensional tensor in a compact layout is placed as shape (1,). Cx needs rank 1 or more, NCx
    rank 2 or more.
    """
    extents = _checked_shape(shape, layout)
    logical = (prod(extents) * fmt.bits + 7) // 8
    channels = extents[-1]
    if not layout.blocked:
        split = ChannelSplit(0, 0, 0, channels)
        hw = prod(extents[:-1])
        return Placement(fmt, extents, layout, split, hw, 1, logical, logical, logical, logical)
    split = channel_split(channels, fmt)
    batches = extents[0] if layout is Layout.NCX else 1
    hw = prod(extents[1:-1] if layout is Layout.NCX else extents[:-1])
    used = used_bytes(hw, channels, fmt.bits)
    stride = batch_bytes(hw, channels, fmt.bits)
    return Placement(fmt, extents, layout, split, hw, batches, used, stride, batches * stride, logical)


def _checked_shape(shape: Sequence[int], layout: Layout) -> tuple[int, ...]:
    try:
        extents = tuple(operator.index(extent) for extent in shape)
    except TypeError:
        raise LayoutError(f"shape {_times(shape)}: expected integer extents") from None
    if not extents and not layout.blocked:
        return (1,)
    least = 2 if layout is Layout.NCX else 1
    if len(extents) < least:
        found = f"shape {_times(extents)} has rank {len(extents)}"
        raise LayoutError(f"{found}: layout {layout.token} needs rank {least} or more")
    lowest = 1 if layout.blocked else 0
    for axis, extent in enumerate(extents):
        if extent < lowest:
            raise LayoutError(
                f"shape {_times(extents)}: extent {extent} of dimension {axis}, expected at least {lowest}"
            )
    return extents


def _times(shape: Sequence[object]) -> str:
    return "x".join(str(extent) for extent in shape) or "()"


def _ravel(index: Sequence[int], shape: Sequence[int]) -> int:
    """Row-major number of ``index``; 0 for rank 0."""
    number = 0
    for i, extent in zip(index, shape, strict=True):
        number = number * extent + i
    return number


def _unravel(number: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Inverse of ``_ravel``."""
    index = []
    for extent in reversed(shape):
        number, i = divmod(number, extent)
        index.append(i)
    return tuple(reversed(index))
