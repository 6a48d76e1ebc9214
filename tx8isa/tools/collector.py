"""Makes the collector of cyclic garbage run seldom during a compilation.

Nearly all objects of a compilation live to its end. Visiting all of them repeatedly took a sixth of its time.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_MADE = 500_000
"""The youngest generation is collected when objects made minus objects freed reach this number."""


class _Collector:
    """The collector's threshold, which several threads may raise at once."""

    def __init__(self) -> None:
        self._lock, self._wanted = threading.Lock(), 0
        self._usual = gc.get_threshold()

    def want(self) -> None:
        """Let the collector run seldom."""
        with self._lock:
            if not self._wanted:
                self._usual = gc.get_threshold()
                if 0 < self._usual[0] < _MADE:  # 0: it does not run at all
                    gc.set_threshold(_MADE, *self._usual[1:])
            self._wanted += 1

    def release(self) -> None:
        """Restore the threshold when no thread needs the raised one."""
        with self._lock:
            self._wanted -= 1
            if not self._wanted:
                gc.set_threshold(*self._usual)


_COLLECTOR = _Collector()


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Let the collector run rarely during a block, in the whole process; also a decorator of functions."""
    _COLLECTOR.want()
    try:
        yield
    finally:
        _COLLECTOR.release()
