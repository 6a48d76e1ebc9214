"""Estimates the time that the code of a phase takes.

The coefficients are those of the emulator's simulated time (``tx8isa.cost``).
"""

from .estimate import Estimate, Estimates, estimate
from .kinds import NOTHING, KindUse, Shares, added
from .timeline import barrier_cycles
from .trace import Trace, kinds_of, trace_of

__all__ = [
    "NOTHING",
    "Estimate",
    "Estimates",
    "KindUse",
    "Shares",
    "Trace",
    "added",
    "barrier_cycles",
    "estimate",
    "kinds_of",
    "trace_of",
]
