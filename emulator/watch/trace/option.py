"""``tx8emu --trace``; a run without it loads nothing more of this package."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emulator.program import Program

    from .sink import Trace


def open_trace(path: str | None, program: Program, name: str) -> AbstractContextManager[Trace | None]:
    """The trace that was asked for, nothing without a path; Tx8Error when it cannot be written."""
    if not path:
        return nullcontext()
    from .sink import Trace

    return Trace(path, program.image, program.machine, name)
