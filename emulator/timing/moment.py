"""What a program finds when it reads time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tx8isa.cost.instructions import TICKS

from . import layout as a

Ticks = npt.NDArray[np.int64]


class Moment(NamedTuple):
    """A point of a tile's program in simulated time; everything in ticks."""

    clock: int
    busy: Ticks
    """[unit]: how long CT, NE, RDMA, WDMA, TDMA, SCALAR, DTE and any of the first five have worked so far."""
    blocked: Ticks
    """[worker, unit]: what the instructions that have ended or are at work had to wait; as in the slices."""

    @property
    def cycles(self) -> int:
        """Whole cycles since the start."""
        return self.clock // TICKS


def read_moment(snapshot: Ticks, workers: int) -> Moment:
    """The moment that a tile's words at ``P_SNAPSHOT`` hold."""
    busy = snapshot[1 : 1 + a.UNITS].copy()
    blocked = snapshot[1 + a.UNITS :][: workers * a.BLOCKED_UNITS].copy()
    return Moment(int(snapshot[0]), busy, blocked.reshape(workers, a.BLOCKED_UNITS))
