"""Normalizations that exporters write in simpler operators, and statistics that need a wide format.

``REWRITES`` has those that become one operator again; ``statistics`` and ``small_numbers`` say which nodes of
the others compute in FP32, because squares and their sums leave the range of FP16 long before the values do.
"""

from __future__ import annotations

from . import moments, normalizations
from .small_numbers import small_numbers
from .statistics import statistics

REWRITES = (*normalizations.REWRITES, *moments.REWRITES)

__all__ = ["REWRITES", "small_numbers", "statistics"]
