"""The collector of cyclic garbage, which goes over all objects again and again while many are made.

Nearly all objects of a compilation are used to its end. Going over them took a sixth of its time.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_MADE = 500_000
"""Objects made minus objects freed before the collector looks at the youngest."""


class _Collector:
    """The threshold of the process, while several threads may want another one."""

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
        """Let it run as before, if nobody wants otherwise."""
        with self._lock:
            self._wanted -= 1
            if not self._wanted:
                gc.set_threshold(*self._usual)


_COLLECTOR = _Collector()


@contextmanager
def seldom_collected() -> Iterator[None]:
    """The collector runs seldom meanwhile, in the whole process; also as a decorator of a function."""
    _COLLECTOR.want()
    try:
        yield
    finally:
        _COLLECTOR.release()
