"""Moves that change nothing, cancel, or can be made with fewer steps in memory.

Copies, reshapes of reshapes, transposes of transposes; tensors that are stacked along a new last axis.
"""

from __future__ import annotations

from . import movement, stacking

REWRITES = movement.REWRITES

LATE = (*stacking.REWRITES, *movement.REWRITES)
"""Rewrites that are tried last: other patterns contain stacks."""

__all__ = ["LATE", "REWRITES"]
