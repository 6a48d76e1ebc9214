"""The kernel core's registers by their GDB numbers, and the target description for GDB.

Feature and register names are those that GDB expects (GDB manual, RISC-V Features).
"""

from __future__ import annotations

from functools import cache
from xml.sax.saxutils import quoteattr

from emulator.chip.system import System
from emulator.memory import state
from emulator.tile.environment import read_csr, write_csr
from emulator.tile.tile import Tile
from tx8isa.numbers.primitives import s64
from tx8isa.riscv.compressed import COMPRESSED_BYTES
from tx8isa.riscv.registers import CSRS, FLOAT_REGISTER_NAMES, REGISTER_NAMES

PC = 32
"""Number of the program counter, after x0..x31."""
_FIRST_FLOAT, _FIRST_CSR = 33, 65
_FLOAT_CSRS = ("fflags", "frm", "fcsr")
_WIDE, _NARROW = 8, 4
_MASK = (1 << 64) - 1
_HEADER = '<?xml version="1.0"?>\n<!DOCTYPE target SYSTEM "gdb-target.dtd">\n'
_DOUBLE = (
    '<union id="riscv_double"><field name="float" type="ieee_single"/>'
    '<field name="double" type="ieee_double"/></union>'
)
_NO_SYSTEM = "<osabi>none</osabi>\n"
"""Without it GDB assumes a program of Linux, and does not let the server make single steps."""
_READ_ONLY = 3
"""Bits 11:10 of the number of a register that cannot be written."""


@cache
def csrs() -> tuple[str, ...]:
    """Return the control and status registers in the order of their GDB numbers."""
    others = sorted(CSRS, key=lambda name: CSRS[name])
    return (*_FLOAT_CSRS, *(name for name in others if name not in _FLOAT_CSRS))


def general() -> range:
    """Return the numbers of the registers that are sent together: all but the CSRs."""
    return range(_FIRST_CSR)


def size(number: int) -> int:
    """Return the bytes of a register; 0 when there is none with the number."""
    if not 0 <= number < _FIRST_CSR + len(csrs()):
        return 0
    return _NARROW if _FIRST_CSR <= number < _FIRST_CSR + len(_FLOAT_CSRS) else _WIDE


def read(system: System, tile: Tile, number: int) -> bytes:
    """Return the value of a register, which must exist."""
    if number < PC:
        value = tile.register(number)
    elif number == PC:
        value = tile.pc
    elif number < _FIRST_CSR:
        value = int(tile.words[state.F + number - _FIRST_FLOAT])
    else:
        name = csrs()[number - _FIRST_CSR]
        hart = system.machine.hartid(0, tile.number)
        value = hart if name == "mhartid" else read_csr(tile, name)
    return (value & _MASK).to_bytes(_WIDE, "little")[: size(number)]


def write(tile: Tile, number: int, data: bytes) -> str:
    """Set a register; return the reason why that is impossible, or an empty text."""
    value = int.from_bytes(data, "little")
    if number < PC:
        tile.set_register(number, s64(value))
    elif number == PC:
        if value % COMPRESSED_BYTES:
            return f"pc = 0x{value:x}: expected a multiple of {COMPRESSED_BYTES}"
        tile.pc = s64(value)
    elif number < _FIRST_CSR:
        tile.words[state.F + number - _FIRST_FLOAT] = s64(value)
    else:
        name = csrs()[number - _FIRST_CSR]
        if CSRS[name] >> 10 == _READ_ONLY:
            return f"{name} can only be read"
        write_csr(tile, name, s64(value))
    return ""


def description() -> str:
    """Return the target description."""
    cpu = [_register(name, "code_ptr" if name == "ra" else "int64") for name in REGISTER_NAMES]
    cpu.append(_register("pc", "code_ptr"))
    floats = [_register(name, "riscv_double") for name in FLOAT_REGISTER_NAMES]
    floats += [_register(name, "int", 8 * _NARROW) for name in _FLOAT_CSRS]
    others = [_register(name, "int64") for name in csrs()[len(_FLOAT_CSRS) :]]
    return "".join(
        (
            _HEADER,
            "<target><architecture>riscv:rv64</architecture>",
            _NO_SYSTEM,
            _feature("cpu", cpu),
            _feature("fpu", [_DOUBLE, *floats]),
            _feature("csr", others),
            "</target>\n",
        )
    )


def _feature(name: str, lines: list[str]) -> str:
    return "\n".join((f'<feature name="org.gnu.gdb.riscv.{name}">', *lines, "</feature>\n"))


def _register(name: str, type_: str, bits: int = 8 * _WIDE) -> str:
    return f"<reg name={quoteattr(name)} bitsize={quoteattr(str(bits))} type={quoteattr(type_)}/>"
