"""What the code of a phase costs, from the same coefficients of time as the emulator's (``tx8isa.cost``)."""

from .estimate import Estimate, estimate

__all__ = ["Estimate", "estimate"]
