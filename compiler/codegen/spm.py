"""Scratchpad buffers and their addresses: best fit over the ranges of instructions in which each is
alive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tx8isa.errors import Tx8Error
from tx8isa.numbers.division import round_up
from tx8isa.numbers.layouts import LINE_BYTES

from .best_fit import best_gap

RESERVED_BYTES = 8192
"""Bytes that lowerings leave beside their slices for small buffers and for lines that are not filled."""


class SpmOverflow(Tx8Error):
    """The buffers of one phase do not fit the scratchpad; the lowering must take smaller slices."""


@dataclass(eq=False)
class SpmBuffer:
    """A range of scratchpad bytes. Engines write whole lines, so its span is rounded up to lines.

    ``first`` .. ``last`` number the instructions from the first to the last that uses it. ``scope`` are the
    loops it was declared in: in an inner loop it is alive from the loop's beginning to its end. ``doubled``:
    its loop would use two copies in turns; ``second`` is the address of the other copy, when there was room
    for one.
    """

    symbol: str
    size: int
    scope: tuple[int, ...] = ()
    first: int = -1
    last: int = -1
    address: int = -1
    doubled: bool = False
    second: int = -1

    @property
    def span(self) -> int:
        return round_up(max(self.size, 1), LINE_BYTES)

    @property
    def distance_symbol(self) -> str:
        """Symbol of ``distance``."""
        return f"{self.symbol}.second"

    @property
    def distance(self) -> int:
        """Bytes from its first copy to its second, negative or positive; 0 without a second."""
        return self.second - self.address if self.second >= 0 else 0

    def use(self, first: int, last: int) -> None:
        """Make it alive from instruction ``first`` to ``last`` at least."""
        self.first = first if self.first < 0 else min(self.first, first)
        self.last = max(self.last, last)


@dataclass
class SpmAllocator:
    """Places buffers in ``capacity`` bytes; two that are alive together never overlap."""

    capacity: int
    placed: list[SpmBuffer] = field(default_factory=list)

    def place(self, buffers: Sequence[SpmBuffer], copied: Sequence[SpmBuffer] = ()) -> None:
        """Give every buffer its address, the largest first; SpmOverflow says which does not fit.

        The ``copied`` ones get a second address too.
        """
        turned = [b for b in copied if b.first >= 0]
        copies = [replace(b) for b in turned]
        used = [b for b in buffers if b.first >= 0]
        for buffer in sorted([*used, *copies], key=lambda b: (-b.span, b.first)):
            buffer.address = self._address(buffer)
            self.placed.append(buffer)
        for buffer, copy in zip(turned, copies, strict=True):
            buffer.second = copy.address

    def _address(self, buffer: SpmBuffer) -> int:
        """The start of the smallest gap that holds the buffer throughout its live range."""
        alive = [other for other in self.placed if other.first <= buffer.last and buffer.first <= other.last]
        taken = ((other.address, other.address + other.span) for other in alive)
        address = best_gap(taken, buffer.span, self.capacity)
        if address is None:
            raise SpmOverflow(
                f"buffer {buffer.symbol} of {buffer.span} bytes does not fit the {self.capacity} bytes of SPM"
            )
        return address
