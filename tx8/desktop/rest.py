"""Collects garbage while nobody types, because a collection takes as long as several keystrokes."""

from __future__ import annotations

import asyncio
import gc

PAUSE = 0.5
"""Seconds without a keystroke after which garbage is collected."""
MOST = 64
"""Keystrokes after which garbage is collected without a pause; each leaves some megabytes."""


class Rest:
    """Collects the garbage of one server; its process does not collect by itself after ``begin``."""

    def __init__(self) -> None:
        self._waiting: asyncio.TimerHandle | None = None
        self._typed = 0

    def begin(self) -> None:
        """Disable Python's own collections; this object does them."""
        gc.disable()

    def opened(self) -> None:
        """Collect, and exempt all present objects from later collections; called for a new document."""
        self._collect()
        gc.freeze()

    def typed(self) -> None:
        """Count a keystroke, and collect if no other one follows soon; called in the server's loop."""
        self._typed += 1
        if self._waiting is not None:
            self._waiting.cancel()
        delay = PAUSE if self._typed < MOST else 0.0
        self._waiting = asyncio.get_running_loop().call_later(delay, self._collect)

    def _collect(self) -> None:
        self._typed = 0
        gc.collect()
