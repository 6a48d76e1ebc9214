"""The target of the code of a phase, and the data that the phase has in DDR."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np

from compiler.graph import Array
from tx8isa.machine.description import Machine, load_machine
from tx8isa.numbers.formats import Format


@lru_cache(maxsize=1)
def _tx81() -> Machine:
    return load_machine()


@dataclass(frozen=True)
class Target:
    """What code is generated for: number of tiles, scratchpad bytes of a tile, format of arithmetic, chip."""

    tiles: int
    spm_bytes: int
    compute: Format
    machine: Machine = field(default_factory=_tx81)

    @property
    def stack_bytes(self) -> int:
        """Bytes of the stack of a tile, which is in the scratchpad beyond what buffers may use."""
        return max(self.machine.spm.bytes - self.spm_bytes, 0)


@dataclass(frozen=True)
class Constant:
    """Constant data of a phase in DDR: ``size`` elements, which ``make`` computes, in any shape.

    They are computed on demand, because the search generates code for many candidates without the data.
    """

    symbol: str
    fmt: Format
    size: int
    make: Callable[[], Array]

    @cached_property
    def data(self) -> Array:
        """One-dimensional, in the storage dtype of ``fmt``."""
        return np.ascontiguousarray(self.make()).reshape(-1)


@dataclass(frozen=True)
class Scratch:
    """DDR bytes for intermediate results of a phase."""

    symbol: str
    size: int
