"""Registers, control and status registers and rounding modes of the kernel core, by the names of assembly."""

from __future__ import annotations

from .float_arithmetic import DYN, RDN, RMM, RNE, RTZ, RUP

REGISTER_NAMES: tuple[str, ...] = (
    *("zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1"),
    *(f"a{number}" for number in range(8)),
    *(f"s{number}" for number in range(2, 12)),
    *("t3", "t4", "t5", "t6"),
)
"""ABI name by register number (RISC-V ELF psABI, spec)."""

REGISTERS: dict[str, int] = {
    **{f"x{number}": number for number in range(32)},
    **{name: number for number, name in enumerate(REGISTER_NAMES)},
    "fp": 8,
}
"""Register number by any accepted name: x0..x31, the ABI names, and fp for s0."""

FLOAT_REGISTER_NAMES: tuple[str, ...] = (
    *(f"ft{number}" for number in range(8)),
    *("fs0", "fs1"),
    *(f"fa{number}" for number in range(8)),
    *(f"fs{number}" for number in range(2, 12)),
    *("ft8", "ft9", "ft10", "ft11"),
)
"""ABI name by register number (RISC-V ELF psABI, spec)."""

FLOAT_REGISTERS: dict[str, int] = {
    **{f"f{number}": number for number in range(32)},
    **{name: number for number, name in enumerate(FLOAT_REGISTER_NAMES)},
}
"""Register number by any accepted name: f0..f31 and the ABI names."""

ROUNDING_MODES: dict[str, int] = {"rne": RNE, "rtz": RTZ, "rdn": RDN, "rup": RUP, "rmm": RMM, "dyn": DYN}
"""Code by name of the rounding modes."""

_HPM = range(3, 32)
"""Numbers of the hardware performance counters."""

VENDOR_CSRS = {"mhcr": 0x7C1, "mccr2": 0x7C3, "mhint": 0x7C5}
"""Registers specific to the core, a T-Head C908 (board): caches, the shared cache, hints."""

CSRS: dict[str, int] = {
    **VENDOR_CSRS,
    "fflags": 0x001,
    "frm": 0x002,
    "fcsr": 0x003,
    "mstatus": 0x300,
    "misa": 0x301,
    "mie": 0x304,
    "mtvec": 0x305,
    "mcountinhibit": 0x320,
    **{f"mhpmevent{number}": 0x320 + number for number in _HPM},
    "mscratch": 0x340,
    "mepc": 0x341,
    "mcause": 0x342,
    "mtval": 0x343,
    "mip": 0x344,
    "mcycle": 0xB00,
    "minstret": 0xB02,
    **{f"mhpmcounter{number}": 0xB00 + number for number in _HPM},
    "cycle": 0xC00,
    "time": 0xC01,
    "instret": 0xC02,
    **{f"hpmcounter{number}": 0xC00 + number for number in _HPM},
    "mvendorid": 0xF11,
    "marchid": 0xF12,
    "mimpid": 0xF13,
    "mhartid": 0xF14,
}
"""Number by name of the control and status registers (RISC-V manual, volume II, spec)."""

CSR_NAMES: dict[int, str] = {number: name for name, number in CSRS.items()}
"""Name by number, for a disassembler."""
