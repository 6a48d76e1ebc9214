"""Moves that change nothing, cancel, or can be made with fewer steps in memory.

Copies, reshapes of reshapes, transposes of transposes; tensors that are stacked along a new last axis.
"""

from __future__ import annotations

from . import movement, stacking

REWRITES = movement.REWRITES

LATE = (*stacking.REWRITES, *movement.REWRITES)
"""Stacks too, which are parts of other patterns."""

__all__ = ["LATE", "REWRITES"]
