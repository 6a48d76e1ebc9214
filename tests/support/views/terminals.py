"""A terminal and a clock for tests of progress lines."""

from __future__ import annotations

import io


class Terminal(io.StringIO):
    """A file that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class Clock:
    """A clock that advances by a step at every call."""

    def __init__(self, step: float) -> None:
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now
