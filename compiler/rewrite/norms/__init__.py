"""Normalizations that exporters write in simpler operators, and which nodes need a wide format.

``REWRITES`` has those that become one operator again; ``statistics``, ``small_numbers`` and ``large_numbers``
say which nodes of the others compute in FP32: squares and their sums leave the range of FP16 long before the
values do.
"""

from __future__ import annotations

from . import moments, normalizations
from .large_numbers import large_numbers, nodes_around
from .small_numbers import small_numbers
from .statistics import statistics

REWRITES = (*normalizations.REWRITES, *moments.REWRITES)

__all__ = ["REWRITES", "large_numbers", "nodes_around", "small_numbers", "statistics"]
