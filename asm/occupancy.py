"""The program's declarations about its scratchpad: contents of bytes, between two instructions."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field

from asm.image.types import LIVE_ROLES, LiveRange
from asm.syntax.expressions import Address
from asm.syntax.source import Source

from .diagnostics import Fault


@dataclass(frozen=True, slots=True)
class OpenRange:
    """A live range whose end has not been read yet: its declaration and its begin."""

    known: LiveRange
    begin: Address
    source: Source
    index: int


@dataclass
class Occupancy:
    """The live ranges of a program on a tile with ``capacity`` bytes of scratchpad."""

    capacity: int
    closed: list[tuple[LiveRange, Address, Address]] = field(default_factory=list)
    """Complete ranges, without their instructions: their begins and ends."""
    _open: dict[str, OpenRange] = field(default_factory=dict)
    _taken: list[tuple[int, int, str]] = field(default_factory=list)
    """First byte, end (exclusive) and name of the open ranges, by address."""

    def open(self, live: LiveRange, begin: Address, source: Source, index: int) -> None:
        """From ``begin`` on the bytes of a range are in use; Fault if they are not there or not free."""
        first, end = live.address, live.address + live.size
        if live.role not in LIVE_ROLES:
            raise Fault(f".live: role {live.role!r}", None, f"allowed: {' '.join(LIVE_ROLES)}")
        if live.size < 1 or first < 0 or end > self.capacity:
            what = f".live: {live.size} bytes from {first:#x}"
            raise Fault(f"{what} are not in the {self.capacity:#x} bytes of the SPM")
        if live.name in self._open:
            raise Fault(f".live: {live.name!r} is alive already", None, f"since {self._since(live.name)}")
        other = self._overlapping(first, end)
        if other is not None:
            what = f".live: {first:#x}..{end - 1:#x} hold {other!r}"
            raise Fault(what, None, f"since {self._since(other)}; end it with .dead")
        self._open[live.name] = OpenRange(live, begin, source, index)
        insort(self._taken, (first, end, live.name))

    def close(self, name: str, end: Address) -> None:
        """From ``end`` on the bytes of a range are free; Fault if it is not open then."""
        found = self._open.get(name)
        if found is None:
            raise Fault(f".dead: {name!r} is not alive", None, "begin it with .live")
        if found.begin.section != end.section or found.begin.offset == end.offset:
            raise Fault(f".dead: no instruction of {end.section} since .live at {self._since(name)}")
        del self._open[name]
        first = found.known.address
        self._taken.remove((first, first + found.known.size, name))
        self.closed.append((found.known, found.begin, end))

    def unended(self) -> Iterator[OpenRange]:
        """The ranges that are open at the end of the program."""
        yield from self._open.values()

    def _since(self, name: str) -> str:
        found = self._open[name]
        return found.source.where(found.index)

    def _overlapping(self, first: int, end: int) -> str | None:
        """An open range with bytes from ``first`` to before ``end``."""
        at = bisect_left(self._taken, (first,))
        for begin, stop, name in self._taken[max(at - 1, 0) : at + 1]:
            if begin < end and first < stop:
                return name
        return None
