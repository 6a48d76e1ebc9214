"""Lowerings of the graph operators, one family a file; importing this package registers them."""

from __future__ import annotations

from compiler.lowering import (  # noqa: F401  (each module registers its lowerings)
    arcs,
    attention,
    batchnorm,
    channelnorm,
    convolution,
    core,
    elementwise,
    formulas,
    groupnorm,
    indexing,
    matmul,
    movement,
    normalization,
    pieces,
    pooling,
    recurrence,
    rotary,
    rowwise,
    stack,
    upsample,
)
from compiler.lowering.record import LOWERINGS, Lowering, Order, Work

__all__ = ["LOWERINGS", "Lowering", "Order", "Work"]
