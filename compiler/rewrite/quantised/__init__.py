"""Rewrites of quantised graphs: operators between DequantizeLinear and QuantizeLinear compute with bytes.

They run before all others, because a DequantizeLinear of constants must still be seen: afterwards it is a
constant of floats. The first table looks for a QuantizeLinear after a product; the others take the products
that then are left, first those to which something is added.
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
"""What keeps the bits of weights whose products are of floats; it is tried last."""

QUANTISED = (
    *("QuantizeLinear", "DequantizeLinear", "QLinearConv", "QLinearMatMul"),
    *("ConvInteger", "MatMulInteger"),
)
"""Operators in graphs for which these rewrites are tried."""

__all__ = ["PACKED", "QUANTISED", "TABLES", "between_bytes"]
