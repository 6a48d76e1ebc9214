"""Removes moves that change nothing or cancel, and makes others in fewer steps in memory.

Copies, reshapes of reshapes, transposes of transposes; tensors that are stacked along a new last axis.
"""

from __future__ import annotations

from . import movement, stacking

REWRITES = movement.REWRITES

LATE = (*stacking.REWRITES, *movement.REWRITES)
"""Rewrites that are tried last: other patterns contain stacks."""

__all__ = ["LATE", "REWRITES"]
