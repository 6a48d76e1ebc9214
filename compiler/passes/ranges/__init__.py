"""Programs that run a range of sizes (docs/ranges.md).

Operations get formulas of their extents, phases get code for all sizes of the range, and a shape program
computes at the start of a run what this code needs.
"""

from __future__ import annotations
