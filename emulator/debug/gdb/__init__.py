"""A server of GDB's remote protocol: each tile is a thread.

The protocol and what GDB can look at are here; running, stopping and going back are in ``run``.
"""

from __future__ import annotations

from .server import debug

__all__ = ["debug"]
