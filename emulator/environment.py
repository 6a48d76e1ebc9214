"""What the kernel core does outside the compiled loop: CSRs and environment calls.

Each function executes the instruction at the tile's program counter.
"""

from __future__ import annotations

from collections.abc import Callable

from tx8isa import rv
from tx8isa.primitives import s64

from .memory import Bytes
from .tile import Status, Tile

_EXIT, _EXIT_GROUP, _WRITE = 93, 94, 64
_NOT_IMPLEMENTED = -38  # ENOSYS, what Linux answers to an unknown call
_BAD_FILE, _BAD_ADDRESS = -9, -14
_A0, _A1, _A2, _A7 = 10, 11, 12, 17
_SCALAR_BYTES = 4

_COUNTERS = {
    "cycle": "mcycle", "mcycle": "mcycle", "time": "time", "instret": "minstret", "minstret": "minstret",
}  # fmt: skip
"""The register that holds what a counter was set to."""
_FIXED = {"mvendorid": 0, "marchid": 0, "mimpid": 0, "misa": 2 << 62 | 1 << 8 | 1 << 12}  # RV64, I and M
_READ_ONLY = 3
"""Bits 11:10 of the number of a register that cannot be written."""


def csr_instruction(tile: Tile, record: rv.Scalar, values: dict[str, int], hart: int) -> bool:
    """Read and perhaps write a control and status register; False when it does not exist or is read-only.

    ``hart`` is what mhartid reads. A write to misa is ignored, as the RISC-V manual allows.
    """
    number = values["csr"]
    name = rv.CSR_NAMES.get(number, "")
    if not name:
        return False
    old = hart if name == "mhartid" else _read(tile, name)
    if record.writes_csr(values):
        if number >> 10 == _READ_ONLY:
            return False
        operand = tile.register(values["rs1"]) if "rs1" in values else values["zimm"]
        new = s64(record.body(old, operand))
        tile.csrs[name] = s64(new - tile.retired - 1) if name in _COUNTERS else new
    tile.set_register(values["rd"], old)
    tile.advance(_SCALAR_BYTES)
    return True


def _read(tile: Tile, name: str) -> int:
    if name in _COUNTERS:
        # Functional execution has no clock: every counter counts instructions.
        return s64(tile.retired + tile.csrs.get(_COUNTERS[name], 0))
    return s64(_FIXED.get(name, tile.csrs.get(name, 0)))


def environment_call(tile: Tile, memory: Callable[[int, int], Bytes | None]) -> None:
    """exit and write by their RISC-V Linux numbers; any other call answers ENOSYS.

    ``memory(address, size)`` gives bytes as the core sees them, or None.
    """
    call, a0 = tile.register(_A7), tile.register(_A0)
    tile.advance(_SCALAR_BYTES)
    if call in (_EXIT, _EXIT_GROUP):
        tile.exit_code = a0 & 0xFF
        tile.status = Status.EXITED
    elif call == _WRITE:
        tile.set_register(_A0, _write(tile, a0, tile.register(_A1), tile.register(_A2), memory))
    else:
        tile.set_register(_A0, _NOT_IMPLEMENTED)


def _write(tile: Tile, file: int, address: int, size: int, memory: Callable[[int, int], Bytes | None]) -> int:
    if file not in (1, 2):
        return _BAD_FILE
    if size == 0:
        return 0
    data = memory(address, size)
    if data is None:
        return _BAD_ADDRESS
    tile.output.append((file, data.tobytes()))
    return size
