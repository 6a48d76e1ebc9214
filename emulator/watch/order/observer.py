"""Logs what every tile of a run accesses and waits for, and judges it when the run has ended."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from asm.image import Image
from emulator.core.code import Code
from emulator.memory import state
from emulator.memory.areas import Bytes, HostMemoryError, anonymous
from emulator.memory.shadow_words import COPY, EXIT, GRANULE, IN_DDR, T_DDR, T_SPM, T_TILE
from emulator.tile.events import Copy, Packet, Pieces, Side
from emulator.tile.observer import Observer
from emulator.tile.tile import Status, Tile
from emulator.watch.strict.exits import outputs
from tx8isa.errors import Tx8Error
from tx8isa.machine.description import Machine

from . import rows as layout
from .findings import OrderFindings, found_order
from .judge import judged
from .log import check_kernel, hook_kernel

Words = npt.NDArray[np.int64]


class UnknownOrder(Tx8Error):
    """Raised between rounds when the order of a program depends on what is not followed."""


class OrderRun(Observer):
    """Observes the tiles of one chip, from before they run.

    ``codes`` is the program of each tile. HostMemoryError when the host refuses the memory of the logs.
    """

    def __init__(
        self, tiles: Sequence[Tile], machine: Machine, image: Image, codes: Sequence[Code], ddr_bytes: int
    ) -> None:
        self._tiles, self._machine, self._image, self._codes = tiles, machine, image, codes
        self._areas: list[Bytes] = []
        self.not_followed = set[str]()
        """What else orders accesses of this program; its order is then not decided."""
        unseen = self._area(8 * (max(machine.spm.bytes, ddr_bytes) // GRANULE + 1)).ctypes.data
        self._heads = [self._watch(tile, unseen) for tile in tiles]
        size = 8 * layout.ROW * layout.MOST_ROWS
        self._rows = [self._area(size).view(np.int64).reshape(-1, layout.ROW) for _ in tiles]
        for head, rows in zip(self._heads, self._rows, strict=True):
            head[layout.O_ROWS], head[layout.O_ROOM] = rows.ctypes.data, len(rows)
        self._known: list[list[Words]] = []
        self.begin()

    def begin(self) -> None:
        """Forget everything, for a run from the beginning."""
        self._known = [[np.zeros(len(self._tiles), np.int64)] for _ in self._tiles]
        self.not_followed.clear()
        if self._codes[0].reads_clock:
            self.not_followed.add("simulated time")
        for head in self._heads:
            head[[layout.O_COUNT, layout.O_LOST]] = 0

    def _area(self, size: int) -> Bytes:
        area = anonymous(size)
        if area is None:
            raise HostMemoryError(
                f"the host refuses {size} bytes of address space for the log of accesses; "
                "raise the memory limit"
            )
        self._areas.append(area)
        return area

    def _watch(self, tile: Tile, unseen: int) -> Words:
        """Let the compiled code of a tile call the log; return its words.

        ``unseen`` is an empty shadow, by which no access of the core is known to the fast path.
        """
        head = np.zeros(layout.LOG_WORDS, np.int64)
        head[[T_SPM, T_DDR]], head[T_TILE] = unseen, tile.number
        tile.words[state.SANITIZER] = head.ctypes.data
        tile.words[state.SANITIZER_HOOK], tile.words[state.CORE_CHECK] = hook_kernel(), check_kernel()
        return head

    def _append(self, tile: int, *words: int) -> None:
        head = self._heads[tile]
        count = int(head[layout.O_COUNT])
        if count >= layout.MOST_ROWS:
            head[layout.O_LOST] = 1
            return
        self._rows[tile][count, : len(words)] = words
        self._rows[tile][count, len(words) :] = 0
        head[layout.O_COUNT] = count + 1

    # -- events ----------------------------------------------------------------------------------------

    def waited(self, tile: Tile, worker: int) -> None:
        self._append(tile.number, layout.WAIT, 1 + worker, tile.pc, 0)

    def polled(self, tile: Tile) -> None:
        self.not_followed.add("polls of registers")

    def copy_started(self, tile: Tile, copy: Copy, block: int | None) -> None:
        if copy.away:
            self.not_followed.add("copies to other chips")
            return
        agent = layout.FIRST_COPY + (block or 0)
        record = COPY if block is not None else tile.detail[0]
        for source in copy.sources:
            self._side(tile, (agent, tile.pc, record, 0), tile.number, source, copy.pieces)
        for target in copy.targets:
            self._side(tile, (agent, tile.pc, record, 1), target.tile, target.side, copy.pieces)

    def _side(
        self, tile: Tile, what: tuple[int, int, int, int], space: int, side: Side, pieces: Pieces
    ) -> None:
        """Append one side of a copy; ``what``: agent, program counter, record, 1 if it is written."""
        loops = [word for pair in zip(side.strides, pieces.trips, strict=True) for word in pair]
        memory = IN_DDR if side.in_ddr else space
        self._append(tile.number, layout.ACCESS, *what, memory, side.start, pieces.size, *loops)

    def copies_awaited(self, tile: Tile) -> None:
        if tile.status is not Status.SENDING:
            self.not_followed.add("the register dma_status")
            return
        for block in range(self._machine.tile.dte_blocks):
            self._append(tile.number, layout.WAIT, layout.FIRST_COPY + block, tile.pc, 0)

    def update_sent(self, tile: Tile, target: int, packet: Packet, chip: int | None) -> None:
        self.not_followed.add("packets of streams")

    def arrival_seen(self, tile: Tile, stream: int) -> None:
        self.not_followed.add("packets of streams")

    def barrier_released(self, group: int) -> None:
        members = [tile.number for tile in self._tiles if group >> tile.number & 1]
        vectors = [self._known[number][-1].copy() for number in members]
        for number, vector in zip(members, vectors, strict=True):
            vector[number] += 1
            self._append(number, layout.BARRIER, layout.CORE_AGENT, 0, 0)
        together = np.max(vectors, 0)
        for number in members:
            self._known[number].append(together)

    def round_ended(self, tiles: Sequence[Tile]) -> None:
        if self.not_followed:
            raise UnknownOrder(f"{', '.join(sorted(self.not_followed))}: not followed")

    def run_ended(self, tiles: Sequence[Tile]) -> None:
        """The host reads the outputs when a tile has ended, whatever its engines still write."""
        for tile in tiles:
            for _, offset, size in outputs(self._image):
                if size and tile.status is Status.EXITED:
                    what = layout.EXIT_AGENT, tile.pc - 4, EXIT, 0, IN_DDR
                    self._append(tile.number, layout.ACCESS, *what, offset, size, 0, 1, 0, 1, 0, 1)

    # -- the end ---------------------------------------------------------------------------------------

    def findings(self) -> OrderFindings:
        """Judge the accesses so far."""
        counts = [int(head[layout.O_COUNT]) for head in self._heads]
        logs = [rows[:count] for rows, count in zip(self._rows, counts, strict=True)]
        if any(head[layout.O_LOST] for head in self._heads):
            self.not_followed.add(f"more than {layout.MOST_ROWS:,} accesses of a tile")
        found = judged(logs, self._known)
        others = self.not_followed | ({"flags in memory"} if found.flags else set())
        return found_order(self._machine, self._image, self._codes, found, frozenset(others))
