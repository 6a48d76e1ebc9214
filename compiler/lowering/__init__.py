"""Lowerings of the graph operators, one family a file; importing this package registers them."""

from __future__ import annotations

from compiler.lowering import (  # noqa: F401  (each module registers its lowerings)
    arcs,
    channelnorm,
    core,
    elementwise,
    formulas,
    indexing,
    movement,
    pieces,
    recurrence,
    rotary,
    upsample,
)
from compiler.lowering.attention import attention  # noqa: F401
from compiler.lowering.conv import convolution, pooling  # noqa: F401
from compiler.lowering.matmul import matmul  # noqa: F401
from compiler.lowering.record import LOWERINGS, Lowering, Order, Work
from compiler.lowering.rows import batchnorm, groupnorm, normalization, rowwise  # noqa: F401
from compiler.lowering.stack import stack  # noqa: F401

__all__ = ["LOWERINGS", "Lowering", "Order", "Work"]
