"""Chooses what executes kernels in this process: ``TX8_JIT`` names it."""

from __future__ import annotations

import os

from tx8isa.errors import Tx8Error

DIRECT, NUMBA, PLAIN = "direct", "numba", "0"
ENGINES = (DIRECT, NUMBA, PLAIN)


def engine() -> str:
    """Return ``direct``, ``numba``, or ``0`` for plain Python, also with ``NUMBA_DISABLE_JIT=1``.

    Tx8Error for another value of ``TX8_JIT``. Unset, or empty, it means ``direct``.
    """
    named = os.environ.get("TX8_JIT") or DIRECT
    if named not in ENGINES:
        raise Tx8Error(f"TX8_JIT is '{named}': expected one of {' '.join(ENGINES)}")
    return named if os.environ.get("NUMBA_DISABLE_JIT", "0") == "0" else PLAIN


def jit_enabled() -> bool:
    """Return True if kernels become machine code in this process."""
    return engine() != PLAIN
