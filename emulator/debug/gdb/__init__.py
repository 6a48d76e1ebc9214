"""A server of GDB's remote protocol: each tile is a thread."""

from __future__ import annotations

from .server import debug

__all__ = ["debug"]
