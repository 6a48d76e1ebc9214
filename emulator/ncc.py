"""Worker 0's control registers and the exceptions of its engines (docs/isa.md, Registers of the NCC)."""

from __future__ import annotations

from tx8isa.record import Engine, Instruction

from . import state, stop
from .tile import Tile

STATUS, EXCEPTION, PRIORITY, MASK, SERIAL = 0x740, 0x750, 0x760, 0x770, 0x780
_TASK_DONE = 1 << 8
_KEEP_LAST, _CLEAR = 48, 49
_MASK_RESET = (1 << 48) - 1
_WRITABLE = {PRIORITY: 0xFF, MASK: (1 << 49) - 1, SERIAL: 1}
"""Bits that a store reaches, by register."""

_FIELD = {Engine.CT: 8, Engine.NE: 16, Engine.RDMA: 24, Engine.WDMA: 32, Engine.TDMA: 40}
"""First bit of a unit's field in the exception register (spec)."""
ILLEGAL, BEYOND_SPM = 0, 1
"""CT, TDMA (spec) and NE (proposed): illegal configuration, address beyond the SPM."""
AXI_READ, AXI_WRITE, ILLEGAL_DMA = 0, 1, 3
"""RDMA and WDMA: a response that is not OK on reading, on writing, and an illegal instruction (spec)."""


def exception_bit(record: Instruction, reason: int, operand: int) -> int | None:
    """Bit of the exception register for a refused engine instruction; None when the unit has no field there.

    ``operand`` is that of ``stop.RANGE``, ``ALIGNMENT`` and ``VALUE``. An address that is out of range counts
    as one beyond the memory, whether its range or the address itself was refused; everything else is an
    illegal instruction (docs/isa.md, Exceptions; proposed where no cause is known).
    """
    if record.engine not in _FIELD:
        return None
    refused = record.operands[operand] if reason in (stop.RANGE, stop.VALUE) else None
    beyond = refused is not None and refused.is_address
    if record.engine in (Engine.RDMA, Engine.WDMA):
        bit = ILLEGAL_DMA
        if refused is not None and beyond:
            bit = AXI_WRITE if refused.role == "write" else AXI_READ
    else:
        bit = BEYOND_SPM if beyond else ILLEGAL
    return _FIELD[record.engine] + bit


def raise_exception(tile: Tile, bit: int) -> None:
    """Note an exception: the first is kept, or with mode bit 48 the last.

    The mask only decides about interrupts, which the emulator does not have (proposed).
    """
    if tile.exceptions and not tile.ncc.get(MASK, _MASK_RESET) >> _KEEP_LAST & 1:
        return
    tile.exceptions = 1 << bit


def load_register(tile: Tile, offset: int, size: int) -> int | None:
    """``size`` bytes at ``offset`` of the window; None where there is no register or it is read otherwise.

    Registers are 64 bits wide (spec); either half may be accessed by itself (proposed).
    """
    value = _value(tile, offset & ~7)
    if value is None or size < 4 or offset % size:
        return None
    return value >> 8 * (offset & 7) & (1 << 8 * size) - 1


def store_register(tile: Tile, offset: int, size: int, value: int) -> bool:
    """Write ``size`` bytes at ``offset`` of the window; False where that cannot be done."""
    register = offset & ~7
    if register not in _WRITABLE or size < 4 or offset % size:
        return False
    shift = 8 * (offset & 7)
    if register == MASK and value << shift >> _CLEAR & 1:
        tile.exceptions = 0
    old = _value(tile, register) or 0
    new = (old & ~((1 << 8 * size) - 1 << shift) | value << shift) & _WRITABLE[register]
    if register == SERIAL:
        tile.words[state.SERIAL_MODE] = new
    else:
        tile.ncc[register] = new
    return True


def _value(tile: Tile, register: int) -> int | None:
    if register == STATUS:
        return tile.pending | (_TASK_DONE if tile.pending == 0 else 0)
    if register == EXCEPTION:
        return tile.exceptions
    if register == SERIAL:
        return int(tile.words[state.SERIAL_MODE])
    if register == PRIORITY:
        return tile.ncc.get(PRIORITY, 0)
    return tile.ncc.get(MASK, _MASK_RESET) if register == MASK else None
