"""What a phase is made for, and the data it keeps in DDR."""

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
    """What code is made for: tiles that take part, scratchpad bytes of one tile, the chip they are of."""

    tiles: int
    spm_bytes: int
    compute: Format
    machine: Machine = field(default_factory=_tx81)


@dataclass(frozen=True)
class Constant:
    """``size`` elements that a phase brings along, in DDR; ``make`` gives them, in any shape.

    They are made when they are asked for: a search that tries many ways to cut a group wants none of them.
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
    """DDR bytes that a phase uses for itself."""

    symbol: str
    size: int
