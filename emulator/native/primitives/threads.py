"""Synchronisation of host threads: words in memory that several of them change, and waiting.

This is the definition for a single thread; the machine version (atomic instructions) is in
``machine/threads.py``.
"""

from __future__ import annotations

from .memory import get, put

YIELD = 500
"""Number of failed polls before a thread yields its turn."""
SLEEP = 1500
"""Number of failed polls before a thread sleeps."""
MICROSECONDS = 50
"""Microseconds that it sleeps."""


def atomic_add(address: int, value: int) -> int:
    """Add to the word at ``address``; return its old value. All threads see such changes in one order."""
    before = get(address, 0)
    put(address, 0, before + value)
    return before


def atomic_load(address: int) -> int:
    """Return the word at ``address`` as other threads have left it."""
    return get(address, 0)


def relax(looks: int) -> int:
    """Wait before polling a word again that another thread will change, after ``looks`` polls; return 0.

    The first polls follow at once. Then other threads get their turn, and after milliseconds this thread
    sleeps.
    """
    return 0
