"""The command ``tx8emu``: its options, the manual of instructions, array files and the progress line.

It is the highest layer: nothing else of the emulator imports it.
"""

from __future__ import annotations

from .command import main

__all__ = ["main"]
