"""Rewrites of quantised graphs: operators between DequantizeLinear and QuantizeLinear compute with bytes.

They run before all others, because they need to see a DequantizeLinear of constants, which later rewrites
fold into a constant of floats. The first table looks for a QuantizeLinear after a product; the others process
the remaining products, those with an addend first.
"""

from __future__ import annotations

from compiler.rewrite.engine import Rewrite

from . import dynamic, movement, packed, products, signs
from .precision import between_bytes
from .sums import SUMS

TABLES: tuple[tuple[Rewrite, ...], ...] = (
    (*signs.REWRITES, *movement.REWRITES, *dynamic.DYNAMIC, *products.FUSED, *SUMS),
    (*signs.REWRITES, *products.ALONE),
)
"""Their tables, which are applied one after the other, in the order in which they are tried at a node."""

PACKED = packed.REWRITES
"""Rewrites that keep the few bits of weights whose products are floats; they are tried last."""

QUANTISED = (
    *("QuantizeLinear", "DequantizeLinear", "QLinearConv", "QLinearMatMul"),
    *("ConvInteger", "MatMulInteger"),
)
"""Operators in graphs for which these rewrites are tried."""

__all__ = ["PACKED", "QUANTISED", "TABLES", "between_bytes"]
