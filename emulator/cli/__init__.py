"""The command ``tx8emu``: its options, the manual of instructions, array files and the progress line."""

from __future__ import annotations

from .command import main

__all__ = ["main"]
