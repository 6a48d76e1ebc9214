"""Facts about a process from the launcher of MPI programs, before MPI is loaded."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

_VARIABLES = (
    ("PMI_RANK", "PMI_SIZE"),  # MPICH and its descendants
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),  # Open MPI
)


class Launched(NamedTuple):
    """A process that mpiexec has started with others."""

    rank: int
    size: int


def launched(environment: Mapping[str, str] = os.environ) -> Launched | None:
    """Return mpiexec's facts about this process; None when it is alone."""
    for rank, size in _VARIABLES:
        words = environment.get(rank, ""), environment.get(size, "")
        if all(word.isdecimal() for word in words) and int(words[1]) > 1:
            return Launched(int(words[0]), int(words[1]))
    return None
