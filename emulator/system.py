"""The chip: its tiles run in rounds, and what the compiled loop leaves to Python.

In a round every tile that can go on runs until it exits, faults, waits for its DTE copies, reaches a
barrier, or has used up its time slice, which is counted in instructions. Then the copies that were started
are carried out and complete barriers release their tiles. So what tiles send each other does not depend on
how many threads ran them.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import numpy as np

from asm.image import Image, ddr_offset, ddr_windows
from tx8isa import rv
from tx8isa.encoding import Decoded, decode
from tx8isa.errors import Tx8Error
from tx8isa.machine import Machine

from . import core, environment, native, ncc, pmu, queues, state, stop, tables, trap
from .code import fetch_again, load_code
from .device import Device
from .engines import Engines
from .fault import Fault, fault, place
from .memory import SCRATCH_BYTES, Bytes, HostMemoryError, anonymous, map_ddr
from .observer import Observer
from .tile import Status, Tile, make_tile
from .traffic import Traffic
from .translate import enabled as translation_enabled
from .window import Refused

_SLICE = 1 << 20
"""Instructions a tile runs at most in one round: milliseconds."""
_UNLIMITED = 1 << 62
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
    the program into machine code: faster, and nothing else.
    """

    def __init__(
        self, image: Image, machine: Machine, *, serial: bool = False, threads: int = 1,
        on_exception: OnException = "stop", show: Show = ignore, write_span: WriteSpan = "exact",
        ne_post: NePost = "ignore", translate: bool = True,
    ) -> None:  # fmt: skip
        _check_machine(image, machine)
        self.image, self.machine = image, machine
        self.threads, self.on_exception, self.show = max(threads, 1), on_exception, show
        self.code = load_code(image, machine)
        ends = [self._offset(segment.address) + segment.size for segment in image.segments]
        self.ddr = map_ddr(machine, max(ends, default=0))
        for segment in image.segments:
            at = self._offset(segment.address)
            self.ddr[at : at + len(segment.data)] = np.frombuffer(segment.data, dtype=np.uint8)
        self.engines = Engines()
        self.engines.slots.ne_post = ne_post == "proposed"
        self.slots, self._run = self.engines.slots, core.run_kernel()
        self._translates = translate and translation_enabled()
        self._write_span = queues.HOSTILE if write_span == "hostile" else queues.EXACT
        self.codes = [self.code] * machine.tiles
        self.tiles = [self._make_tile(number, serial) for number in range(machine.tiles)]
        self.traffic = Traffic(image, self.tiles, self.ddr)
        windows = ncc.NccWindows(machine, self.engines)
        self.observers: list[Observer] = []
        self.traffic.observers = windows.observers = self.observers
        self.devices: list[Device] = [
            windows, pmu.NccPmu(machine, len(self.tiles)),
            *self.traffic.devices(machine),
        ]  # fmt: skip

    def _offset(self, address: int) -> int:
        offset = ddr_offset(address, self.image.windows)
        if offset is None:
            windows = " ".join(f"0x{w.address:x}..0x{w.address + w.size - 1:x}" for w in self.image.windows)
            raise Tx8Error(f"segment at 0x{address:x}: lies in no DDR window, expected {windows}")
        return offset

    def _make_tile(self, number: int, serial: bool) -> Tile:
        tile = make_tile(number, self.machine, self.ddr, serial)
        words = tile.words
        self.code.install(words)
        words[state.KERNELS], words[state.ISSUE] = self.slots.address, self.engines.issue
        words[state.WRITE_SPAN] = self._write_span
        tile.pc = self.image.tile_entries.get(number, self.image.entry)
        return tile

    # -- running ---------------------------------------------------------------------------------------

    def run(self, max_instructions: int | None = None) -> None:
        """Run until every tile has exited. Fault: the program faulted, hangs, or ran out of instructions.

        ``max_instructions`` is for each tile. An interrupt (Ctrl-C) stops all tiles.
        """
        limit = _UNLIMITED if max_instructions is None else max_instructions
        with ThreadPoolExecutor(self.threads) as pool:
            scratch = [_scratch() for _ in range(self.threads)]
            try:
                while any(t.status is not Status.EXITED for t in self.tiles):
                    self._round(pool, scratch, limit)
            finally:
                for observer in self.observers:
                    observer.run_ended(self.tiles)

    def _round(self, pool: ThreadPoolExecutor, scratch: list[Bytes], limit: int) -> None:
        runnable = [t for t in self.tiles if t.status is Status.RUNNING]
        for tile in runnable:
            tile.words[state.LIMIT] = min(limit, tile.retired + _SLICE)
        groups = [runnable[i :: self.threads] for i in range(self.threads)]
        jobs = [
            pool.submit(self._run_tiles, *job, limit) for job in zip(groups, scratch, strict=True) if job[0]
        ]
        try:
            faults = [pair for job in jobs for pair in job.result()]
        except BaseException:
            for tile in self.tiles:
                tile.words[state.LIMIT] = 0
            raise
        self._show_output()
        if faults:
            raise Fault(min(faults)[1])
        copied, released = self.traffic.carry_out_sends(), self.traffic.release_barriers()
        for observer in self.observers:
            observer.round_ended(self.tiles)
        if not runnable and not copied and not released:
            raise self.traffic.deadlock()

    def _run_tiles(self, tiles: list[Tile], scratch: Bytes, limit: int) -> list[tuple[int, str]]:
        """Faults as (tile, text): an exception kept here would keep the machine's memory alive."""
        faults = []
        for tile in tiles:
            tile.words[state.SCRATCH], tile.words[state.SCRATCH_BYTES] = scratch.ctypes.data, scratch.size
            try:
                self._run_tile(tile, limit)
            except Fault as error:
                self.engines.finish(tile)  # what was issued before the fault completes
                faults.append((tile.number, str(error)))
        return faults

    def _run_tile(self, tile: Tile, limit: int) -> None:
        """Run one tile until it exits, waits for others, or has used up its slice."""
        while tile.status is Status.RUNNING:
            reason = native.call(self._run, tile.words.ctypes.data)
            if reason == stop.LIMIT:
                if tile.retired >= limit:
                    text = f"stopped after {tile.retired} instructions, the limit given"
                    raise self._fault(tile, text + self.traffic.looking_for(tile))
                if self._translates:
                    self.codes[tile.number].translation.slice_ended(tile.words)
                return
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
            self._device(tile)
        else:
            self._refuse(tile, reason)

    def _fault(self, tile: Tile, text: str) -> Fault:
        return Fault(f"{place(self.image, tile, tile.pc)}: {text}")

    def _decode(self, tile: Tile) -> tuple[rv.Scalar, dict[str, int]]:
        return self.codes[tile.number].scalar(tile.pc)

    def _fetch_again(self, tile: Tile) -> None:
        """Execute fence.i: the tile runs the text that DDR holds now."""
        code = fetch_again(self.codes[tile.number], lambda at, size: self.core_bytes(tile, at, size))
        self.codes[tile.number] = code
        code.install(tile.words)
        tile.advance(_SCALAR_BYTES)

    def _refuse(self, tile: Tile, reason: int) -> None:
        """Raise the exception of a refused engine instruction and go on behind it, or Fault."""
        refusal = fault(self.image, tile, reason)
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
            (windows.spm_weak, tile.spm.data), (windows.spm_strong, tile.spm.data),
            (windows.ddr_cached, ddr), (windows.ddr_uncached, ddr),
        ):  # fmt: skip
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

    def _device(self, tile: Tile) -> None:
        """A load or store of the core to a register of a device; Fault when there is none."""
        address = tile.detail[0] & (1 << 64) - 1
        device = next((d for d in self.devices if d.base <= address < d.base + d.size), None)
        record, values = self._decode(tile)
        done = False
        if device is None or any(field.kind == "float" for field in record.fields):
            pass  # registers of devices answer loads and stores of x registers only (proposed)
        elif record.kind == "store":
            value = int(record.body(tile.register(values["rs2"])))
            done = device.store(tile, address - device.base, record.width, value)
        else:
            raw = device.load(tile, address - device.base, record.width)
            done = raw is not None
            if raw is not None:
                tile.set_register(values["rd"], record.body(raw))
        if not done:
            raise fault(self.image, tile, stop.MEMORY)
        tile.advance(_SCALAR_BYTES)

    def _show_output(self) -> None:
        for tile in self.tiles:
            for file, data in tile.output:
                self.show(file, data)
            tile.output.clear()


def _check_machine(image: Image, machine: Machine) -> None:
    """Tx8Error when an image was laid out for another machine."""
    if tuple(image.windows) != ddr_windows(machine):
        name = image.machine if isinstance(image.machine, str) else image.machine.get("name")
        raise Tx8Error(
            f"the program was made for machine {name}, whose DDR windows are not those of {machine.name}: "
            "give the machine description it was made with"
        )
    beyond = [tile for tile in image.tile_entries if tile >= machine.tiles]
    if beyond:
        text = f"the program has an entry for tile {beyond[0]}"
        raise Tx8Error(f"{text}, machine {machine.name} has {machine.tiles} tiles")


def _scratch() -> Bytes:
    area = anonymous(SCRATCH_BYTES)
    if area is None:
        raise HostMemoryError(
            f"the host refuses {SCRATCH_BYTES} bytes of working memory; raise the memory limit"
        )
    return area
