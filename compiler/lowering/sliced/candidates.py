"""Shares of a result of a sequence that the search tries."""

from __future__ import annotations

from compiler.codegen.slices.tensors import BLOCK, DdrTensor
from tx8isa.numbers.division import ceil_div

from .share_layout import is_possible
from .tile_share import TileShare

_TWELFTHS = (12, 8, 6, 3)
"""An axis is shared, in trials, by these twelfths of the tiles that can have an element of it."""


def fewest_tiles(tiles: int) -> int:
    """The fewest of ``tiles`` tiles that share an axis in any share that is tried."""
    return max(tiles * min(_TWELFTHS) // 12, 1)


def possible_shares(tensor: DdrTensor, tiles: int) -> list[TileShare]:
    """Promising shares of a result: for each axis those among the most tiles, then others.

    Where every tile loads the same weights, a few tiles can be done before many. Channels in planes are
    shared plane by plane.
    """
    found: list[tuple[int, TileShare]] = []
    for axis, size in enumerate(tensor.shape):
        planes = BLOCK if tensor.blocked and axis == len(tensor.shape) - 1 else 1
        parts = size // planes if size % planes == 0 else 1
        most = {min(parts, tiles) * part // 12 for part in _TWELFTHS}
        counts = {_best_count(parts, busy) for busy in most if busy >= min(2, tiles)}
        shares = (TileShare.along(tensor.shape, axis, count) for count in sorted(counts, reverse=True))
        found += enumerate(share for share in shares if is_possible(tensor, axis, share.size))
    return [share for _, share in sorted(found, key=lambda each: (each[0], -each[1].count, each[1].axis))]


def _best_count(size: int, most: int) -> int:
    """Number of tiles that share an axis: ``most``, or fewer.

    Up to a quarter fewer tiles share it if their parts then do not overlap.
    """
    even = max(count for count in range(1, most + 1) if size % count == 0)
    busy = ceil_div(size, ceil_div(size, most))
    return even if 4 * even >= 3 * busy else busy
