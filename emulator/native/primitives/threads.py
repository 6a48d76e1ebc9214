"""What host threads agree by: words in memory that several of them change, and waiting for one another.

Plain meaning here, for one thread alone; machine version (atomic instructions) in ``machine/threads.py``.
"""

from __future__ import annotations

from .memory import get, put


def atomic_add(address: int, value: int) -> int:
    """Add to the word at ``address``; what it was before. All threads see such changes in one order."""
    before = get(address, 0)
    put(address, 0, before + value)
    return before


def atomic_load(address: int) -> int:
    """The word at ``address`` as other threads have left it."""
    return get(address, 0)


def relax(looks: int) -> int:
    """Between two looks at a word that another thread will change, of which ``looks`` were in vain; 0.

    Little at first, then other threads have their turn, and after milliseconds the processor is left to them.
    """
    return 0
