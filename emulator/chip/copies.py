"""Carrying out DTE copies (docs/isa.md, Copies between tiles).

A copy reads pieces of its source and writes them to one or several targets. One side may be strided; the
other one is contiguous. The maker of a ``Copy`` has checked that all of its bytes are in memory. The whole
source is read before anything is written.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from emulator import native
from emulator.memory import state
from emulator.memory.areas import Bytes, HostMemoryError, anonymous
from emulator.memory.made import MadeBytes
from emulator.memory.resetting import Area
from emulator.memory.rows import copy_rows, overlap
from emulator.native.primitives.memory import view_i64
from emulator.tile.dte_pmu import DtePmu
from emulator.tile.events import Copy, Levels, Packet, Pieces, Side, Target
from emulator.tile.notes import NEST_WORDS, OF, SIZE, TO, TRIPS
from emulator.tile.tile import Tile

from .stream import Fsm

FINISHED, ERROR = 1 << 0, 1 << 8
"""Bits of dma_status (spec)."""


@dataclass
class Channel:
    """State of the copies of one register block, as a program sees it."""

    block: int
    busy: bool = False
    status: int = 0
    """dma_status; after a reset it is busy (proposed)."""
    registers: dict[int, int] = field(default_factory=dict)


class Dte:
    """The copy engines of all tiles, with the streams that count arriving bytes."""

    def __init__(self, tiles: Sequence[Tile], ddr: Area, made: MadeBytes | None = None) -> None:
        """``made``: as for ``Traffic``."""
        self.tiles, self._ddr, self._made = tiles, ddr, made
        self.streams = [Fsm() for _ in tiles]
        self.counters = [DtePmu() for _ in tiles]

    def carry_out(self, tile: Tile, copy: Copy, channel: Channel | None = None) -> bool:
        """Carry out a started copy; False for a transport error, which moves nothing (proposed)."""
        error = self._refused(copy)
        if not error:
            self._move(tile, copy)
            for target in copy.targets:
                self._arrived(target, copy)
        self.finish(tile, copy, channel, error)
        return not error

    def collect(self, tile: Tile, copy: Copy) -> list[Bytes]:
        """Return the bytes that each target of a copy receives, without gaps."""
        pieces, found = copy.pieces, list[Bytes]()
        for side in copy.sources:
            data = np.empty(pieces.total if self._made is None else 0, dtype=np.uint8)
            host = int(data.ctypes.data)
            if self._made is None:
                _copy(pieces, host, pieces.consecutive, self._host(tile, side), side.strides)
            found.append(data)
        return [found[copy.source_of(number)] for number in range(len(copy.targets))]

    def accept(self, target: Target, pieces: Pieces, data: Bytes) -> bool:
        """Write the data that another chip sent to a tile of this one.

        False for a transport error, as above.
        """
        copy = Copy(pieces, (), (target,))
        if self._refused(copy):
            return False
        host, side = self._host(self.tiles[target.tile], target.side), target.side
        if self._made is None:
            _copy(pieces, host, side.strides, int(data.ctypes.data), pieces.consecutive)
        self._arrived(target, copy)
        return True

    def finish(self, tile: Tile, copy: Copy, channel: Channel | None, error: bool) -> None:
        """Count a finished copy, and set its registers."""
        self.counters[tile.number].note(channel.block if channel else None, copy.bytes_written, not error)
        if channel:
            channel.busy = False
            channel.status = FINISHED | (ERROR if error else 0)

    def _refused(self, copy: Copy) -> bool:
        """Return True if a stream refuses the data of a copy."""
        arriving: dict[tuple[int, Packet], int] = {}
        for target in copy.targets:
            packet = target.packet
            if packet is None:
                continue
            place, streams = (target.tile, packet), self.streams[target.tile]
            arriving[place] = arriving.get(place, 0) + copy.pieces.total
            address = target.side.start
            if target.side.in_ddr:
                address += int(self.tiles[target.tile].words[state.ENGINE_DDR])
            span = copy.pieces.span(target.side.strides)
            if not streams.has_room(packet, arriving[place]) or not streams.covers(
                packet.stream, address, span
            ):
                return True
        return False

    def _arrived(self, target: Target, copy: Copy) -> None:
        side, size = target.side, copy.pieces.span(target.side.strides)
        if self._made is not None:
            self._made.mark(None if side.in_ddr else target.tile, side.start, size)
        elif side.in_ddr:
            self._ddr.mark(side.start, size)
        else:
            self.tiles[target.tile].spm.mark(side.start, size)
        packet = target.packet
        if packet is not None:
            self.streams[target.tile].receive(packet, copy.pieces.total)

    def _move(self, tile: Tile, copy: Copy) -> None:
        if self._made is not None:
            return
        pieces = copy.pieces
        sources = [(self._host(tile, side), side.strides) for side in copy.sources]
        targets = [(self._host(self.tiles[t.tile], t.side), t.side.strides) for t in copy.targets]
        if len(sources) == 1 and _consecutive(pieces, *sources, *targets):
            source, size = sources[0][0], pieces.total
            if len(targets) == 1 or all(abs(target - source) >= size for target, _ in targets):
                for target, _ in targets:
                    ctypes.memmove(target, source, size)
                return
        if len(targets) > 1 or not _consecutive(pieces, *sources, *targets):
            sources, _staged = _stage(pieces, sources, targets)
        for number, (address, strides) in enumerate(targets):
            _copy(pieces, address, strides, *sources[copy.source_of(number)])

    def _host(self, tile: Tile, side: Side) -> int:
        return int(tile.words[state.DDR if side.in_ddr else state.SPM]) + side.start


Host = tuple[int, Levels]
"""Host address of a side and its strides."""


def _consecutive(pieces: Pieces, *sides: Host) -> bool:
    return all(strides == pieces.consecutive for _, strides in sides)


def _stage(pieces: Pieces, sources: list[Host], targets: list[Host]) -> tuple[list[Host], Bytes | None]:
    """Return the sources, read into a buffer if a target overlaps one of them; and that buffer."""
    if not any(
        overlap(source, pieces.span(of), target, pieces.span(to))
        for source, of in sources
        for target, to in targets
    ):
        return sources, None
    size = pieces.total * len(sources)
    area = anonymous(size)
    if area is None:
        raise HostMemoryError(f"the host refuses {size} bytes of working memory for a DTE copy")
    first = int(area.ctypes.data)
    staged = [(first + number * pieces.total, pieces.consecutive) for number in range(len(sources))]
    for (to, compact), (source, strides) in zip(staged, sources, strict=True):
        _copy(pieces, to, compact, source, strides)
    return staged, area


def _copy(pieces: Pieces, target: int, to: Levels, source: int, of: Levels) -> None:
    """Copy pieces in the order of the loops; if several have the same target, the last one remains."""
    if to == of == pieces.consecutive:
        ctypes.memmove(target, source, pieces.total)
        return
    words = np.array([*to, *of, pieces.size, *pieces.trips], dtype=np.int64)
    native.call(copies_kernel(), target, source, words.ctypes.data)


def copies_kernel() -> int:
    """Return the address of the compiled copy."""
    return native.compile_once(copy_pieces, "DTE copy", 3)


def copy_pieces(target: int, source: int, words: int) -> int:
    """Copy between host addresses; ``words`` is the address of the loops (``notes``). Compiled."""
    nest = view_i64(words, NEST_WORDS)
    second, third = nest[TRIPS + 1], nest[TRIPS + 2]
    for k in range(second * third):
        to = target + k % second * nest[TO + 1] + k // second * nest[TO + 2]
        of = source + k % second * nest[OF + 1] + k // second * nest[OF + 2]
        copy_rows(to, nest[TO], of, nest[OF], nest[SIZE], nest[TRIPS])
    return 0


def instruction_copy(
    values: dict[str, int], in_ddr: dict[str, bool], tiles: Sequence[int], scatter: bool
) -> Copy:
    """Return the copy of a DTE instruction: operand values by name, DDR addresses as offsets."""
    strided = "src_" if "src_iter0" in values else "dst_"
    trips = [values.get(f"{strided}iter{level}", 1) for level in range(3)]
    strides = [values.get(f"{strided}stride{level}", 0) for level in range(3)]
    pieces = Pieces(values["n"], (trips[0], trips[1], trips[2]))
    sides = {"src_": pieces.consecutive, "dst_": pieces.consecutive}
    sides[strided] = pieces.strided(strides)
    sources = tuple(
        Side(in_ddr["src"], values["src"] + number * pieces.size, sides["src_"])
        for number in range(len(tiles) if scatter else 1)
    )
    target = Side(in_ddr["dst"], values["dst"], sides["dst_"])
    return Copy(pieces, sources, tuple(Target(tile, target) for tile in tiles))
