"""The command ``tx8emu``: options, manual of instructions, array files and progress line.

It is the highest layer, so nothing else in the emulator imports it.
"""

from __future__ import annotations

from .command import main

__all__ = ["main"]
