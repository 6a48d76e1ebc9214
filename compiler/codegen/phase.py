"""The target of the code of a phase, and the data that the phase has in DDR."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from compiler.graph import Array
from tx8isa.machine.description import Machine, load_machine
from tx8isa.numbers.formats import Format


@lru_cache(maxsize=1)
def _tx81() -> Machine:
    return load_machine()


@dataclass(frozen=True)
class Target:
    """The target of code: number of tiles, scratchpad bytes of a tile, format of arithmetic, chip.

    ``small``: the kernel core computes each value with the fewest instructions, and reuses those that a
    register still holds, which takes the compiler longer. ``ranged``: one program runs a
    range of sizes, so a division should suit many of them.
    """

    tiles: int
    spm_bytes: int
    compute: Format
    machine: Machine = field(default_factory=_tx81)
    small: bool = False
    ranged: bool = False

    @property
    def stack_bytes(self) -> int:
        """Bytes of the stack of a tile, which is in the scratchpad beyond what buffers may use."""
        return max(self.machine.spm.bytes - self.spm_bytes, 0)


Source = tuple[object, ...]
"""A key of constant data: the memory of the source array, and the transformation.

It is valid while the array lives.
"""


def source_key(array: Array, fmt: Format, *way: object) -> Source:
    """Identity of constant data: the source array, its transformation ``way`` and the format."""
    return array.ctypes.data, array.shape, array.strides, array.dtype.str, fmt, *way


class Origin(NamedTuple):
    """Identity of constant data: source array plus transformation. Equal identities mean equal data."""

    source: Array
    way: tuple[object, ...]


@dataclass(frozen=True)
class Constant:
    """Constant data of a phase in DDR: ``size`` elements, which ``make`` computes, in any shape.

    They are computed on demand, because the search generates code for many candidates without the data.
    """

    symbol: str
    fmt: Format
    size: int
    make: Callable[[], Array]
    origin: Origin | None = None

    def compute(self) -> Array:
        """The data: one-dimensional, in the storage dtype of ``fmt``."""
        return np.ascontiguousarray(self.make()).reshape(-1)

    @property
    def key(self) -> Source | None:
        """The key of the data; None if they have no origin."""
        return None if self.origin is None else source_key(self.origin.source, self.fmt, *self.origin.way)


@dataclass(frozen=True)
class Scratch:
    """DDR bytes for intermediate results of a phase.

    ``shared``: several phases and networks use the same bytes, each as many as it needs.
    """

    symbol: str
    size: int
    shared: bool = False
