"""The chip: sixteen tiles run in rounds, and what passes between them.

In a round every tile that can go on runs until it exits, faults, waits for its DTE copies, or reaches a
barrier. Then the copies that were started are carried out in the order of tiles, and barriers that are
complete release their tiles. So what tiles send each other does not depend on how many threads ran them.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from asm.image import Image, ddr_offset
from tx8isa.encoding import encoder
from tx8isa.machine import Machine
from tx8isa.meaning import Action, Control
from tx8isa.record import Engine

from . import core, environment, native, predecode, queues, state, stop, tables
from .fault import Fault, fault, place
from .memory import SCRATCH_BYTES, Bytes, HostMemoryError, anonymous, map_ddr
from .slots import Slots
from .tile import Send, Status, Tile, make_tile

_SCALAR_BYTES = 4


class System:
    """A loaded program on one chip. ``show`` receives what the program writes to its standard output."""

    def __init__(
        self, image: Image, machine: Machine, *, serial: bool = False, threads: int = 1,
        show: Callable[[bytes], None] = lambda data: None,
    ) -> None:  # fmt: skip
        self.image, self.machine = image, machine
        self.threads, self.show = threads, show
        self.ddr = map_ddr(machine, self._needed())
        self._load()
        self.tiles = [make_tile(n, machine, self.ddr, serial) for n in range(machine.tiles)]
        self.slots = Slots()
        self._prepare_code()
        self._run, issue = core.run_kernel(), core.issue_kernel()
        self._issue = issue
        for tile in self.tiles:
            tile.words[state.KERNELS] = self.slots.address
            tile.words[state.ISSUE] = issue
            tile.pc = image.tile_entries.get(tile.number, image.entry)

    def _needed(self) -> int:
        return max((self._offset(s.address) + s.size for s in self.image.segments), default=0)

    def _offset(self, address: int) -> int:
        offset = ddr_offset(address, self.image.windows)
        if offset is None:
            raise AssertionError("an image's addresses were checked when it was read")
        return offset

    def _load(self) -> None:
        for segment in self.image.segments:
            at = self._offset(segment.address)
            self.ddr[at : at + len(segment.data)] = np.frombuffer(segment.data, dtype=np.uint8)

    def _prepare_code(self) -> None:
        """Decode the executable segments into one array; gaps between them hold no instructions."""
        code = [s for s in self.image.segments if "x" in s.flags]
        base = min((s.address for s in code), default=0)
        end = max((s.address + len(s.data) for s in code), default=0)
        self.code = np.zeros((end - base + 3) // 4, dtype=np.int64)
        for segment in code:
            words = predecode.predecode(segment.data[: len(segment.data) // 4 * 4])
            first = (segment.address - base) // 4
            self.code[first : first + len(words)] = words
        for tile in self.tiles:
            tile.words[state.CODE] = self.code.ctypes.data
            tile.words[state.CODE_BASE], tile.words[state.CODE_WORDS] = base, len(self.code)

    # -- running ---------------------------------------------------------------------------------------

    def run(self, max_instructions: int | None = None) -> None:
        """Run until every tile has exited. Fault: the program faulted, hangs, or ran out of instructions."""
        limit = max_instructions if max_instructions is not None else 1 << 62
        for tile in self.tiles:
            tile.words[state.LIMIT] = limit
        with ThreadPoolExecutor(max(self.threads, 1)) as pool:
            scratch = [self._scratch() for _ in range(max(self.threads, 1))]
            while any(t.status is not Status.EXITED for t in self.tiles):
                self._round(pool, scratch)

    def _scratch(self) -> Bytes:
        area = anonymous(SCRATCH_BYTES)
        if area is None:
            raise HostMemoryError(f"the host refuses {SCRATCH_BYTES} bytes of working memory")
        return area

    def _round(self, pool: ThreadPoolExecutor, scratch: list[Bytes]) -> None:
        runnable = [t for t in self.tiles if t.status is Status.RUNNING]
        groups = [runnable[i :: self.threads] for i in range(self.threads)]
        jobs = [(group, area) for group, area in zip(groups, scratch, strict=True) if group]
        if len(jobs) > 1:
            faults = list(pool.map(lambda job: self._run_tiles(*job), jobs))
        else:
            faults = [self._run_tiles(*job) for job in jobs]
        self._show_output()
        found = sorted((f for some in faults for f in some), key=lambda pair: pair[0])
        if found:
            raise found[0][1]
        copied = self._carry_out_sends()
        released = self._release_barriers()
        if not runnable and not copied and not released:
            raise Fault(self._who_waits())

    def _run_tiles(self, tiles: list[Tile], scratch: Bytes) -> list[tuple[int, Fault]]:
        faults = []
        for tile in tiles:
            tile.words[state.SCRATCH], tile.words[state.SCRATCH_BYTES] = scratch.ctypes.data, scratch.size
            try:
                self._run_tile(tile)
            except Fault as error:
                faults.append((tile.number, error))
        return faults

    def _run_tile(self, tile: Tile) -> None:
        """Run one tile until it exits or waits for others."""
        while tile.status is Status.RUNNING:
            reason = native.call(self._run, tile.words.ctypes.data)
            self._handle(tile, reason)

    def _handle(self, tile: Tile, reason: int) -> None:
        if reason == stop.KERNEL:
            self.slots.fill(tile.detail[0])
        elif reason == stop.CONTROL:
            self._control(tile)
        elif reason == stop.CSR:
            record, values = environment.decode_at(tile, self.ddr, self.machine)
            if not environment.csr_instruction(tile, record, values):
                text = f"illegal instruction: {record.mnemonic} of CSR 0x{values['csr']:x}, which cannot be accessed so"
                raise Fault(f"{place(self.image, tile, tile.pc)}: {text}")
        elif reason == stop.SYSTEM:
            self._system(tile)
        elif reason == stop.MEMORY and self._device(tile):
            pass
        elif reason == stop.LIMIT:
            text = f"stopped after {tile.retired} instructions, the limit given by --max-instructions"
            raise Fault(f"{place(self.image, tile, tile.pc)}: {text}")
        else:
            self._engine_exception(tile, reason)
            raise fault(self.image, self.machine, tile, reason)

    def _engine_exception(self, tile: Tile, reason: int) -> None:
        """Set the CSR bit of a refused engine instruction (registers.md 8.1; NE bits proposed)."""
        if reason not in (stop.RANGE, stop.ALIGNMENT, stop.VALUE, stop.RULE):
            return
        record = tables.records()[tile.detail[0]]
        if record.engine in (Engine.DTE, Engine.NCC):
            return
        if record.engine in (Engine.RDMA, Engine.WDMA):
            bit = 3 if reason == stop.RULE else int(record.operands[tile.detail[1]].role == "write")
        else:
            bit = int(reason in (stop.RANGE, stop.ALIGNMENT))
        environment.raise_exception(tile, record.engine, bit)

    def finish_queues(self, tile: Tile) -> None:
        """Let the engines of a tile complete everything that was issued."""
        record = tables.numbers()["ncc.wait"]
        while native.call(self._issue, record, tile.words.ctypes.data) == stop.KERNEL:
            self.slots.fill(tile.detail[0])

    def _system(self, tile: Tile) -> None:
        record, _ = environment.decode_at(tile, self.ddr, self.machine)
        if record.mnemonic != "ecall":
            raise Fault(f"{place(self.image, tile, tile.pc)}: {record.mnemonic} without a debugger")
        environment.environment_call(tile, lambda address, size: self.core_bytes(tile, address, size))
        if tile.status is Status.EXITED:
            self.finish_queues(tile)
            if tile.exit_code:
                text = f"the program exited with status {tile.exit_code}"
                raise Fault(f"{place(self.image, tile, tile.pc)}: {text}")

    def core_bytes(self, tile: Tile, address: int, size: int) -> Bytes | None:
        """Bytes as the kernel core of a tile sees them, or None where it sees no memory."""
        windows = self.machine.windows
        for base, memory in (
            (windows.spm_weak, tile.spm.data),
            (windows.spm_strong, tile.spm.data),
            (windows.ddr_cached, self.ddr[: windows.ddr_core_bytes]),
            (windows.ddr_uncached, self.ddr[: windows.ddr_core_bytes]),
        ):
            if base <= address and address + size <= base + memory.size:
                return memory[address - base : address - base + size]
        return None

    def _device(self, tile: Tile) -> bool:
        """A load or store of the core to a register of the NCC; False when there is none."""
        offset = (tile.detail[0] & (1 << 64) - 1) - self.machine.windows.ncc
        record, values = environment.decode_at(tile, self.ddr, self.machine)
        if record.kind == "store":
            value = record.body(tile.register(values["rs2"]))
            if environment.ncc_register(tile, offset, value) is None:
                return False
        else:
            if offset == 0x740:
                self.finish_queues(tile)
            raw = environment.ncc_register(tile, offset, None)
            if raw is None:
                return False
            tile.set_register(values["rd"], record.body(raw & ((1 << 8 * record.width) - 1)))
        tile.advance(_SCALAR_BYTES)
        return True

    # -- what passes between tiles -----------------------------------------------------------------------

    def _control(self, tile: Tile) -> None:
        record = tables.records()[tile.detail[0]]
        meaning = record.meaning
        if not isinstance(meaning, Control):
            raise AssertionError(f"{record.mnemonic} is executed by a kernel")
        values = dict(zip((o.name for o in record.operands), tile.fields(len(record.operands)), strict=True))
        pc = tile.pc
        tile.advance(encoder(record).size)
        tile.counts[tables.numbers()[record.mnemonic], 0] += 1
        if meaning.action is Action.SEND:
            self._start_send(tile, pc, values)
        elif meaning.action is Action.SEND_WAIT:
            if tile.sends:
                tile.status = Status.SENDING
        elif meaning.action is Action.BARRIER:
            everyone = (1 << len(self.tiles)) - 1
            tile.group = values["tiles"] & (1 << 64) - 1 or everyone
            if not tile.group >> tile.number & 1 or tile.group & ~everyone:
                text = f"ncc.barrier tiles=0x{tile.group:x} must contain tile {tile.number} and only tiles that exist"
                raise Fault(f"{place(self.image, tile, pc)}: {text}")
            tile.status = Status.BARRIER

    def _start_send(self, tile: Tile, pc: int, values: dict[str, int]) -> None:
        if values["tile"] >= len(self.tiles):
            text = f"dte.unicast: tile {values['tile']} does not exist; expected 0..{len(self.tiles) - 1}"
            raise Fault(f"{place(self.image, tile, pc)}: {text}")
        first = queues.BUFFER + queues.E_FIRST_RANGE
        spaces = [int(tile.queue[first + i * queues.RANGE_WORDS]) for i in range(2)]
        target, source = values["dst"], values["src"]
        tile.sends.append(Send(pc, source, target, values["tile"], values["n"], spaces[1] == 1, spaces[0] == 1))
        counts = tile.counts[tables.numbers()["dte.unicast"]]
        counts[1] += values["n"]
        counts[2] += values["n"]

    def _carry_out_sends(self) -> bool:
        done = False
        for tile in self.tiles:
            for send in tile.sends:
                self._copy(tile, send)
                done = True
            tile.sends.clear()
            if tile.status is Status.SENDING:
                tile.status = Status.RUNNING
                done = True
        return done

    def _copy(self, tile: Tile, send: Send) -> None:
        source = self.ddr if send.source_in_ddr else tile.spm.data
        data = source[send.source : send.source + send.size].copy()
        if send.target_in_ddr:
            self.ddr[send.target : send.target + send.size] = data
        else:
            self.tiles[send.tile].spm.write(send.target, data)

    def _release_barriers(self) -> bool:
        waiting = {t.number: t.group for t in self.tiles if t.status is Status.BARRIER}
        released = False
        for group in set(waiting.values()):
            members = [t for t in self.tiles if group >> t.number & 1]
            if all(waiting.get(t.number) == group for t in members):
                released = True
                for tile in members:
                    tile.status = Status.RUNNING
        return released

    def _who_waits(self) -> str:
        """The report of a program that can never go on."""
        parts = []
        for tile in self.tiles:
            if tile.status is not Status.BARRIER:
                continue
            missing = [t for t in self.tiles if tile.group >> t.number & 1 and t is not tile]
            reasons = [
                f"tile {t.number} ({'which has exited' if t.status is Status.EXITED else f'at another barrier 0x{t.group:x}'})"
                for t in missing
                if t.status is Status.EXITED or t.group != tile.group
            ]
            size = encoder(tables.records()[tables.numbers()["ncc.barrier"]]).size
            where = place(self.image, tile, tile.pc - size)
            parts.append(f"{where} waits at barrier 0x{tile.group:x} for {', '.join(reasons)}")
        return "the program can never go on: " + "; ".join(parts)

    def _show_output(self) -> None:
        for tile in self.tiles:
            if tile.output:
                self.show(bytes(tile.output))
                tile.output.clear()
