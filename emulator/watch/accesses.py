"""Computes the scratchpad bytes that slices touch, by scratchpad."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emulator.engines.queues import DDR

from .bins import Ints


class SpmAccesses(NamedTuple):
    """Access i is of slice ``row[i]``: ``size[i]`` bytes from ``first[i]`` in the SPM of ``tile[i]``."""

    row: Ints
    first: Ints
    size: Ints
    written: npt.NDArray[np.bool_]
    tile: Ints


def spm_accesses(slices: npt.NDArray[np.void], ranges: Ints) -> SpmAccesses:
    """Return the accesses of slices with a ``Batch``'s ranges; a copy writes to its target's bytes.

    Writes on other chips are not among the ranges.
    """
    there = np.arange(ranges.shape[1]) < slices["sources"][:, None]
    row, which = np.nonzero(there & (ranges[..., 0] < DDR) & (ranges[..., 1] > 0))
    first, size, written = ranges[row, which].T
    target = slices["target"][row]
    tile = np.where((written == 1) & (target >= 0), target, slices["tile"][row]).astype(np.int64)
    return SpmAccesses(row, first, size, written == 1, tile)
