"""The chip: its tiles run in rounds, and what the compiled loop leaves to Python.

In a round every tile that can go on runs until it exits, faults, waits for its DTE copies, reaches a
barrier, or has used up its time slice, which is counted in instructions. Then the copies that were started
are carried out and complete barriers release their tiles. So what tiles send each other does not depend on
how many threads ran them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Literal

from asm.image import Image
from emulator import native
from emulator.core.code import fetch_again
from emulator.core.predecode import CLOCKS
from emulator.core.translate import enabled as translation_enabled
from emulator.engines import queues, tables
from emulator.engines.packets import Refused
from emulator.memory import state, stop
from emulator.memory.areas import Bytes
from emulator.tile import environment, ncc, pmu, trap
from emulator.tile.device import Device
from emulator.tile.fault import Fault, fault, place
from emulator.tile.observer import Observer
from emulator.tile.tile import Status, Tile
from tx8isa.errors import Tx8Error
from tx8isa.machine.description import Machine
from tx8isa.table import scalar as rv
from tx8isa.table.encoding import Decoded, decode

from .access import access_register
from .clock import look_at_time, watch_time
from .crew import Crew
from .memories import Memories
from .pause import UNLIMITED, Marks, Pause
from .traffic import Traffic

if TYPE_CHECKING:
    from emulator.timing.slices import Sink

_SLICE = 1 << 20
"""Instructions a tile runs at most in one round: milliseconds."""
_SCALAR_BYTES = 4
_LONGEST = 4 * 63
"""Bytes of the longest instruction the encoding allows."""

OnException = Literal["stop", "drop"]
WriteSpan = Literal["exact", "hostile"]
NePost = Literal["ignore", "proposed"]
Show = Callable[[int, bytes], None]


def ignore(file: int, data: bytes) -> None:
    """What a program writes goes nowhere."""


class System:
    """A loaded program on one chip.

    ``on_exception`` says what happens to an engine instruction that is refused: the run ends (stop), or the
    exception register shows it, nothing is executed, and the program goes on (drop; docs/isa.md, Exceptions,
    proposed). ``show`` receives (file, data) that the program writes to files 1 and 2. ``write_span`` hostile
    spoils the rest of the last line of every CT and NE result (docs/isa.md, Memories and addresses). With
    ``ne_post`` proposed the matrix engine's bias, scale and activation of float formats take part; by default
    they change nothing, as on the board (docs/isa.md, Post-processing). ``translate`` turns frequent parts of
    the program into machine code: faster, and nothing else. ``strict`` looks for hazards (docs/strict.md) and
    runs the tiles on one host thread, whatever ``threads`` says. ``timed`` simulates time beside the run
    (docs/timing.md) and gives the slices to ``sinks``; None: when there are sinks or the text reads the time.
    ``memories`` are those of an earlier system with the same program, reset; without them new ones are made.
    """

    def __init__(
        self,
        image: Image,
        machine: Machine,
        *,
        serial: bool = False,
        threads: int = 1,
        on_exception: OnException = "stop",
        show: Show = ignore,
        write_span: WriteSpan = "exact",
        ne_post: NePost = "ignore",
        translate: bool = True,
        strict: bool = False,
        timed: bool | None = None,
        sinks: Sequence[Sink] = (),
        memories: Memories | None = None,
    ) -> None:
        self.memories = memories or Memories(image, machine)
        self.image, self.machine = image, machine
        # Without machine code one word cannot be changed by two threads at once.
        self.threads = 1 if strict or not native.jit_enabled() else min(max(threads, 1), machine.tiles)
        """Host threads that run the tiles."""
        self.on_exception, self.show = on_exception, show
        self.code, self.ddr = self.memories.code, self.memories.ddr
        self.engines = self.memories.engines(ne_post == "proposed")
        self.slots, self.loop = self.engines.slots, self.memories.loop(strict)
        self._translates = translate and translation_enabled()
        self._write_span = queues.HOSTILE if write_span == "hostile" else queues.EXACT
        self.codes = [self.code] * machine.tiles
        self.tiles = [self._make_tile(number, serial) for number in range(machine.tiles)]
        self.traffic = Traffic(image, self.tiles, self.memories)
        windows = ncc.NccWindows(machine, self.engines)
        self.observers: list[Observer] = []
        self.traffic.observers = windows.observers = self.observers
        self._crew = Crew(self.tiles, self.traffic.sends, self.memories.rounds, self.loop, _SLICE)
        self._interrupted: set[int] = set()
        """Numbers of the tiles whose slice was interrupted, and which go on in the same round."""
        self.pmu = pmu.NccPmu(machine, len(self.tiles))
        self.devices: list[Device] = [windows, self.pmu, *self.traffic.devices(machine)]
        if strict:  # imported here because most runs do without
            from emulator.strict.sanitizer import Sanitizer
        self.sanitizer = Sanitizer(self) if strict else None
        self.simulator = watch_time(self, timed, sinks)
        self.slices: dict[int, int] = {}
        """Of a round that was interrupted: by tile that has a part in it still, where its slice ends."""
        self._pause = Pause()
        self._marks = Marks(())

    def offset(self, address: int) -> int:
        """Offset in DDR of a core address; Tx8Error outside DDR."""
        return self.memories.offset(address)

    def _make_tile(self, number: int, serial: bool) -> Tile:
        tile = self.memories.make_tile(number, serial)
        words = tile.words
        self.code.install(words)
        words[state.KERNELS], words[state.ISSUE] = self.slots.address, self.engines.issue
        words[state.WRITE_SPAN] = self._write_span
        tile.pc = self.image.tile_entries.get(number, self.image.entry)
        return tile

    @property
    def cycles(self) -> int | None:
        """Simulated cycles so far, those of the whole run after it; None without simulated time."""
        return self.simulator.cycles if self.simulator else None

    # -- running ---------------------------------------------------------------------------------------

    def run(self, max_instructions: int | None = None, pause: Pause | None = None) -> bool:
        """Run until every tile has exited. Fault: the program faulted, hangs, or ran out of instructions.

        ``max_instructions`` is for each tile. An interrupt (Ctrl-C) stops all tiles. True when the run was
        interrupted by ``pause``: another ``run`` goes on from there.
        """
        limit = UNLIMITED if max_instructions is None else max_instructions
        pool, scratch = self.memories.hands, self.memories.scratch(self.threads)
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
        """Run from now on with the marks of ``pause``."""
        before, self._pause, self._marks = self._marks, pause, Marks(pause.addresses)
        for tile in self.tiles:
            code = self._marks.marked(before.plain(self.codes[tile.number]))
            if code is not self.codes[tile.number]:
                self.codes[tile.number] = code
                code.install(tile.words)

    def ended(self) -> None:
        """Tell the observers that no tile will run any more."""
        for observer in self.observers:
            observer.run_ended(self.tiles)

    def _round(self, pool: ThreadPoolExecutor, scratch: list[Bytes], limit: int) -> bool:
        """Run tiles for their slices, or the rest of a round that was interrupted; whether it was again."""
        runnable = [t for t in self.tiles if t.status is Status.RUNNING]
        slices = self.slices or {t.number: self.slice_end(t, UNLIMITED) for t in runnable}
        runnable = [t for t in runnable if t.number in slices]
        for tile in runnable:
            tile.words[state.LIMIT] = min(slices[tile.number], limit, self._pause.instructions)
        faults = self._run_slices(pool, scratch, runnable, limit)
        self.slices = {t.number: slices[t.number] for t in runnable if self._held(t, slices[t.number])}
        if self.slices and not faults:
            return True
        self.show_output()
        if faults:
            raise Fault(min(faults)[1])
        moved = self.end_round()
        if not moved and not self.serve_time() and (not runnable or self._repeats()):
            raise self.traffic.deadlock()
        return False

    def _repeats(self) -> bool:
        """Whether a strict run has come back to where it was before: then it goes on like that for ever."""
        return self.sanitizer is not None and self.sanitizer.repeats()

    def _run_slices(
        self, pool: ThreadPoolExecutor, scratch: list[Bytes], tiles: list[Tile], limit: int
    ) -> list[tuple[int, str]]:
        """Run the slices of some tiles; faults as ``_run_tiles`` gives them.

        A tile whose log of simulated time is full waits until all have stopped, and goes on when the logs are
        worked off: the simulation needs what all of them have done.
        """
        faults: list[tuple[int, str]] = []
        alone = self.traffic.unwatched and self._pause == Pause()
        while tiles:
            self._crew.begin(tiles, len(scratch), min(limit, self._pause.instructions), alone)
            jobs = [pool.submit(self._run_tiles, area, limit) for area in scratch]
            try:
                faults += [pair for job in jobs for pair in job.result()]
            except BaseException:
                self._crew.want_python()
                for tile in self.tiles:
                    tile.words[state.LIMIT] = 0
                wait(jobs)
                raise
            self._crew.end()
            tiles = [tile for tile in tiles if tile.number in self._interrupted]
            if self._interrupted and self.simulator:
                self._interrupted.clear()
                self.simulator.advance()
        return faults

    def serve_time(self) -> bool:
        """When nobody can go on but tiles that wait for simulated time, let it reach the first of them."""
        busy = any(t.status is Status.RUNNING and t.words[state.LIMIT] != 0 for t in self.tiles)
        return self.simulator is not None and not busy and self.simulator.serve_first()

    def _held(self, tile: Tile, end: int) -> bool:
        """Whether a tile could go on in this round: its slice is neither used up nor given up."""
        return tile.status is Status.RUNNING and tile.words[state.LIMIT] != 0 and tile.retired < end

    def end_round(self) -> bool:
        """What happens between two rounds; False when nothing did. Without it no tile goes on that waits."""
        copied, released = self.traffic.carry_out_sends(), self.traffic.release_barriers()
        for observer in self.observers:
            observer.round_ended(self.tiles)
        return copied or released

    def slice_end(self, tile: Tile, limit: int) -> int:
        """Instructions after which the slice ends that a tile has in a round."""
        return min(limit, tile.retired + _SLICE)

    def _run_tiles(self, scratch: Bytes, limit: int) -> list[tuple[int, str]]:
        """One thread's part. Faults as (tile, text): an exception would keep the machine's memory alive."""
        faults = []

        def go_on(tile: Tile, reason: int) -> bool:
            try:
                return self._go_on(tile, self._reason(tile, reason), limit)
            except Fault as error:
                self.engines.finish(tile)  # what was issued before the fault completes
                faults.append((tile.number, str(error)))
                return False

        self._crew.share(scratch, go_on)
        return faults

    def _go_on(self, tile: Tile, reason: int, limit: int) -> bool:
        """Do what a tile has stopped for; False when its part in the round ends there."""
        if reason not in (stop.KERNEL, stop.CSR):
            self._crew.want_python()
        if reason == stop.LOG_FULL:
            self._interrupted.add(tile.number)
            return False
        if reason == stop.ILLEGAL and tile.pc in self._pause.addresses:
            return False
        if reason == stop.LIMIT:
            if tile.retired < self._pause.instructions:
                self.check_limit(tile, limit)
            if self._translates:
                self.codes[tile.number].translation.slice_ended(tile.words)
            return False
        self.serve(tile, reason)
        return tile.status is Status.RUNNING

    def enter(self, tile: Tile) -> int:
        """Let compiled code run a tile until its ``state.LIMIT``, or what only Python can do: a ``stop``."""
        return self._reason(tile, native.call(self.loop, tile.words.ctypes.data))

    def _reason(self, tile: Tile, reason: int) -> int:
        """Why a tile has stopped: a log that is full stops it by the limit."""
        if reason == stop.LIMIT and self.simulator and self.simulator.interrupted(tile):
            return stop.LOG_FULL
        return reason

    def check_limit(self, tile: Tile, limit: int) -> None:
        """Fault for a tile that has executed as many instructions as it may."""
        if tile.retired >= limit:
            text = f"stopped after {tile.retired} instructions, the limit given"
            raise self._fault(tile, text + self.traffic.looking_for(tile))

    def serve(self, tile: Tile, reason: int) -> None:
        """Do what ``enter`` came back for, or enter the program's trap handler; Fault when it has none."""
        try:
            self._handle(tile, reason)
        except Refused as refused:
            self._refuse(tile, refused.reason)
        except Fault:
            if not trap.take(tile, self.codes[tile.number], reason):
                raise

    def _handle(self, tile: Tile, reason: int) -> None:
        """Do what the compiled loop left at the tile's program counter; Fault when that is not possible."""
        if reason == stop.KERNEL:
            self.slots.fill(tile.detail[0])
        elif reason == stop.CONTROL:
            self.traffic.start(tile, tables.records()[tile.detail[0]])
        elif reason == stop.CSR:
            record, values = self._decode(tile)
            if values["csr"] in CLOCKS and not look_at_time(self.simulator, tile, register=False):
                return
            hart = self.machine.hartid(0, tile.number)
            if not environment.csr_instruction(tile, record, values, hart):
                name = rv.CSR_NAMES.get(values["csr"], "which does not exist")
                what = "read" if name not in rv.CSRS else "write"
                raise self._fault(tile, f"{record.mnemonic}: cannot {what} CSR 0x{values['csr']:x}, {name}")
        elif reason == stop.SYSTEM:
            self._system(tile)
        elif reason == stop.FENCE_I:
            self._fetch_again(tile)
        elif reason == stop.MEMORY:
            access_register(self, tile)
        elif reason == stop.LOG_FULL and self.simulator:
            self.simulator.advance()
        else:
            self._refuse(tile, reason)

    def _fault(self, tile: Tile, text: str) -> Fault:
        return Fault(f"{place(self.image, tile, tile.pc)}: {text}")

    def _decode(self, tile: Tile) -> tuple[rv.Scalar, dict[str, int]]:
        return self.codes[tile.number].scalar(tile.pc)

    def _fetch_again(self, tile: Tile) -> None:
        """Execute fence.i: the tile runs the text that DDR holds now."""
        code = fetch_again(self.codes[tile.number], lambda at, size: self.core_bytes(tile, at, size))
        code = self.codes[tile.number] = self._marks.marked(code)
        code.install(tile.words)
        tile.advance(_SCALAR_BYTES)

    def _refuse(self, tile: Tile, reason: int) -> None:
        """Raise the exception of a refused engine instruction and go on behind it, or Fault."""
        refusal = fault(self.image, tile, reason)
        if self.sanitizer and reason == stop.END:
            from emulator.strict.ends import note_wrong_end

            note_wrong_end(self.sanitizer, tile)
        engine = ncc.refused_engine(reason, tile.detail)
        bit = None if engine is None else ncc.exception_bit(engine, reason, tile.detail)
        if engine is None or bit is None:
            raise refusal
        stops = pmu.notes_exceptions(tile, engine) and self.engines.note_exception(tile, 1 << bit)
        if stops or self.on_exception == "stop":
            raise refusal
        code = self.codes[tile.number]
        at = tile.pc - code.base
        found = decode(code.text[at : at + _LONGEST].tobytes())
        tile.advance(found.size if isinstance(found, Decoded) else _SCALAR_BYTES)

    def _system(self, tile: Tile) -> None:
        record, _ = self._decode(tile)
        if record.mnemonic == "mret":
            trap.leave(tile)
            return
        if record.mnemonic != "ecall":
            raise self._fault(tile, f"{record.mnemonic}: there is no debugger")
        if trap.has_handler(tile) and not environment.knows_call(tile):
            raise self._fault(tile, "ecall: the environment has no such call, and the program handles traps")
        pc = tile.pc
        environment.environment_call(tile, lambda address, size: self.core_bytes(tile, address, size))
        if tile.status is Status.EXITED:
            reason = self.engines.finish(tile)
            if reason >= 0:
                raise fault(self.image, tile, reason)
            for observer in self.observers:
                observer.exited(tile)
            if tile.exit_code:
                text = f"the program exited with status {tile.exit_code}"
                raise Fault(f"{place(self.image, tile, pc)}: {text}")

    # -- memory ----------------------------------------------------------------------------------------

    def core_bytes(self, tile: Tile, address: int, size: int) -> Bytes | None:
        """Bytes as the kernel core of a tile sees them, or None where it sees no memory."""
        windows = self.machine.windows
        ddr = self.ddr[: windows.ddr_core_bytes]
        for base, memory in (
            (windows.spm_weak, tile.spm.data),
            (windows.spm_strong, tile.spm.data),
            (windows.ddr_cached, ddr),
            (windows.ddr_uncached, ddr),
        ):
            if size >= 0 and base <= address and address + size <= base + memory.size:
                return memory[address - base : address - base + size]
        return None

    def ddr_range(self, address: int, size: int) -> Bytes:
        """DDR bytes in the engines' view; Tx8Error when they are not all mapped."""
        base = self.machine.windows.ddr_engine
        first = address - base
        if size < 0 or first < 0 or first + size > self.ddr.size:
            seen = f"0x{base:x}..0x{base + self.ddr.size - 1:x}"
            raise Tx8Error(f"DDR 0x{address:x}:{size} is outside {seen}, the engines' view")
        return self.ddr[first : first + size]

    def show_output(self) -> None:
        """Show what the tiles have written since the last time, in their order."""
        for tile in self.tiles:
            for file, data in tile.output:
                self.show(file, data)
            tile.output.clear()
