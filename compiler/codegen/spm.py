"""The scratchpad: buffers of a phase, the instructions that use them, and their addresses.

Buffers are placed by best fit over live ranges: from the first to the last instruction that uses each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf

from tx8isa.errors import Tx8Error
from tx8isa.numbers.division import round_up
from tx8isa.numbers.layouts import LINE_BYTES

from .best_fit import best_gap

_SMALL_GRAIN = 4096
"""The grain of addresses in small code: the core makes a multiple of it in one instruction, not in two."""
RESERVED_BYTES = 8192
"""Bytes that lowerings keep free, besides their slices, for small buffers and partly filled lines."""


class SpmOverflow(Tx8Error):
    """Raised if the buffers of one phase do not fit the scratchpad; the lowering must take smaller slices."""


@dataclass(eq=False)
class SpmBuffer:
    """A range of scratchpad bytes. Engines write whole lines, so its span is rounded up to lines.

    ``first`` and ``last`` number the first and the last instruction that use it. ``scope`` are the loops in
    which it was declared; in an inner loop it is alive from the loop's beginning to its end. ``node``: the
    graph node for which it was declared, if the phase says so. ``turning`` numbers the loop that can
    alternate between two copies, if there is one; ``second`` is the address of the second copy if there was
    room for it.
    """

    symbol: str
    size: int
    scope: tuple[int, ...] = ()
    first: int = -1
    last: int = -1
    address: int = -1
    second: int = -1
    node: str = ""
    turning: int = -1

    @cached_property
    def span(self) -> int:
        return round_up(max(self.size, 1), LINE_BYTES)

    @property
    def doubled(self) -> bool:
        """True if a loop can alternate between two copies of it."""
        return self.turning >= 0

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
    """Places buffers in ``capacity`` bytes; two that are alive at the same time never overlap.

    Addresses are multiples of ``grain``.
    """

    capacity: float
    placed: list[SpmBuffer] = field(default_factory=list)
    grain: int = LINE_BYTES

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

    def place_apart(self, buffers: Sequence[SpmBuffer], doubled: Sequence[SpmBuffer]) -> None:
        """Place buffers with one distance from each first copy to the second."""
        originals = [buffer for buffer in doubled if buffer.first >= 0]
        alone = SpmAllocator(inf, grain=self.grain)
        alone.place(originals)
        distance = alone.end
        first, last = min(buffer.first for buffer in originals), max(buffer.last for buffer in originals)
        begin = self._address(SpmBuffer("for two copies", 2 * distance, first=first, last=last))
        for buffer in originals:
            buffer.address += begin
            buffer.second = buffer.address + distance
            self.placed += [buffer, replace(buffer, address=buffer.second)]
        self.place([buffer for buffer in buffers if buffer not in originals])

    def _address(self, buffer: SpmBuffer) -> int:
        """The start of the smallest gap that holds the buffer throughout its live range."""
        alive = [other for other in self.placed if other.first <= buffer.last and buffer.first <= other.last]
        grain = self.grain
        taken = (
            (other.address - other.address % grain, round_up(other.address + other.span, grain))
            for other in alive
        )
        address = best_gap(taken, round_up(buffer.span, grain), self.capacity)
        if address is None:
            raise SpmOverflow(
                f"buffer {buffer.symbol} of {buffer.span} bytes does not fit the {self.capacity} bytes of SPM"
            )
        return address

    @property
    def end(self) -> int:
        """The first multiple of the grain after all buffers."""
        ends = (round_up(buffer.address + buffer.span, self.grain) for buffer in self.placed)
        return max(ends, default=0)


@dataclass
class InstructionSpan:
    """The engine instructions of a loop: the numbers of its first and its last."""

    first: int
    last: int = -1


@dataclass(frozen=True)
class FixedBuffers:
    """Buffers of a phase that have their addresses before the others. All of them are alive until instruction
    number ``until``."""

    addresses: Mapping[SpmBuffer, int]
    until: int = 0

    def mirrored(self, capacity: int) -> FixedBuffers:
        """The addresses counted from the end of the scratchpad."""
        return FixedBuffers(
            {buffer: capacity - buffer.span - address for buffer, address in self.addresses.items()},
            self.until,
        )


NONE_FIXED = FixedBuffers({})


@dataclass(frozen=True)
class Copies:
    """The buffers of a phase with second copies, by their symbols, and the loops that use them alternately.

    ``reuse``: buffers in a loop may share bytes. ``apart``: the symbol of the common distance of all copies.
    """

    doubled: frozenset[str]
    loops: frozenset[int]
    reuse: bool
    apart: str = ""


@dataclass
class PhaseBuffers:
    """The buffers of a phase, and the instructions and loops that use them.

    ``copies``: the buffers with second copies, if that is decided. ``grain``: addresses are multiples of it
    where there is room.
    """

    buffers: list[SpmBuffer] = field(default_factory=list)
    loops: list[InstructionSpan] = field(default_factory=list)
    copies: Copies | None = None
    grain: int = LINE_BYTES
    needed_twice: set[SpmBuffer] = field(default_factory=set)
    """Buffers that need their second copies, because the loads into them run ahead."""
    _uses: list[tuple[SpmBuffer, int, tuple[int, ...]]] = field(default_factory=list)
    _placed_grain: int = LINE_BYTES
    _reuse: bool = False
    _fixed: Collection[SpmBuffer] = ()

    def settle(self, copies: Copies | None, small: bool) -> None:
        """Set the buffers with second copies (None: undecided), and whether the code should be small."""
        self.copies, self.grain = copies, _SMALL_GRAIN if small else LINE_BYTES

    def use(self, buffer: SpmBuffer, instruction: int, scope: tuple[int, ...]) -> None:
        """Record that an instruction inside the loops ``scope`` uses a buffer."""
        self._uses.append((buffer, instruction, scope))

    @property
    def recorded(self) -> int:
        """The number of uses so far."""
        return len(self._uses)

    def forget_since(self, recorded: int) -> None:
        """Forget the uses that were recorded after the first ``recorded`` ones."""
        del self._uses[recorded:]

    def shift(self, instructions: int, uses: range, loops: range) -> None:
        """Add to the instruction numbers of uses and loops before which instructions have been inserted."""
        for at in uses:
            buffer, number, scope = self._uses[at]
            self._uses[at] = buffer, number + instructions, scope
        for span in self.loops[loops.start : loops.stop]:
            span.first += instructions
            span.last += instructions

    def stay(self, buffers: Iterable[SpmBuffer], loop: int, last: int, scope: tuple[int, ...]) -> None:
        """Buffers are alive from the beginning of a loop to its ``last`` instruction, with second copies."""
        for buffer in buffers:
            self.use(buffer, self.loops[loop].first, scope)
            self.use(buffer, last, scope)
            self.needed_twice.add(buffer)

    def place(self, capacity: int, fixed: FixedBuffers = NONE_FIXED) -> None:
        """Give the buffers their addresses; SpmOverflow if they do not fit.

        At first all buffers of a loop have bytes of their own, and second copies if the loop can alternate
        between two. Then the load of the next iteration, the arithmetic of this one and its store can
        overlap. If that does not fit, outer loops give up copies. Next, bytes are reused after a buffer's
        last use, and the largest copies are given up, one by one.
        """
        problem = SpmOverflow("")
        for reuse, wanted in self._ways_to_place():
            doubled = [buffer for buffer in self.buffers if buffer in {*wanted, *self.needed_twice}]
            for grain in sorted({self.grain, LINE_BYTES}, reverse=True):
                self._reuse, self._placed_grain = reuse, grain
                try:
                    self._place(capacity, doubled, fixed)
                    return
                except SpmOverflow as overflow:
                    problem = overflow
        raise problem

    def _ways_to_place(self) -> Iterator[tuple[bool, list[SpmBuffer]]]:
        """Yield the ways to place buffers, the best first: True if buffers of a loop share bytes, and the
        buffers with second copies."""
        doubled = [buffer for buffer in self.buffers if buffer.doubled]
        if self.copies is not None:
            yield self.copies.reuse, doubled
            return
        for depth in sorted({len(buffer.scope) for buffer in doubled}):
            doubled = [buffer for buffer in doubled if len(buffer.scope) >= depth]
            yield False, doubled
        yield True, doubled
        for span in sorted({buffer.span for buffer in doubled}, reverse=True):
            yield True, [buffer for buffer in doubled if buffer.span < span]
        yield False, []
        yield True, []

    def _place(self, capacity: int, doubled: list[SpmBuffer], fixed: FixedBuffers) -> None:
        for buffer in self.buffers:
            buffer.first = buffer.last = buffer.address = buffer.second = -1
        for buffer, instruction, scope in self._uses:
            depth = len(buffer.scope) if self._reuse else 0
            if len(scope) > depth:
                loop = self.loops[scope[depth]]
                buffer.use(loop.first, loop.last)
            else:
                buffer.use(instruction, instruction)
        self._fixed = fixed.addresses
        for buffer, address in fixed.addresses.items():
            buffer.address = address
            buffer.use(0, fixed.until)
        free = [buffer for buffer in self.buffers if buffer not in fixed.addresses]
        doubled = [buffer for buffer in doubled if buffer not in fixed.addresses]
        allocator = SpmAllocator(capacity, list(fixed.addresses), self._placed_grain)
        if self.copies is not None and self.copies.apart:
            allocator.place_apart(free, doubled)
        else:
            allocator.place(free, doubled)

    def mirror(self, capacity: int) -> None:
        """Count the addresses from the end of the scratchpad instead of its beginning."""
        for buffer in self.placed:
            grain = LINE_BYTES if buffer in self._fixed else self._placed_grain
            end = capacity - round_up(buffer.span, grain)
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
        doubled = [b for b in self.placed if b.doubled]
        lines += [f"        .equ {b.distance_symbol}, {b.distance}" for b in doubled]
        if self.copies is not None and self.copies.apart:
            lines.append(f"        .equ {self.copies.apart}, {doubled[0].distance}")
        return lines

    def found_copies(self) -> Copies:
        """The buffers with second copies in the present placement."""
        doubled = [buffer for buffer in self.placed if buffer.second >= 0]
        symbols, loops = {buffer.symbol for buffer in doubled}, {buffer.turning for buffer in doubled}
        return Copies(frozenset(symbols), frozenset(loops), self._reuse)
