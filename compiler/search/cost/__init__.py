"""The estimate of the time that the code of a phase takes.

The coefficients are those of the emulator's simulated time (``tx8isa.cost``).
"""

from .estimate import Estimate, Estimates, estimate
from .timeline import barrier_cycles
from .trace import Trace, tiles_at_work, trace_of

__all__ = ["Estimate", "Estimates", "Trace", "barrier_cycles", "estimate", "tiles_at_work", "trace_of"]
