"""The sender's clocks in a message to another chip, so that order is known across chips."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Stamp(NamedTuple):
    """The sender of a message, and the clocks up to which it had seen all agents of all chips."""

    agent: int
    """A register block of a DTE, or the core that has sent an update."""
    pc: int
    """Program counter of the instruction that has sent it."""
    vector: npt.NDArray[np.int64]
