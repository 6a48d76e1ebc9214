"""Sessions: programs that run many times, with inputs, outputs and state bound once.

``session.py`` is the entry; ``entry.py`` is one network of a program, ``kept.py`` has the bytes that persist.
``field_session.py`` runs steps in prime fields and ``order.py`` judges the order of accesses, for proofs.
``runs.py`` has fast repeated runs without a state, each from the reset state.
"""

from __future__ import annotations

from .entry import SessionError
from .file import StateFileError
from .session import ProgramSession

__all__ = ["ProgramSession", "SessionError", "StateFileError"]
