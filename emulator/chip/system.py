"""Running a program on a chip, in rounds.

In a round every tile that can run does so until it exits, faults, waits for its DTE copies, reaches a
barrier, or has used up its quantum, which is counted in instructions. Then the started copies are carried out
and complete barriers release their tiles. So the data that tiles exchange does not depend on the number of
threads that ran them.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from operator import itemgetter
from typing import Unpack

from asm.image import Image
from emulator import native
from emulator.core.translate import enabled as translation_enabled
from emulator.memory import state, stop
from emulator.memory.areas import Bytes
from emulator.tile.fault import Fault
from emulator.tile.tile import Status, Tile
from tx8isa.machine.description import Machine

from .chip import Chip
from .host_threads import HostThreads
from .memories import Memories
from .options import DEFAULTS, RunOptions
from .pause import UNLIMITED, Marks, Pause

QUANTUM = 1 << 20
"""The most instructions of a tile in one round, which take milliseconds."""


class System(Chip):
    """A loaded program on one chip, and the host threads that run it.

    ``memories`` are reset ones of an earlier system with the same program; without them new ones are made.
    """

    def __init__(
        self,
        image: Image,
        machine: Machine,
        *,
        memories: Memories | None = None,
        number: int = 0,
        **options: Unpack[RunOptions],
    ) -> None:
        chosen: RunOptions = {**DEFAULTS, **options}
        super().__init__(image, machine, memories or Memories(image, machine), chosen, number)
        self.threads = _thread_count(chosen, machine)
        """Host threads that run the tiles."""
        interpreted = (
            self.field_run is not None
        )  # it asks for registers, which translated code keeps elsewhere
        self._translates = chosen["translate"] and self.data and translation_enabled() and not interpreted
        sends, rounds = self.traffic.sends, self.memories.rounds
        self._host_threads = HostThreads(self.tiles, sends, rounds, self.loop, QUANTUM)
        self._interrupted: set[int] = set()
        """Numbers of the tiles that were interrupted by a full log and continue in the same round."""
        self.quanta: dict[int, int] = {}
        """For each tile left in an interrupted round, the instruction at which its quantum ends."""
        self._pause = Pause()

    def run(self, max_instructions: int | None = None, pause: Pause | None = None) -> bool:
        """Run until every tile has exited. Fault: the program faulted, hangs, or reached the limit.

        ``max_instructions`` is the limit of each tile. An interrupt (Ctrl-C) stops all tiles. Returns True if
        ``pause`` has interrupted the run; another ``run`` then continues from there.
        """
        limit = UNLIMITED if max_instructions is None else max_instructions
        pool, scratch = self.memories.thread_pool, self.memories.scratch(self.threads)
        paused = False
        try:
            self._begin_pause(pause or Pause())
            while not paused and any(t.status is not Status.EXITED for t in self.tiles):
                paused = self._round(pool, scratch, limit)
        finally:
            self._begin_pause(Pause())
            if not paused:
                self.ended()
        return paused

    def _begin_pause(self, pause: Pause) -> None:
        """Mark the addresses of ``pause`` in the programs of the tiles."""
        if not (pause.addresses or self._pause.addresses):
            self._pause = pause
            return
        before, self._pause, self._marks = self._marks, pause, Marks(pause.addresses)
        for tile in self.tiles:
            code = self._marks.marked(before.plain(self.codes[tile.number]))
            if code is not self.codes[tile.number]:
                self.codes[tile.number] = code
                code.install(tile.words)

    def _round(self, pool: ThreadPoolExecutor, scratch: list[Bytes], limit: int) -> bool:
        """Run a round, or the rest of an interrupted one; return True if it was interrupted (again)."""
        runnable = [t for t in self.tiles if t.status is Status.RUNNING]
        quanta = self.quanta or {t.number: self.quantum_end(t, UNLIMITED) for t in runnable}
        runnable = [t for t in runnable if t.number in quanta]
        faults = self._run_quanta(pool, scratch, runnable, quanta, limit)
        self.quanta = {t.number: quanta[t.number] for t in runnable if self._held(t, quanta[t.number])}
        if self.quanta and not faults:
            return True
        moved = self._end_quanta(faults)
        if not moved and not self.serve_time() and (not runnable or self._repeats()):
            raise self.traffic.deadlock()
        return False

    def _repeats(self) -> bool:
        """Return True if a strict run is back in an earlier state, so that it would repeat itself without
        end."""
        return self.sanitizer is not None and self.sanitizer.repeats()

    def _end_quanta(self, faults: list[tuple[int, Fault]]) -> bool:
        """End a round; return True if copies were carried out or barriers released.

        Fault: the first fault.
        """
        self.show_output()
        if faults:
            raise min(faults, key=itemgetter(0))[1]
        return self.end_round()

    def _run_quanta(
        self,
        pool: ThreadPoolExecutor,
        scratch: list[Bytes],
        tiles: list[Tile],
        quanta: Mapping[int, int],
        limit: int,
    ) -> list[tuple[int, Fault]]:
        """Run the quanta of some tiles, given by their ends; return faults as ``_run_tiles`` does.

        A tile whose log of simulated time is full waits until all tiles have stopped, because the simulation
        needs the logs of all of them. It continues when the logs have been processed.
        """
        for tile in tiles:
            tile.words[state.LIMIT] = min(quanta[tile.number], limit, self._pause.instructions)
        faults: list[tuple[int, Fault]] = []
        alone = self.traffic.unwatched and self._pause == Pause()
        while tiles:
            self._host_threads.begin(tiles, len(scratch), min(limit, self._pause.instructions), alone)
            jobs = [pool.submit(self._run_tiles, area, limit) for area in scratch]
            try:
                faults += [pair for job in jobs for pair in job.result()]
            except BaseException:
                self._host_threads.want_python()
                for tile in self.tiles:
                    tile.words[state.LIMIT] = 0
                wait(jobs)
                raise
            self._host_threads.end()
            full = [tile for tile in tiles if tile.number in self._interrupted]
            self._interrupted.clear()
            tiles = full if full and self._make_room() else []
        return faults

    def _make_room(self) -> bool:
        """Process full logs of simulated time; return True if their tiles continue in the same round."""
        if self.simulator:
            self.simulator.advance()
        return True

    def _held(self, tile: Tile, end: int) -> bool:
        """Return True if a tile could continue in this round: its quantum is not used up or given up."""
        return tile.status is Status.RUNNING and tile.words[state.LIMIT] != 0 and tile.retired < end

    def quantum_end(self, tile: Tile, limit: int) -> int:
        """Return the instruction count at which the quantum of a tile ends in the next round."""
        return min(limit, tile.retired + QUANTUM)

    def _run_tiles(self, scratch: Bytes, limit: int) -> list[tuple[int, Fault]]:
        """Run one thread's part.

        Return faults as (tile, fault).
        """
        faults = []

        def go_on(tile: Tile, reason: int) -> bool:
            try:
                return self._go_on(tile, self._reason(tile, reason), limit)
            except Fault as error:
                self.engines.finish(tile)  # instructions issued before the fault complete
                faults.append((tile.number, error.bare))
                return False

        self._host_threads.share(scratch, go_on)
        return faults

    def _go_on(self, tile: Tile, reason: int, limit: int) -> bool:
        """Serve a tile that has stopped; False when its part in the round ends there."""
        if reason not in (stop.KERNEL, stop.CSR):
            self._host_threads.want_python()
        if reason == stop.LOG_FULL:
            self._interrupted.add(tile.number)
            return False
        if reason == stop.ILLEGAL and tile.pc in self._pause.addresses:
            return False
        if reason == stop.LIMIT:
            if tile.retired < self._pause.instructions:
                self.check_limit(tile, limit)
            if self._translates:
                self.codes[tile.number].translation.quantum_ended(tile.words)
            return False
        self.serve(tile, reason)
        return tile.status is Status.RUNNING


def _thread_count(options: RunOptions, machine: Machine) -> int:
    """Return the number of host threads that run the tiles."""
    if (
        options["strict"] or options["field"] or not native.jit_enabled()
    ):  # interpreted, a word cannot be changed atomically
        return 1
    return min(max(options["threads"], 1), machine.tiles)
