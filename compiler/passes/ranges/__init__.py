"""Programs that run a range of sizes (docs/ranges.md).

Operations get formulas of their extents, phases get code for all sizes of the range. At the start of a run a
shape program computes the sizes that this code needs.
"""

from __future__ import annotations
