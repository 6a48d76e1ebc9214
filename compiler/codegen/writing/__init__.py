"""Writes the code of a phase: engine instructions, loops and conditions, and loads that run ahead.

Each instruction goes into the text and into the tree from which the time of the phase is estimated.
"""

from __future__ import annotations

from .conditions import if_below
from .loops import loop
from .writer import CodeWriter

__all__ = ["CodeWriter", "if_below", "loop"]
