"""Sessions: a program whose inputs, outputs and state are bound once and that runs many times.

``session.py`` is the way in; ``entry.py`` is one network of a program, ``kept.py`` has what stays.
``runs.py`` has runs without a state, from the reset state each, which begin fast.
"""

from __future__ import annotations

from .entry import SessionError
from .file import StateFileError
from .session import ProgramSession

__all__ = ["ProgramSession", "SessionError", "StateFileError"]
