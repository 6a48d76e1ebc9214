"""Watchpoints: accesses of the kernel core, an engine or the DTE to some bytes of SPM or DDR.

The core stops before a watched access. An engine instruction counts when it is executed, not when it is
issued: it was pending before and no longer is. A copy counts when it is carried out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import zip_longest

from emulator import native
from emulator.chip.pause import Marks
from emulator.chip.system import System
from emulator.chip.traffic import Sent
from emulator.core.predecode import ENGINE, NOTHING
from emulator.debug.gdb.memory_view import place_of
from emulator.debug.gdb.pending import PendingInstruction, Range, describe, is_pending, pending
from emulator.engines import queues
from emulator.tile.events import Copy, Side
from emulator.tile.fault import place
from emulator.tile.observer import Observer
from emulator.tile.tile import Tile

from .skip import Skip, operations
from .stops import Stop


class Kind(IntEnum):
    """Numbers of the watchpoints in the protocol."""

    WRITE = 2
    READ = 3
    ACCESS = 4


_NAMES = {Kind.WRITE: "watch", Kind.READ: "rwatch", Kind.ACCESS: "awatch"}


@dataclass(frozen=True)
class Watch:
    """A watched range. ``first`` .. ``last`` are places (``memory_view.place_of``); each tile has an SPM."""

    kind: Kind
    address: int
    first: int
    last: int

    def sees(self, touched: Range) -> bool:
        """Return True for an access that is watched."""
        wanted = self.kind is Kind.ACCESS or touched.written == (self.kind is Kind.WRITE)
        return wanted and touched.first <= self.last and self.first <= touched.last


@dataclass(frozen=True)
class Origin:
    """Tile and instruction that started a copy that is under way."""

    tile: int
    pc: int | None
    """Program counter; None if the copy was started before the snapshot that the run began with."""
    copy: Copy

    def where(self, system: System) -> str:
        """Return tile, address and line of the copy's start."""
        if self.pc is None:
            return f"tile {self.tile}, before its state was saved"
        return place(system.image, system.tiles[self.tile], self.pc)


class Watches(Observer):
    """The watchpoints of a debugger. As an observer of the run it also sees copies."""

    def __init__(self, system: System, marks: Marks) -> None:
        self.system, self.marks = system, marks
        self.copies: dict[int, Origin] = {}
        """Copies under way, by identity."""
        self._watches: list[Watch] = []
        self._copied: list[Stop] = []
        self.set_origins([[] for _ in system.tiles])
        self.skip: Skip | None = None
        """Executes accesses of other bytes; None without watchpoints or without compiled code."""

    @property
    def watching(self) -> bool:
        return bool(self._watches)

    def add(self, kind: Kind, tile: Tile, address: int, size: int) -> bool:
        """Watch a range of the selected tile's memory; False where it has none."""
        first = place_of(self.system, tile, address, size)
        if first is None or size < 1:
            return False
        self._watches.append(Watch(kind, address, first, first + size - 1))
        self._hide()
        return True

    def remove(self, kind: Kind, address: int) -> None:
        """Forget a watchpoint, if it is there."""
        self._watches = [w for w in self._watches if (w.kind, w.address) != (kind, address)]
        self._hide()

    def _hide(self) -> None:
        kinds = {watch.kind for watch in self._watches}
        hidden = [*(operations("load") if kinds - {Kind.WRITE} else ())]
        hidden += [*(operations("store") if kinds - {Kind.READ} else ())]
        self.marks.hide([*hidden, ENGINE] if hidden else ())
        ranges = [(w.first, w.last, w.kind is not Kind.WRITE, w.kind is not Kind.READ) for w in self._watches]
        self.skip = Skip(self.system.loop, ranges) if ranges and native.jit_enabled() else None

    def _seen(self, touched: Sequence[Range]) -> Watch | None:
        return next((w for w in self._watches for one in touched if w.sees(one)), None)

    # -- the kernel core -------------------------------------------------------------------------------

    def core_access(self, tile: Tile) -> Stop | None:
        """Return the stop before the load or store at a tile's program counter, when it is watched."""
        if not self._watches:
            return None
        code = self.system.codes[tile.number]
        at = code.index(tile.pc)
        word = int(code.words[at]) if at is not None else NOTHING
        stores = operations("store")
        record = stores.get(word & 0xFF) or operations("load").get(word & 0xFF)
        if record is None:
            return None
        address = int(tile.words[word >> 16 & 0xFF]) + (word >> 32)
        first = place_of(self.system, tile, address, record.width)
        if first is None:
            return None
        watch = self._seen([Range(first, first + record.width - 1, word & 0xFF in stores)])
        return None if watch is None else Stop(tile.number, watch=_name(watch))

    # -- the engines -----------------------------------------------------------------------------------

    def pending(self, tile: Tile) -> list[tuple[PendingInstruction, Watch]]:
        """Return the instructions in the queues of a tile that will touch watched bytes."""
        if not self._watches:
            return []
        seen = ((entry, self._seen(entry.ranges)) for entry in pending(tile))
        return [(entry, watch) for entry, watch in seen if watch is not None]

    def executed(self, tile: Tile, before: list[tuple[PendingInstruction, Watch]]) -> Stop | None:
        """Return the stop after the instructions of ``pending`` that have been executed."""
        done = [(entry, watch) for entry, watch in before if not is_pending(tile, entry)]
        if not done:
            return None
        image = self.system.image
        texts = [f"{place(image, tile, entry.pc)}: executed {describe(tile, entry)}" for entry, _ in done]
        return Stop(tile.number, text="\n".join(texts), watch=_name(done[-1][1]), done=True)

    # -- copies between tiles --------------------------------------------------------------------------

    def copy_started(self, tile: Tile, copy: Copy, block: int | None) -> None:
        self.copies[id(copy)] = Origin(tile.number, tile.pc, copy)

    def copy_done(self, tile: Tile, copy: Copy, error: bool) -> None:
        origin = self.copies.pop(id(copy), None)
        if error or origin is None or not self._watches:
            return
        sides = [(tile.number, side, False) for side in copy.sources]
        sides += [(target.tile, target.side, True) for target in copy.targets]
        for number, side, written in sides:
            watch = self._seen([_side_range(side, copy.pieces.span, written)])
            if watch is not None:
                verb = "wrote to" if written else "read from"
                memory = "DDR" if side.in_ddr else f"the SPM of tile {number}"
                text = f"{origin.where(self.system)}: its copy {verb} {memory}"
                self._copied.append(Stop(number, text=text, watch=_name(watch), done=True))

    def origins(self) -> list[list[int | None]]:
        """Return for each tile the program counters that started the copies under way, in their order."""
        return [
            [self.copies[id(work.copy)].pc for work in started if isinstance(work, Sent)]
            for started in self.system.traffic.started
        ]

    def set_origins(self, origins: Sequence[Sequence[int | None]]) -> None:
        """Take over the copies under way in a restored state; unknown origins are None."""
        self.copies.clear()
        self._copied = []
        for number, started in enumerate(self.system.traffic.started):
            copies = [work.copy for work in started if isinstance(work, Sent)]
            for copy, pc in zip_longest(copies, origins[number][: len(copies)]):
                self.copies[id(copy)] = Origin(number, pc, copy)

    def copied(self) -> Stop | None:
        """Return the stop after copies since the last call, with the last one's watchpoint."""
        stops, self._copied = self._copied, []
        if not stops:
            return None
        return replace(stops[-1], text="\n".join(stop.text for stop in stops))


def _name(watch: Watch) -> str:
    return f"{_NAMES[watch.kind]}:{watch.address:x}"


def _side_range(side: Side, span: Callable[[tuple[int, int, int]], int], written: bool) -> Range:
    first = side.start + (queues.DDR if side.in_ddr else 0)
    return Range(first, first + span(side.strides) - 1, written)
