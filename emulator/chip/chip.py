"""A chip with a loaded program, and the instructions that the compiled loop leaves to Python.

A scheduler, ``System``'s or the debugger's, selects the tiles to run and their quanta.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from asm.image import Image
from emulator import native
from emulator.core.code import fetch_again
from emulator.core.loop import DATA, HAZARDS, UNCHECKED
from emulator.core.predecode import CLOCKS
from emulator.engines import queues, tables
from emulator.engines.packets import Refused
from emulator.memory import state, stop
from emulator.memory.areas import Bytes
from emulator.tile import environment, ncc, pmu, trap
from emulator.tile.device import Device
from emulator.tile.fault import Fault, FaultKind, fault, place
from emulator.tile.observer import Observer
from emulator.tile.tile import Status, Tile
from tx8isa.errors import Tx8Error
from tx8isa.machine.description import Machine
from tx8isa.riscv.format import Scalar
from tx8isa.riscv.registers import CSR_NAMES, CSRS

from .memories import Memories
from .options import RunOptions
from .pause import Marks
from .registers.dte import DteWindow
from .registers.streams import PacketUpdates, StreamWindow
from .traffic import Traffic

if TYPE_CHECKING:
    from emulator.timing.simulator import Simulator
    from emulator.timing.slices import Sink
    from emulator.watch.order.observer import OrderRun
    from emulator.watch.prove.observer import FieldRun
    from emulator.watch.strict.sanitizer import Sanitizer
    from tx8isa.numbers.prime_field import PrimeField

_SCALAR_BYTES = 4
"""Bytes of the longest instruction the encoding allows."""


class Chip:
    """Tiles, memories and devices of a chip; ``options`` are complete.

    ``number`` is the chip's number among several.
    """

    def __init__(
        self, image: Image, machine: Machine, memories: Memories, options: RunOptions, number: int = 0
    ) -> None:
        strict, self.number, self.data = options["strict"], number, options["data"]
        if not self.data and (strict or options["field"]):
            raise Tx8Error("a run without data (data=False) has nothing for the sanitizer or a proof to see")
        self.image, self.machine, self.memories = image, machine, memories
        self.on_exception, self.show = options["on_exception"], options["show"]
        self.code, self.ddr = memories.code, memories.ddr
        post, timed = options["ne_post"] == "proposed", self._is_timed(options)
        watched = strict or options["field"] or options["order"]
        checked = (HAZARDS if watched else UNCHECKED) | (UNCHECKED if self.data else DATA)
        memories.prepare(post, checked, timed)
        self.engines = memories.engines(post)
        self.slots, self.loop = self.engines.slots, memories.loop(checked)
        self.codes = [self.code] * machine.tiles
        """The program of each tile; fence.i and marks replace it."""
        self._marks = Marks(())
        self.altered = False
        """True if the program used registers of devices or changed its text: a new chip forgets that."""
        self.tiles = [self._make_tile(number, options) for number in range(machine.tiles)]
        self.traffic = Traffic(image, self.tiles, memories.ddr_area, None if self.data else memories.made)
        self.observers: list[Observer] = []
        self.pmu = pmu.NccPmu(machine, len(self.tiles))
        self.devices = self._make_devices()
        self.sanitizer = self._make_sanitizer() if strict else None
        self.order_run = self._make_order_run() if options["order"] else None
        self.field_run = self._make_field_run(options["field"]) if options["field"] else None
        self.simulator = self._make_simulator(options["sinks"]) if timed else None

    def _make_tile(self, number: int, options: RunOptions) -> Tile:
        tile = self.memories.make_tile(number, options["serial"])
        words = tile.words
        self.code.install(words)
        words[state.KERNELS], words[state.ISSUE] = self.slots.address, self.engines.issue
        hostile = options["write_span"] == "hostile"
        words[state.WRITE_SPAN] = queues.HOSTILE if hostile else queues.EXACT
        if not self.data:
            words[state.MADE], words[state.MADE_SPM] = self.memories.made.addresses(number)
        hart = self.machine.hartid(self.number, number)
        words[state.HART], words[state.RANDOM] = hart, hart + 1  # each tile has its own seed, never 0
        tile.pc = self.image.tile_entries.get(hart, self.image.entry)
        return tile

    def _make_devices(self) -> list[Device]:
        windows = ncc.NccWindows(self.machine, self.engines)
        self.traffic.observers = windows.observers = self.observers
        return [
            windows,
            self.pmu,
            DteWindow(self.traffic, self.machine),
            StreamWindow(self.traffic),
            PacketUpdates(self.traffic, remote=False),
            PacketUpdates(self.traffic, remote=True),
        ]

    def _make_sanitizer(self) -> Sanitizer:
        from emulator.watch.strict.sanitizer import Sanitizer  # here: most runs do not need it

        waits_for, size = self.traffic.waits_for, self.ddr.size
        sanitizer = Sanitizer(self.tiles, self.machine, self.image, self.codes, size, waits_for, self.number)
        for segment in self.image.segments:
            sanitizer.loaded(self.memories.offset(segment.address), segment.size)
        self.observers.append(sanitizer)
        return sanitizer

    def _make_order_run(self) -> OrderRun:
        from emulator.watch.order.observer import OrderRun  # here: most runs do not need it

        run = OrderRun(self.tiles, self.machine, self.image, self.codes, self.ddr.size)
        self.observers.append(run)
        return run

    def _make_field_run(self, field: PrimeField) -> FieldRun:
        from emulator.watch.prove.observer import FieldRun  # here: most runs do not need it

        run = FieldRun(self.tiles, self.engines, self.ddr, field)
        self.observers.append(run)
        return run

    def _is_timed(self, options: RunOptions) -> bool:
        """Return True if time is simulated: if asked for, watched, or read by the program."""
        timed = options["timed"]
        return bool(options["sinks"]) or self.code.reads_clock if timed is None else timed

    def _make_simulator(self, sinks: Sequence[Sink]) -> Simulator:
        """Make the simulation of time, which observes this system."""
        from emulator.timing.simulator import Simulator  # here: most runs do not need it

        simulator = Simulator(self.tiles, self.machine, sinks, self.memories.simulation)
        self.observers.append(simulator)
        return simulator

    def simulate_again(self, sinks: Sequence[Sink]) -> None:
        """Restart simulated time at 0 with these sinks; the tiles are at their beginning."""
        if self.simulator is not None:
            self.observers.remove(self.simulator)
            self.simulator = self._make_simulator(sinks)

    @property
    def cycles(self) -> int | None:
        """Simulated cycles so far; after the run the whole run's; None without simulated time."""
        return self.simulator.cycles if self.simulator else None

    def ddr_range(self, address: int, size: int) -> Bytes:
        """Return DDR bytes in the engines' view; Tx8Error when they are not all mapped."""
        return self.memories.ddr_range(address, size)

    def show_output(self) -> None:
        """Show the tiles' output since the last call, in the order of the tiles."""
        for tile in self.tiles:
            for file, data in tile.output:
                self.show(file, data)
            tile.output.clear()

    # -- between rounds --------------------------------------------------------------------------------

    def end_round(self) -> bool:
        """Carry out copies and release barriers; return True if there was anything to do."""
        copied, released = self.traffic.carry_out_sends(), self.traffic.release_barriers()
        for observer in self.observers:
            observer.round_ended(self.tiles)
        return copied or released

    def serve_time(self) -> bool:
        """If no tile can run, advance simulated time to the first tile that waits for it; return True if it
        did."""
        busy = any(t.status is Status.RUNNING and t.words[state.LIMIT] != 0 for t in self.tiles)
        return self.simulator is not None and not busy and self.simulator.serve_first()

    def ended(self) -> None:
        """Notify the observers that no tile will run any more."""
        for observer in self.observers:
            observer.run_ended(self.tiles)

    # -- one tile --------------------------------------------------------------------------------------

    def enter(self, tile: Tile) -> int:
        """Run compiled code of a tile to its ``state.LIMIT``, or until it needs Python; return a ``stop``."""
        return self._reason(tile, native.call(self.loop, tile.words.ctypes.data))

    def _reason(self, tile: Tile, reason: int) -> int:
        """Return why a tile has stopped: a full log of simulated time stops it by the limit."""
        if reason == stop.LIMIT and self.simulator and self.simulator.interrupted(tile):
            return stop.LOG_FULL
        return reason

    def check_limit(self, tile: Tile, limit: int) -> None:
        """Raise Fault for a tile that has executed the most instructions it may."""
        if tile.retired >= limit:
            text = f"stopped after {tile.retired} instructions, the limit given"
            raise self.traffic.fault(tile, text + self.traffic.looking_for(tile), FaultKind.INSTRUCTIONS)

    def serve(self, tile: Tile, reason: int) -> None:
        """Serve the reason that ``enter`` returned, or enter the program's trap handler.

        Fault without one.
        """
        try:
            self._handle(tile, reason)
        except Refused as refused:
            self._refuse(tile, refused.reason)
        except Fault:
            if not trap.take(tile, self.codes[tile.number], reason):
                raise

    def _handle(self, tile: Tile, reason: int) -> None:
        """Execute an instruction that the compiled loop left to Python; Fault when that is not possible."""
        if reason == stop.KERNEL:
            self.slots.fill(tile.detail[0])
        elif reason == stop.CONTROL:
            self.traffic.start(tile, tables.records()[tile.detail[0]])
        elif reason == stop.CSR:
            self._access_csr(tile)
        elif reason == stop.SYSTEM:
            self._system(tile)
        elif reason == stop.FENCE_I:
            self._fetch_again(tile)
        elif reason == stop.MEMORY:
            self._access_register(tile)
        elif reason == stop.MADE:
            raise self._without_data(tile)
        elif reason == stop.LOG_FULL and self.simulator:
            self.simulator.advance()
        else:
            self._refuse(tile, reason)

    def _access_csr(self, tile: Tile) -> None:
        """Execute an instruction on a control and status register."""
        record, values = self._decode(tile)
        if values["csr"] in CLOCKS and not self._look_at_time(tile, register=False):
            return
        hart = self.machine.hartid(self.number, tile.number)
        if not environment.csr_instruction(tile, record, values, hart):
            name = CSR_NAMES.get(values["csr"], "which does not exist")
            what = "read" if name not in CSRS else "write"
            text = f"{record.mnemonic}: cannot {what} CSR 0x{values['csr']:x}, {name}"
            raise self.traffic.fault(tile, text, FaultKind.CSR)

    def _access_register(self, tile: Tile) -> None:
        """Execute a load or store to a register of a device; Fault when there is no such register."""
        self.altered = True
        address = tile.detail[0] & (1 << 64) - 1
        device = _find_device(self.devices, address)
        record, values = self._decode(tile)
        store = record.kind == "store"
        if not self.data and isinstance(device, ncc.NccWindows) and device.returns(address - device.base):
            raise self._without_data(tile)
        if isinstance(device, pmu.NccPmu) and device.needs_time(tile, address - device.base, store):
            if not self._look_at_time(tile, register=True):
                return
            if self.simulator is None and record.kind == "load":
                text = "the counter counts time: run with --timed (System(timed=True))"
                raise self.traffic.fault(tile, text, FaultKind.NEEDS_TIME)
        if device is None or not _transfer(device, tile, record, values, address - device.base):
            raise fault(self.image, tile, stop.MEMORY)
        tile.advance(self.codes[tile.number].size(tile.pc))

    def _look_at_time(self, tile: Tile, register: bool) -> bool:
        """Set ``tile.moment`` to the tile's simulated time; return False if the tile has to wait for it.

        ``register``: it reads a register of a unit, not a CSR. Without simulated time there is no moment, and
        nothing to wait for.
        """
        if self.simulator is not None:
            tile.moment = self.simulator.moment(tile, register)
        return self.simulator is None or tile.moment is not None

    def _without_data(self, tile: Tile) -> Fault:
        """Return the fault of an instruction that depends on data, in a run without them."""
        _, size, number, _ = tile.detail
        if size == 0 and number:
            name = tables.records()[number].mnemonic
            what = f"{name} may raise numeric exceptions that the program does not mask"
        else:
            what = f"{self._decode(tile)[0].mnemonic} reads what engines or copies make"
        text = f"{what}; a run without data (data=False) cannot go on"
        return self.traffic.fault(tile, text, FaultKind.NEEDS_DATA)

    def _core_bytes(self, tile: Tile, pc: int, address: int, size: int) -> Bytes | None:
        """Return bytes as a tile's kernel core sees them for its instruction at ``pc``, or None.

        Fault when nothing has written them.
        """
        found = self.memories.core_bytes(tile.number, address, size)
        if found is not None and not self.data and self.memories.made.holds(found):
            tile.pc = pc
            tile.words[state.DETAIL : state.DETAIL + 3] = address, size, 0
            raise self._without_data(tile)
        return found

    def _decode(self, tile: Tile) -> tuple[Scalar, dict[str, int]]:
        return self.codes[tile.number].scalar(tile.pc)

    def _fetch_again(self, tile: Tile) -> None:
        """Execute fence.i: the tile runs the text that DDR holds now."""
        self.altered = True
        code = fetch_again(self.codes[tile.number], partial(self._core_bytes, tile, tile.pc))
        code = self.codes[tile.number] = self._marks.marked(code)
        code.install(tile.words)
        tile.advance(_SCALAR_BYTES)

    def _refuse(self, tile: Tile, reason: int) -> None:
        """Raise the exception of a refused engine instruction and continue after it, or raise Fault."""
        refusal = fault(self.image, tile, reason)
        if self.sanitizer and reason == stop.END:
            self.sanitizer.note_wrong_end(tile)
        engine = ncc.refused_engine(reason, tile.detail)
        bit = None if engine is None else ncc.exception_bit(engine, reason, tile.detail)
        if engine is None or bit is None:
            raise refusal
        stops = pmu.notes_exceptions(tile, engine) and self.engines.note_exception(tile, 1 << bit)
        if stops or self.on_exception == "stop":
            raise refusal
        tile.advance(self.codes[tile.number].size(tile.pc))

    def _system(self, tile: Tile) -> None:
        record, _ = self._decode(tile)
        if record.mnemonic == "mret":
            trap.leave(tile)
            return
        if record.mnemonic != "ecall":
            said = environment.last_words(tile) if record.mnemonic == "ebreak" else ""
            text = f"{record.mnemonic}: {said or 'there is no debugger'}"
            raise self.traffic.fault(tile, text, FaultKind.BREAKPOINT)
        if trap.has_handler(tile) and not environment.knows_call(tile):
            text = "ecall: the environment has no such call, and the program handles traps"
            raise self.traffic.fault(tile, text, FaultKind.CALL)
        pc = tile.pc
        environment.environment_call(tile, partial(self._core_bytes, tile, pc))
        if tile.status is Status.EXITED:
            reason = self.engines.finish(tile)
            if reason >= 0:
                raise fault(self.image, tile, reason)
            for observer in self.observers:
                observer.exited(tile)
            if tile.exit_code:
                text = f"the program exited with status {tile.exit_code}"
                raise Fault(f"{place(self.image, tile, pc)}: {text}", FaultKind.STATUS)


def _find_device(devices: Sequence[Device], address: int) -> Device | None:
    """Return the device at a core address."""
    return next((d for d in devices if d.base <= address < d.base + d.size), None)


def _transfer(device: Device, tile: Tile, record: Scalar, values: dict[str, int], offset: int) -> bool:
    """Let a device execute a load or store; False when it has no such register."""
    if any(field.kind == "float" for field in record.fields):
        return False  # registers of devices answer loads and stores of x registers only (proposed)
    if record.kind == "store":
        value = int(record.body(tile.register(values["rs2"])))
        return device.store(tile, offset, record.width, value)
    raw = device.load(tile, offset, record.width)
    if raw is not None:
        tile.set_register(values["rd"], record.body(raw))
    return raw is not None
