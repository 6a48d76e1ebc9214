"""The registers of the NCC that have effects, and the exceptions of its engines.

docs/isa.md, Registers of the NCC and Exceptions.
"""

from __future__ import annotations

from emulator.engines import queues, tables
from emulator.engines.packets import PLACE
from emulator.memory import state, stop
from tx8isa.machine.description import Machine
from tx8isa.records.record import Engine, Instruction
from tx8isa.table.packets import PACKETS, VALID_DATA_BIT, WRITE_BACK

from .engines import Engines
from .observer import Observer
from .tile import Tile

STATUS, EXCEPTION, PRIORITY, MASK, SERIAL = 0x740, 0x750, 0x760, 0x770, 0x780
TASK_DONE = 1 << 8
_CLEAR = 49
WRITABLE = {PRIORITY: 0xFF, MASK: (1 << queues.KEEP_LAST + 1) - 1, SERIAL: 1}
"""Bits that a store changes, by register."""
_WORD = {EXCEPTION: queues.EXCEPTION, PRIORITY: queues.PRIORITY, MASK: queues.MASK, SERIAL: queues.SERIAL}
"""The place of a register, in the header of the worker's queues."""
_CONTROL = {packet.control: packet for packet in PACKETS.values()}
_RETURNED = {field.register for field in WRITE_BACK}

FIELD = {Engine.SCALAR: 0, Engine.CT: 8, Engine.NE: 16, Engine.RDMA: 24, Engine.WDMA: 32, Engine.TDMA: 40}
"""First bit of a unit's field in the exception register (spec)."""
ILLEGAL, BEYOND_SPM = 0, 1
"""CT, TDMA (spec) and NE (proposed): illegal configuration, address beyond the SPM."""
AXI_READ, AXI_WRITE, ILLEGAL_DMA = 0, 1, 3
"""RDMA and WDMA: a response that is not OK on reading, on writing, and an illegal instruction (spec)."""


def refused_engine(reason: int, detail: tuple[int, int, int, int]) -> Engine | None:
    """Return the engine of the instruction that a stop concerns; None for any other reason."""
    if reason == stop.OPCODE:
        return Engine(detail[0])
    if reason in (stop.RANGE, stop.ALIGNMENT, stop.VALUE, stop.RULE, stop.STRIDE, stop.END):
        return tables.records()[detail[0]].engine
    return None


def exception_bit(engine: Engine, reason: int, detail: tuple[int, int, int, int]) -> int | None:
    """Return the bit of the exception register for a refused instruction; None if its unit has none.

    An address out of range counts as beyond the memory, even if the address itself was refused. Every other
    refusal counts as an illegal instruction (docs/isa.md, Exceptions; proposed where no cause is known).
    """
    if engine not in FIELD or engine is Engine.SCALAR:
        return None
    role = _address_role(tables.records()[detail[0]], detail[1]) if reason in (stop.RANGE, stop.VALUE) else ""
    if engine in (Engine.RDMA, Engine.WDMA):
        bit = {"": ILLEGAL_DMA, "write": AXI_WRITE}.get(role, AXI_READ)
    else:
        bit = BEYOND_SPM if role else ILLEGAL
    return FIELD[engine] + bit


def _address_role(record: Instruction, operand: int) -> str:
    return record.operands[operand].role


class NccWindows:
    """The device of the register windows of all workers."""

    def __init__(self, machine: Machine, engines: Engines) -> None:
        self.base, self.stride = machine.windows.ncc, machine.windows.ncc_stride
        self.size = self.stride * machine.tile.workers
        self.engines = engines
        self.observers: list[Observer] = []

    def returns(self, offset: int) -> bool:
        """Return True if a register receives results of instructions."""
        return offset % self.stride & ~7 in _RETURNED

    def load(self, tile: Tile, offset: int, size: int) -> int | None:
        """Return ``size`` bytes at ``offset``; None where there is no register, or one of another size.

        Registers are 64 bits wide (spec); each half may be accessed separately (proposed). A read executes
        one instruction. A status register is read before that, a write-back register afterwards.
        """
        worker, inside = divmod(offset, self.stride)
        if size < 4 or offset % size:
            return None
        if inside & ~7 in _RETURNED:
            self.engines.step(tile, worker)
        value = self._value(tile, worker, inside & ~7)
        if value is not None and inside == STATUS:
            self.engines.step(tile, worker)
        if value is not None:
            self._tell(tile, worker, inside & ~7, value)
        return None if value is None else value >> 8 * (inside & 7) & (1 << 8 * size) - 1

    def _tell(self, tile: Tile, worker: int, register: int, value: int) -> None:
        """Tell the observers the value that a program reads in a register that engines change."""
        for observer in self.observers:
            if register == STATUS and value & TASK_DONE:
                observer.waited(tile, worker)
            elif register in _RETURNED and value >> VALID_DATA_BIT & 1:
                observer.result_read(tile, worker)
            elif register == STATUS or register in _RETURNED:
                observer.polled(tile)

    def store(self, tile: Tile, offset: int, size: int, value: int) -> bool:
        """Write ``size`` bytes at ``offset``; False where that cannot be done.

        ``packets.Refused`` if a store to a control register starts an illegal instruction.
        """
        worker, inside = divmod(offset, self.stride)
        register, shift = inside & ~7, 8 * (inside & 7)
        if size < 4 or offset % size or not (register in WRITABLE or register in _CONTROL):
            return False
        kept = ~((1 << 8 * size) - 1 << shift)
        new = (self._value(tile, worker, register) or 0) & kept | value << shift
        if register in _CONTROL:
            self._control(tile, worker, register, new)
            return True
        block = tile.block(worker)
        if register == MASK and value << shift >> _CLEAR & 1:
            block[queues.EXCEPTION] = 0
            tile.words[state.FIRST_EXCEPTION] &= ~(1 << worker)
        block[_WORD[register]] = new & WRITABLE[register]
        return True

    def _control(self, tile: Tile, worker: int, register: int, value: int) -> None:
        """Keep a control word without its valid bit, and start the instruction when that is set."""
        packet = _CONTROL[register]
        valid = 1 << packet.valid_bit
        word = value & (1 << 63) - 1 & ~valid
        tile.registers(worker)[register // PLACE] = word
        if value & valid:
            self.engines.submit(tile, worker, packet)

    def _value(self, tile: Tile, worker: int, register: int) -> int | None:
        block = tile.block(worker)
        if register == STATUS:
            pending = int(block[queues.PENDING])
            return pending | (TASK_DONE if pending == 0 else 0)
        if register in _WORD:
            return int(block[_WORD[register]])
        if register in _CONTROL or register in _RETURNED:
            return int(tile.registers(worker)[register // PLACE]) & (1 << 64) - 1
        return None
