"""Which columns of a product's matrix the tiles of a mesh column have, and what becomes of their results."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compiler.graph import Array

from .layers import AttentionLayer, ProductLayer


@dataclass(frozen=True)
class ColumnBlock:
    """Columns of a matrix; what is added to their results, and the factor of these after that."""

    columns: Array
    factor: float = 1.0
    shift: float = 0.0


def blocks_of(
    layer: ProductLayer, heads: AttentionLayer | None, column: int, columns: int
) -> list[ColumnBlock]:
    """The columns of the matrix that a mesh column computes.

    The queries, keys and values of a head are blocks of their own; queries take the scale of the attention.
    Where its result becomes bytes at once, values take their scale and zero point: the weights of a row of
    attention add up to 1.
    """
    width = layer.columns // columns
    if heads is None:
        return [ColumnBlock(np.arange(column * width, (column + 1) * width))]
    share, how = heads.heads // columns, heads.quantised
    value = (1.0, 0.0) if how is None else (1.0 / how.scale, how.zero * how.scale)
    changes = (heads.work.spec.number("scale"), 0.0), (1.0, 0.0), value
    found = []
    for place, (factor, shift) in zip(heads.parts, changes, strict=True):
        for head in range(column * share, (column + 1) * share):
            first = place * heads.columns + head * heads.depth
            found.append(ColumnBlock(np.arange(first, first + heads.depth), factor, shift))
    return found
