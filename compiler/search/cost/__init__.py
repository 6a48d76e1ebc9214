"""What the code of a phase costs.

The coefficients of time are those of the emulator (``tx8isa.cost``).
"""

from .estimate import Estimate, estimate
from .timeline import barrier_cycles

__all__ = ["Estimate", "barrier_cycles", "estimate"]
