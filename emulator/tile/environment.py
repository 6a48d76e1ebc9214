"""Work of the kernel core outside the compiled loop: CSRs and environment calls.

Each function executes the instruction at the tile's program counter.
"""

from __future__ import annotations

from collections.abc import Callable

from emulator.memory import state
from emulator.memory.areas import Bytes
from tx8isa.numbers.primitives import s64
from tx8isa.riscv.format import Scalar
from tx8isa.riscv.registers import CSR_NAMES, CSRS, VENDOR_CSRS

from . import trap
from .tile import Status, Tile

EXIT, EXIT_GROUP = 93, 94
"""The calls that end a program; ``A0`` holds its status, ``A7`` the call."""
_WRITE = 64
_ERROR = 2
"""The file that is the standard error."""
_NOT_IMPLEMENTED = -38  # ENOSYS, Linux's answer to an unknown call
_BAD_FILE, _BAD_ADDRESS = -9, -14
A0, A7 = 10, 17
_A1, _A2 = 11, 12
_SCALAR_BYTES = 4
_MOST_OUTPUT, _MOST_CALLS = 1 << 24, 256
"""The most bytes of one call's output, and the most bytes and calls that are kept until they are shown."""

_COUNTERS = {
    "cycle": "mcycle",
    "mcycle": "mcycle",
    "time": "time",
    "instret": "minstret",
    "minstret": "minstret",
}
"""For each counter: the register with the value that was written to it."""
_RV64 = 2 << 62
_MISA = _RV64 | sum(1 << ord(letter) - ord("A") for letter in "IMFDC")
_MSTATUS = 1 << 63 | 3 << 13 | 3 << 11
"""Bits of mstatus that never change: floating point on (SD, FS; proposed), machine mode only (MPP)."""
_FIXED = {
    "misa": _MISA,
    "mstatus": _MSTATUS,
    "mvendorid": 0x5B7,
    "mhcr": 0x1FF,
    "mccr2": 0x42_000A,
    "mhint": 0xA_4000,
}
"""Bits that never change; those of the core's maker have the values of the card's core (board)."""
_HPM = tuple(name for name in CSRS if "hpm" in name)
_WRITABLE = {
    **dict.fromkeys(("misa", "mip", "mcountinhibit", *_HPM, *VENDOR_CSRS), 0),
    "mstatus": trap.MIE | trap.MPIE,
    "mie": 0x888,
    "mtvec": ~2,
    "mepc": ~1,
}
"""Bits that a write changes, if not all: the manual lets an implementation choose."""
_FLOAT = {"fflags": (0, 0x1F), "frm": (5, 0x7), "fcsr": (0, 0xFF)}
"""Lowest bit and mask, in ``state.FCSR``, of the registers that are parts of it."""
_READ_ONLY = 3
"""Bits 11:10 of the number of a register that cannot be written."""


def csr_instruction(tile: Tile, record: Scalar, values: dict[str, int], hart: int) -> bool:
    """Read and perhaps write a control and status register; False when it does not exist or is read-only.

    ``hart`` is the value of mhartid.
    """
    number = values["csr"]
    name = CSR_NAMES.get(number, "")
    if not name:
        return False
    old = hart if name == "mhartid" else read_csr(tile, name)
    if record.writes_csr(values):
        if number >> 10 == _READ_ONLY:
            return False
        operand = tile.register(values["rs1"]) if "rs1" in values else values["zimm"]
        new = s64(record.body(old, operand))
        write_csr(tile, name, new)
    tile.set_register(values["rd"], old)
    tile.advance(_SCALAR_BYTES)
    return True


def write_csr(tile: Tile, name: str, value: int) -> None:
    """Set a register; bits that cannot be written keep their values."""
    if name in _COUNTERS:
        instructions = 0 if _is_clock(tile, name) else 1
        tile.csrs[name] = s64(value - _count(tile, name) - instructions)
    elif name in _FLOAT:
        lowest, mask = _FLOAT[name]
        kept = int(tile.words[state.FCSR]) & ~(mask << lowest)
        tile.words[state.FCSR] = kept | (value & mask) << lowest
    else:
        tile.csrs[name] = value & _WRITABLE.get(name, -1)


def _is_clock(tile: Tile, name: str) -> bool:
    return name not in ("instret", "minstret") and tile.moment is not None


def _count(tile: Tile, name: str) -> int:
    """Return a counter as if it had never been written. Without simulated time all count instructions."""
    return tile.moment.cycles if tile.moment and _is_clock(tile, name) else tile.retired


def read_csr(tile: Tile, name: str) -> int:
    """Return the value of any register but mhartid, signed."""
    if name in _COUNTERS:
        return s64(_count(tile, name) + tile.csrs.get(_COUNTERS[name], 0))
    if name in _FLOAT:
        lowest, mask = _FLOAT[name]
        return int(tile.words[state.FCSR]) >> lowest & mask
    return s64(_FIXED.get(name, 0) | tile.csrs.get(name, 0))


def knows_call(tile: Tile) -> bool:
    """Return True for an ecall that the environment serves even if the program handles traps (proposed)."""
    return tile.register(A7) in (EXIT, EXIT_GROUP, _WRITE)


def environment_call(tile: Tile, memory: Callable[[int, int], Bytes | None]) -> None:
    """Serve exit and write by their RISC-V Linux numbers; any other call answers ENOSYS.

    ``memory(address, size)`` gives bytes as the core sees them, or None.
    """
    call, a0 = tile.register(A7), tile.register(A0)
    tile.advance(_SCALAR_BYTES)
    if call in (EXIT, EXIT_GROUP):
        tile.exit_code = a0 & 0xFF
        tile.status = Status.EXITED
    elif call == _WRITE:
        tile.set_register(A0, _write(tile, a0, tile.register(_A1), tile.register(_A2), memory))
    else:
        tile.set_register(A0, _NOT_IMPLEMENTED)


def last_words(tile: Tile) -> str:
    """Return the line that a tile has just written to the standard error, for a fault's message.

    The output is not shown then. Empty if the tile wrote none in this round, or more than a line.
    """
    file, data = tile.output[-1] if tile.output else (0, b"")
    line = data.decode(errors="replace").removesuffix("\n")
    if file != _ERROR or not line.isprintable():
        return ""
    tile.output.pop()
    return line


def _write(tile: Tile, file: int, address: int, size: int, memory: Callable[[int, int], Bytes | None]) -> int:
    if file not in (1, 2):
        return _BAD_FILE
    if size == 0:
        return 0
    data = memory(address, size)
    if data is None:
        return _BAD_ADDRESS
    data = data[:_MOST_OUTPUT]
    tile.output.append((file, data.tobytes()))
    if sum(len(text) for _, text in tile.output) >= _MOST_OUTPUT or len(tile.output) >= _MOST_CALLS:
        tile.words[state.LIMIT] = 0  # the round ends, and its output is shown
    return data.size
