"""The simulated time that a program reads."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tx8isa.cost.instructions import TICKS

Ticks = npt.NDArray[np.int64]


class Moment(NamedTuple):
    """A position of a tile's program in simulated time; all times are ticks."""

    clock: int
    busy: Ticks
    """[unit]: work so far of CT, NE, RDMA, WDMA, TDMA, SCALAR and any of the first five."""
    blocked: Ticks
    """[worker, unit]: waiting so far of the instructions that have ended or are being executed."""

    @property
    def cycles(self) -> int:
        """Whole cycles since the start."""
        return self.clock // TICKS
