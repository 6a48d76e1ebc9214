"""The sanitizer: its memories, and the order of a chip's agents by waits, copies and barriers.

Vector clocks represent the order. An engine instruction comes after the actions of its core before the issue.
A core comes after a worker's instructions once it has waited for them, or has seen in the status register
that the worker is idle. A copy comes after the actions of its core before the start. It comes before
everything that follows ``dte.wait``. It also comes before everything after its end is seen in dma_status, or
after the receiving tile sees its arrival. A barrier orders its tiles. The instructions of one worker count as
sequential, because the chip detects their conflicts.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from asm.image import Image
from emulator import native
from emulator.core.code import Code
from emulator.engines import queues, tables
from emulator.memory import shadow_words as layout
from emulator.memory import state
from emulator.memory.areas import Bytes, HostMemoryError, anonymous
from emulator.tile.events import Copy, Packet, Pieces, Side
from emulator.tile.observer import Observer
from emulator.tile.pmu import LSU_TIMEOUT_RESET
from emulator.tile.tile import Status, Tile
from tx8isa.machine.description import Machine
from tx8isa.numbers.limits import CACHE_LINE
from tx8isa.table.encoding import encoder

from . import access, checks, core_checks
from .agents import Agents
from .ends import hidden_ends
from .exits import outputs
from .findings import Findings
from .hazards import Hazard, HazardKind, make_site
from .stamps import Stamp

Words = npt.NDArray[np.int64]


class Sanitizer(Observer):
    """Observes the tiles of a chip, from before they run.

    ``codes`` is the program of each tile, which may change while it runs. ``waits_for`` describes the object
    that a hanging tile waits for.
    """

    def __init__(
        self,
        tiles: Sequence[Tile],
        machine: Machine,
        image: Image,
        codes: Sequence[Code],
        ddr_bytes: int,
        waits_for: Callable[[Tile], str],
        chip: int = 0,
    ) -> None:
        self.tiles, self.machine, self.image = tiles, machine, image
        self._waits_for = waits_for
        self._memories: list[Bytes] = []
        self.context = np.zeros(layout.CONTEXT_WORDS, np.int64)
        self.agents = Agents(machine, chip)
        self._findings = Findings(self.context, machine, image, codes, self.agents)
        self.vectors = np.zeros((self.agents.count, self.agents.count), np.int64)
        self.vectors[self.agents.own, self.agents.own] = (
            1  # the vectors of other chips do not change before these chips send
        )
        self._released = np.zeros((len(tiles) * machine.chip_count, self.agents.count), np.int64)
        self._make_context(ddr_bytes)
        self._facts, self._costs = checks.facts_of_records(), tables.costs(machine)
        self.blocks = [self._watch(tile) for tile in tiles]
        self._copy_side = checks.copy_kernel()
        self._arrivals: dict[tuple[int, int], Words] = {}
        """By tile and stream: the vector of a core that has seen the stream's arrivals."""
        self._on_the_way: list[tuple[int, Words, tuple[tuple[int, int], ...]]] = []
        """Copies and updates of this round: agent, its vector, the streams that will count it."""
        self._stamps: list[deque[Stamp]] = [deque() for _ in tiles]
        """By tile: stamps of messages to other chips that have not left."""
        self._done: dict[int, Words] = {}
        """Vectors of register blocks whose copies were carried out."""
        self._other: list[tuple[int, Hazard]] = []
        """(sequence number, hazard) of findings outside the shadow."""
        self._read: set[int] = set()
        """Tiles that have exited and whose outputs were read."""
        self._states: set[bytes] = set()
        """Digests of the tiles' states after each round since anything happened between tiles."""

    def _make_context(self, ddr_bytes: int) -> None:
        context, agents = self.context, self.agents
        context[layout.ACCESSES] = self._table(8 * layout.ACCESS_WORDS * layout.MOST_ACCESSES)
        context[layout.NODES] = self._table(8 * layout.MOST_NODES)
        context[layout.BLOCKS] = self._table(layout.BLOCK_BYTES * layout.MOST_BLOCKS)
        context[layout.DDR_SHADOW] = self._table(8 * (ddr_bytes // layout.GRANULE + 1))
        context[layout.ACCESS_COUNT], context[layout.NODE_COUNT], context[layout.BLOCK_COUNT] = 1, 0, 1
        context[layout.VECTORS], context[layout.AGENTS] = self.vectors.ctypes.data, agents.count
        context[layout.RELEASED], context[layout.PER_TILE] = self._released.ctypes.data, agents.per_tile
        context[layout.FIRST_COPY] = agents.first_copy
        self._make_caches(ddr_bytes)
        access.new_access(self._c, 0, 0, 0, layout.HOST)

    def _make_caches(self, ddr_bytes: int) -> None:
        """Make the tables about the data caches of this chip's cores."""
        context, agents, lines = self.context, self.agents, ddr_bytes // CACHE_LINE + 1
        self._caches = np.zeros((len(self.tiles) * self.machine.chip_count, layout.CACHE_WORDS), np.int64)
        context[layout.CACHES] = self._caches.ctypes.data
        context[layout.LINES] = self._table(8 * layout.LINE_WORDS * lines)
        context[layout.VIEWS] = self._table(8 * agents.count * layout.MOST_VIEWS)
        for tile in range(len(self.tiles)):
            cache = self._caches[agents.core(tile) // agents.per_tile]
            cache[layout.C_FENCES] = self._table(8 * layout.MOST_FENCES)
            cache[layout.C_CLEANS] = self._table(8 * layout.MOST_FENCES)
            cache[layout.C_VIEWS] = self._table(4 * lines)

    def _table(self, size: int) -> int:
        area = anonymous(size)
        if area is None:
            raise HostMemoryError(
                f"the host refuses {size} bytes of address space for the sanitizer; raise the memory limit, "
                "or describe a machine with less DDR"
            )
        self._memories.append(area)
        return int(area.ctypes.data)

    @property
    def _c(self) -> int:
        return int(self.context.ctypes.data)

    def _watch(self, tile: Tile) -> Words:
        """Let the compiled code of a tile call the checks; return its words (``T_*``)."""
        block = np.zeros(layout.TILE_WORDS, np.int64)
        core = self.agents.core(tile.number)
        sites = self._table(8 * layout.SITE_WORDS * int(tile.words[state.CODE_WORDS] + 1))
        block[layout.T_CONTEXT], block[layout.T_TILE] = self._c, tile.number
        block[layout.T_SPM] = self._table(8 * (self.machine.spm.bytes // layout.GRANULE + 1))
        block[layout.T_CODE], block[layout.T_AGENT] = sites, core
        block[layout.T_CLOCK] = self.vectors[core, core:].ctypes.data
        block[layout.T_DDR], block[layout.T_BLOCKS] = self.context[[layout.DDR_SHADOW, layout.BLOCKS]]
        block[layout.T_FACTS] = self._facts.ctypes.data
        block[layout.T_COSTS] = self._costs.ctypes.data
        tile.words[state.LSU_TIMEOUT] = LSU_TIMEOUT_RESET
        tile.words[state.SANITIZER] = block.ctypes.data
        tile.words[state.SANITIZER_HOOK] = checks.hook_kernel()
        tile.words[state.CORE_CHECK] = core_checks.check_kernel()
        return block

    def loaded(self, offset: int, size: int) -> None:
        """Record DDR bytes that were loaded before the program began."""
        self._access(0, layout.LOADED, True, layout.IN_DDR, offset, [size, 0, 1, 0, 1, 0, 1])

    def _access(
        self, agent: int, number: int, write: bool, space: int, first: int, loops: Sequence[int]
    ) -> None:
        """Check pieces of one memory that an access reads or writes."""
        in_ddr = space == layout.IN_DDR
        at = self.context[layout.DDR_SHADOW] if in_ddr else self.blocks[space][layout.T_SPM]
        words = np.array([agent, number, int(write), space, at, first, *loops], np.int64)
        native.call(self._copy_side, words.ctypes.data, self._c)

    def hazards(self) -> tuple[Hazard, ...]:
        """Return the hazards found so far, by tile and in the order of its program."""
        found = [*self._findings.hazards(), *self._other]
        return tuple(hazard for _, hazard in sorted(found, key=lambda pair: (pair[1].at.tile, pair[0])))

    @property
    def more(self) -> bool:
        """True if there were more hazards than are kept."""
        return bool(self.context[layout.LOST])

    @property
    def gave_up(self) -> bool:
        """True if the tables were full, so that the rest of the run was not checked."""
        return bool(self.context[layout.FULL])

    def note(self, hazard: Hazard) -> None:
        """Add a hazard that was not found by the shadow."""
        self.context[layout.SEQUENCE] += 1
        self._other.append((int(self.context[layout.SEQUENCE]), hazard))

    def note_wrong_end(self, tile: Tile) -> None:
        """Add the hazards of a packet that was refused because of its end."""
        for hazard in hidden_ends(self.image, tile):
            self.note(hazard)

    # -- order ------------------------------------------------------------------------------------------

    def _see(self, agent: int, vector: Words) -> None:
        """Record that an agent has seen everything before another's vector."""
        np.maximum(self.vectors[agent], vector, out=self.vectors[agent])

    def _step(self, agent: int) -> None:
        self.vectors[agent, agent] += 1

    def waited(self, tile: Tile, worker: int) -> None:
        worked = self.vectors[self.agents.worker(tile.number, worker)]
        self._see(self.agents.core(tile.number), worked)

    def copy_started(self, tile: Tile, copy: Copy, block: int | None) -> None:
        core, agent = self.agents.core(tile.number), self.agents.dte(tile.number, block)
        if self.context[layout.FULL]:
            if copy.away:
                self._leave(tile, agent)
            return
        self._see(agent, self.vectors[core])
        self._step(core)
        self._step(agent)
        clock, pc = int(self.vectors[agent, agent]), tile.pc
        record = layout.COPY if block is not None else tile.detail[0]
        number = access.new_access(self._c, agent, clock, pc, record)
        if number:
            for source in copy.sources:
                self._side(agent, number, False, tile.number, source, copy.pieces)
            for target in () if copy.away else copy.targets:
                self._side(agent, number, True, target.tile, target.side, copy.pieces)
        if copy.away:
            self._leave(tile, agent)
            return
        packets = [(target.tile, target.packet) for target in copy.targets]
        streams = tuple((to, packet.stream) for to, packet in packets if packet is not None)
        self._on_the_way.append((agent, self.vectors[agent].copy(), streams))

    def _side(self, agent: int, number: int, write: bool, tile: int, side: Side, pieces: Pieces) -> None:
        loops = [pieces.size]
        for stride, trips in zip(side.strides, pieces.trips, strict=True):
            loops += [stride, trips]
        space = layout.IN_DDR if side.in_ddr else tile
        self._access(agent, number, write, space, side.start, loops)

    def copies_awaited(self, tile: Tile) -> None:
        core = self.agents.core(tile.number)
        for block in range(self.machine.tile.dte_blocks):
            agent = self.agents.dte(tile.number, block)
            vector = self.vectors[agent] if tile.status is Status.SENDING else self._done.get(agent)
            if vector is not None:
                self._see(core, vector)

    def update_sent(self, tile: Tile, target: int, packet: Packet, chip: int | None) -> None:
        core = self.agents.core(tile.number)
        if chip is None:
            self._on_the_way.append((core, self.vectors[core].copy(), ((target, packet.stream),)))
        else:
            self._leave(tile, core)
        self._step(core)

    def arrival_seen(self, tile: Tile, stream: int) -> None:
        vector = self._arrivals.get((tile.number, stream))
        if vector is not None:
            self._see(self.agents.core(tile.number), vector)

    def barrier_released(self, group: int) -> None:
        cores = [self.agents.core(tile.number) for tile in self.tiles if group >> tile.number & 1]
        self._states.clear()
        self.vectors[cores] = self.vectors[cores].max(axis=0)
        for core in cores:
            self._step(core)

    # -- other chips -----------------------------------------------------------------------------------

    def _leave(self, tile: Tile, agent: int) -> None:
        """Record that a message of an agent goes to another chip."""
        self._stamps[tile.number].append(Stamp(agent, tile.pc, self.vectors[agent].copy()))

    def take_stamp(self, tile: Tile) -> Stamp:
        """Take the stamp of a tile's oldest message that has not left yet."""
        return self._stamps[tile.number].popleft()

    def copy_confirmed(self, tile: Tile, block: int | None) -> None:
        """Record that other chips have received all messages of a copy."""
        agent = self.agents.dte(tile.number, block)
        self._done[agent] = self.vectors[agent].copy()

    def came_from_afar(self, stamp: Stamp, tile: int, stream: int, pieces: Pieces, side: Side | None) -> None:
        """Record that a message from another chip has arrived, for a stream if that is not negative.

        Called between rounds. ``side``: the place that it has written, if it was a copy.
        """
        self._states.clear()
        if self.context[layout.FULL]:
            return
        agent = stamp.agent
        self._see(agent, stamp.vector)
        if side is not None:
            number = access.new_access(self._c, agent, int(stamp.vector[agent]), stamp.pc, layout.COPY)
            if number:
                self._side(agent, number, True, tile, side, pieces)
        if stream >= 0:
            before = self._arrivals.get((tile, stream), stamp.vector)
            self._arrivals[tile, stream] = np.maximum(before, stamp.vector)

    # -- events between tiles ----------------------------------------------------------------------------

    def copy_done(self, tile: Tile, copy: Copy, error: bool) -> None:
        self._states.clear()

    def repeats(self) -> bool:
        """Return True if all tiles repeat the state of an earlier round, with nothing between tiles since.

        Counts of stores and instructions are part of the state, so memory is the same too.
        """
        state = hashlib.sha256()
        for tile in self.tiles:
            state.update(snapshot(tile, self.blocks[tile.number]))
        repeated = state.digest() in self._states
        self._states.add(state.digest())
        return repeated

    def never_goes_on(self, tiles: Sequence[Tile]) -> None:
        for tile in tiles:
            if tile.status is not Status.EXITED:
                self.note(self._endless(tile))

    def run_ended(self, tiles: Sequence[Tile]) -> None:
        """Check the reads of outputs by the core of every tile, as far as its own engines are concerned."""
        for tile in tiles:
            ended = tile.status is Status.EXITED and tile.number not in self._read
            if ended and not self.gave_up:
                self._read.add(tile.number)
                self._read_outputs(tile)

    def _read_outputs(self, tile: Tile) -> None:
        core = self.agents.core(tile.number)
        workers = [self.agents.worker(tile.number, worker) for worker in range(self.machine.tile.workers)]
        if all(self.vectors[agent, agent] <= self.vectors[core, agent] for agent in workers):
            return
        seen = self.vectors[core].copy()
        others = np.ones(self.agents.count, bool)
        others[workers] = False
        self.vectors[core, others] = np.iinfo(np.int64).max  # barriers judge other tiles
        number = access.new_access(self._c, core, int(seen[core]), tile.pc - 4, layout.EXIT)
        for _, offset, size in outputs(self.image):
            if number and size:
                self._access(core, number, False, layout.IN_DDR, offset, [size, 0, 1, 0, 1, 0, 1])
        self.vectors[core] = seen

    def _endless(self, tile: Tile) -> Hazard:
        """Return the hazard of a tile that can never continue."""
        place, name = tile.pc, "loop"
        if tile.status is Status.BARRIER:
            name = "ncc.barrier"
            place -= encoder(tables.records()[tables.numbers()[name]]).size
        site = make_site(self.image, tile.number, place, name)
        fix = "make sure that the event for which it waits happens"
        return Hazard(HazardKind.ENDLESS, site, None, "", 0, -1, self._waits_for(tile), fix)

    def round_ended(self, tiles: Sequence[Tile]) -> None:
        if self._on_the_way:
            self._states.clear()
        for agent, vector, streams in self._on_the_way:
            self._done[agent] = vector
            for place in streams:
                before = self._arrivals.get(place, vector)
                self._arrivals[place] = np.maximum(before, vector)
        self._on_the_way.clear()


def snapshot(tile: Tile, block: Words) -> bytes:
    """Return all state that decides how a tile continues.

    Counts of stores and instructions represent its memory.
    """
    words = tile.words
    parts = [
        words[state.X : state.X + 32],
        words[state.F : state.FCSR + 1],
        words[[state.PC, state.RANDOM]],
        block[[layout.T_STORES]],
        tile.window,
        tile.counts[:, 0],
        tile.queue[queues.PENDING :: queues.WORDS],
    ]
    rest = repr((tile.status, tile.group, sorted(tile.csrs.items()), sorted(tile.pmu.items())))
    return b"".join(part.tobytes() for part in parts) + rest.encode()
