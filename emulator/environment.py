"""What the kernel core does outside the compiled loop: CSRs, environment calls, the NCC's registers.

Each function executes the instruction at the tile's program counter and gives True, or False when there is
nothing at that place and the caller reports the fault.
"""

from __future__ import annotations

import struct
from typing import Any

from tx8isa import rv
from tx8isa.machine import Machine
from tx8isa.record import Engine

from . import state
from .memory import Bytes
from .tile import Status, Tile

_EXIT, _EXIT_GROUP, _WRITE = 93, 94, 64
_NOT_IMPLEMENTED = -38  # ENOSYS, what Linux answers to an unknown call
_BAD_FILE, _BAD_ADDRESS = -9, -14
_A0, _A1, _A2, _A7 = 10, 11, 12, 17

_COUNTERS = ("cycle", "time", "instret", "mcycle", "minstret")
_READ_ONLY = {"mvendorid": 0, "marchid": 0, "mimpid": 0, "misa": 1 << 63 | 1 << 8 | 1 << 12}
_EXCEPTION_FIELD = {
    Engine.SCALAR: 0, Engine.CT: 8, Engine.NE: 16, Engine.RDMA: 24, Engine.WDMA: 32, Engine.TDMA: 40,
}  # fmt: skip
"""First bit of a unit's field in the exception register (registers.md 8, spec)."""

_STATUS, _EXCEPTION, _PRIORITY, _MASK, _SERIAL = 0x740, 0x750, 0x760, 0x770, 0x780
_KEEP_LAST, _CLEAR = 48, 49


def decode_at(tile: Tile, ddr: Bytes, machine: Machine) -> tuple[rv.Scalar, dict[str, int]]:
    """The scalar instruction at the program counter."""
    offset = tile.pc - machine.windows.ddr_cached
    (word,) = struct.unpack("<I", ddr[offset : offset + 4].tobytes())
    found = rv.decode(word)
    if found is None:
        raise AssertionError("the compiled loop only stops at instructions it knows")
    return found


def csr_instruction(tile: Tile, record: rv.Scalar, values: dict[str, int]) -> bool:
    """Read and perhaps write a control and status register; False when it does not exist or is read-only."""
    number = values["csr"]
    name = rv.CSR_NAMES.get(number, "")
    if not name:
        return False
    old = _read_csr(tile, name, number)
    if record.writes_csr(values):
        if number >> 10 == 3 or name in _READ_ONLY:
            return False
        operand = tile.register(values["rs1"]) if "rs1" in values else values["zimm"]
        tile.csrs[number] = record.body(old, operand)
    tile.set_register(values["rd"], old)
    tile.advance(4)
    return True


def _read_csr(tile: Tile, name: str, number: int) -> int:
    if name == "mhartid":
        return tile.number
    if name in _COUNTERS:
        # Functional execution has no clock: every counter counts instructions.
        return tile.retired + tile.csrs.get(number, 0)
    value = _READ_ONLY.get(name, tile.csrs.get(number, 0))
    return value - (1 << 64) if value >> 63 else value


def environment_call(tile: Tile, memory: Any) -> bool:
    """exit and write by their RISC-V Linux numbers; any other call answers ENOSYS.

    ``memory(address, size)`` gives bytes as the core sees them, or None.
    """
    call, a0 = tile.register(_A7), tile.register(_A0)
    if call in (_EXIT, _EXIT_GROUP):
        tile.exit_code = a0 & 0xFF
        tile.status = Status.EXITED
        return True
    result = _NOT_IMPLEMENTED
    if call == _WRITE:
        result = _write(tile, a0, tile.register(_A1), tile.register(_A2), memory)
    tile.set_register(_A0, result)
    tile.advance(4)
    return True


def _write(tile: Tile, file: int, address: int, size: int, memory: Any) -> int:
    if file not in (1, 2):
        return _BAD_FILE
    data = memory(address, size) if size > 0 else b""
    if data is None:
        return _BAD_ADDRESS
    tile.output += bytes(data)
    return size


def raise_exception(tile: Tile, engine: Engine, bit: int) -> None:
    """Note an engine's exception: the first is kept, or with mode bit 48 the last."""
    keep_last = tile.csrs.get(-_MASK, (1 << 48) - 1) >> _KEEP_LAST & 1
    if tile.exceptions and not keep_last:
        return
    tile.exceptions = 1 << (_EXCEPTION_FIELD[engine] + bit)


def ncc_register(tile: Tile, offset: int, value: int | None) -> int | None:
    """Read (``value`` None) or write one register of worker 0's CSR block; None when there is none.

    Reading the status lets the engines finish, as the polling loop of a program expects.
    """
    if value is not None:
        return _write_register(tile, offset, value)
    if offset == _STATUS:
        return tile.pending | (1 << 8 if tile.pending == 0 else 0)
    if offset == _EXCEPTION:
        return tile.exceptions
    if offset == _SERIAL:
        return int(tile.words[state.SERIAL_MODE])
    if offset in (_PRIORITY, _MASK):
        return tile.csrs.get(-offset, 0 if offset == _PRIORITY else (1 << 48) - 1)
    return None


def _write_register(tile: Tile, offset: int, value: int) -> int | None:
    if offset == _SERIAL:
        tile.words[state.SERIAL_MODE] = value & 1
    elif offset == _MASK:
        if value >> _CLEAR & 1:
            tile.exceptions = 0
        tile.csrs[-_MASK] = value & ((1 << 49) - 1)
    elif offset == _PRIORITY:
        tile.csrs[-_PRIORITY] = value & 0xFF
    else:
        return None
    return value
