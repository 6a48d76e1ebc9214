"""The scratchpad: buffers of a phase, the instructions that use them, and their addresses.

Buffers are placed by best fit over live ranges: from the first to the last instruction that uses each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

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

    ``first`` and ``last`` number the first and the last instruction that use it. ``scope`` are the loops in
    which it was declared: in a loop inside of them it is alive from the loop's beginning to its end.
    ``node``: the graph node for which it was declared, if the phase says so.
    ``doubled``: it is declared in a loop that can use two copies in turns; ``second`` is the address of the
    second copy if there was room for one.
    """

    symbol: str
    size: int
    scope: tuple[int, ...] = ()
    first: int = -1
    last: int = -1
    address: int = -1
    doubled: bool = False
    second: int = -1
    node: str = ""

    @cached_property
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
        """Extend its live range to instructions ``first`` to ``last``."""
        self.first = first if self.first < 0 else min(self.first, first)
        self.last = max(self.last, last)


@dataclass
class SpmAllocator:
    """Places buffers in ``capacity`` bytes; two that are alive at the same time never overlap."""

    capacity: int
    placed: list[SpmBuffer] = field(default_factory=list)

    def place(self, buffers: Sequence[SpmBuffer], doubled: Sequence[SpmBuffer] = ()) -> None:
        """Give every buffer its address, the largest first; those in ``doubled`` get a second one as well.

        SpmOverflow names the buffer that does not fit.
        """
        used = [buffer for buffer in buffers if buffer.first >= 0]
        originals = [buffer for buffer in doubled if buffer.first >= 0]
        copies = [replace(buffer) for buffer in originals]
        for buffer in sorted([*used, *copies], key=lambda buffer: (-buffer.span, buffer.first)):
            buffer.address = self._address(buffer)
            self.placed.append(buffer)
        for original, copy in zip(originals, copies, strict=True):
            original.second = copy.address

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


@dataclass
class InstructionSpan:
    """The engine instructions of a loop: the numbers of its first and its last."""

    first: int
    last: int = -1


@dataclass(frozen=True)
class FixedBuffers:
    """Buffers of a phase that have their addresses before the others; ``until`` is the number of the
    instruction until which all of them are alive."""

    addresses: Mapping[SpmBuffer, int]
    until: int = 0

    def mirrored(self, capacity: int) -> FixedBuffers:
        """The addresses counted from the end of the scratchpad."""
        return FixedBuffers(
            {buffer: capacity - buffer.span - address for buffer, address in self.addresses.items()},
            self.until,
        )


NONE_FIXED = FixedBuffers({})


@dataclass
class PhaseBuffers:
    """The buffers of a phase, and the instructions and loops that use them."""

    buffers: list[SpmBuffer] = field(default_factory=list)
    loops: list[InstructionSpan] = field(default_factory=list)
    _uses: list[tuple[SpmBuffer, int, tuple[int, ...]]] = field(default_factory=list)

    def use(self, buffer: SpmBuffer, instruction: int, scope: tuple[int, ...]) -> None:
        """Record that an instruction inside the loops ``scope`` uses a buffer."""
        self._uses.append((buffer, instruction, scope))

    def place(self, capacity: int, fixed: FixedBuffers = NONE_FIXED) -> None:
        """Give the buffers their addresses; SpmOverflow if they do not fit.

        At first all buffers of a loop have bytes of their own, and second copies if the loop can use them in
        turns, so that the load of the next iteration, the arithmetic of this one and its store can overlap.
        If that does not fit, outer loops give up copies; then bytes are used again after a buffer's last use,
        and the largest copies are given up, one by one.
        """
        for reuse, doubled in self._ways_to_place():
            try:
                self._place(capacity, reuse, doubled, fixed)
                return
            except SpmOverflow:
                continue
        self._place(capacity, True, [], fixed)

    def _ways_to_place(self) -> Iterator[tuple[bool, list[SpmBuffer]]]:
        """Whether bytes are used again in a loop, and the buffers with second copies; the best way first."""
        doubled = [buffer for buffer in self.buffers if buffer.doubled]
        for depth in sorted({len(buffer.scope) for buffer in doubled}):
            doubled = [buffer for buffer in doubled if len(buffer.scope) >= depth]
            yield False, doubled
        yield True, doubled
        for span in sorted({buffer.span for buffer in doubled}, reverse=True):
            yield True, [buffer for buffer in doubled if buffer.span < span]
        yield False, []

    def _place(self, capacity: int, reuse: bool, doubled: list[SpmBuffer], fixed: FixedBuffers) -> None:
        for buffer in self.buffers:
            buffer.first = buffer.last = buffer.address = buffer.second = -1
        for buffer, instruction, scope in self._uses:
            depth = len(buffer.scope) if reuse else 0
            if len(scope) > depth:
                loop = self.loops[scope[depth]]
                buffer.use(loop.first, loop.last)
            else:
                buffer.use(instruction, instruction)
        for buffer, address in fixed.addresses.items():
            buffer.address = address
            buffer.use(0, fixed.until)
        free = [buffer for buffer in self.buffers if buffer not in fixed.addresses]
        doubled = [buffer for buffer in doubled if buffer not in fixed.addresses]
        SpmAllocator(capacity, list(fixed.addresses)).place(free, doubled)

    def mirror(self, capacity: int) -> None:
        """Count the addresses from the end of the scratchpad instead of its beginning."""
        for buffer in self.placed:
            end = capacity - buffer.span
            buffer.address = end - buffer.address
            buffer.second = end - buffer.second if buffer.second >= 0 else -1

    def areas(self, since: int = 0) -> list[tuple[int, int]]:
        """The bytes of the buffers, and of their second copies, that are alive at instruction ``since`` or
        later: first address, address after the last."""
        alive = [buffer for buffer in self.placed if buffer.last >= since]
        starts = [(buffer, buffer.address) for buffer in alive]
        starts += [(buffer, buffer.second) for buffer in alive if buffer.second >= 0]
        return [(address, address + buffer.span) for buffer, address in starts]

    @property
    def end(self) -> int:
        """Scratchpad bytes up to the end of the last buffer."""
        ends = (max(buffer.address, buffer.second) + buffer.span for buffer in self.placed)
        return max(ends, default=0)

    @property
    def placed(self) -> list[SpmBuffer]:
        """The buffers that are used, which have addresses."""
        return [buffer for buffer in self.buffers if buffer.address >= 0]

    def definitions(self) -> list[str]:
        """The lines of assembly that define the symbols of the buffers."""
        lines = [f"        .equ {b.symbol}, {b.address:#x}  # {b.size} bytes" for b in self.placed]
        return lines + [f"        .equ {b.distance_symbol}, {b.distance}" for b in self.placed if b.doubled]
