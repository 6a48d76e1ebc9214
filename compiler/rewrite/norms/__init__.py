"""Normalizations that exporters write in simpler operators, and the nodes that need a wide format.

``REWRITES`` has the patterns that become one operator again. In other patterns ``statistics``,
``small_numbers`` and ``large_numbers`` find the nodes that compute in FP32. Squares and their sums leave the
range of FP16 long before the values do.
"""

from __future__ import annotations

from . import moments, normalizations
from .large_numbers import large_numbers, nodes_around
from .small_numbers import small_numbers
from .statistics import statistics

REWRITES = (*normalizations.REWRITES, *moments.REWRITES)

__all__ = ["REWRITES", "large_numbers", "nodes_around", "small_numbers", "statistics"]
