"""Normalizations that exporters write in simpler operators, and statistics that need a wide format.

``REWRITES`` has those that become one operator again; ``statistics`` says which nodes of the others compute
in FP32, because squares and their sums leave the range of FP16 long before the values do.
"""

from __future__ import annotations

from . import moments, normalizations
from .statistics import statistics

REWRITES = (*normalizations.REWRITES, *moments.REWRITES)

__all__ = ["REWRITES", "statistics"]
