"""Rewrites of quantised graphs: operators between DequantizeLinear and QuantizeLinear compute with bytes.

They run before all others, because a DequantizeLinear of constants must still be seen: afterwards it is a
constant of floats. ``FUSED`` look for a QuantizeLinear behind a product; ``ALONE`` take the products that
then are left.
"""

from __future__ import annotations

from compiler.rewrite.engine import Rewrite

from . import movement, products, signs
from .precision import between_bytes

FUSED: tuple[Rewrite, ...] = (*signs.REWRITES, *movement.REWRITES, *products.FUSED)
ALONE: tuple[Rewrite, ...] = (*signs.REWRITES, *products.ALONE)
"""Their tables, in the order in which they are tried at a node."""

QUANTISED = (
    *("QuantizeLinear", "DequantizeLinear", "QLinearConv", "QLinearMatMul"),
    *("ConvInteger", "MatMulInteger"),
)
"""Operators in graphs for which these rewrites are tried."""

__all__ = ["ALONE", "FUSED", "QUANTISED", "between_bytes"]
