"""What the code of a phase costs, from the same coefficients of time as the emulator's (``tx8isa.cost``)."""

from .estimate import Estimate, estimate
from .timeline import barrier_cycles

__all__ = ["Estimate", "barrier_cycles", "estimate"]
