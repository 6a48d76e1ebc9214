"""A program's fault as text: where it happened, the value found, what is allowed."""

from __future__ import annotations

from asm.image import Image
from tx8isa.encoding import value_error
from tx8isa.formats import Format
from tx8isa.machine import Machine
from tx8isa.record import Instruction

from . import predecode, stop, tables
from .tile import Tile


class Fault(Exception):
    """The program ran and faulted; ``str`` is one line with tile, instruction, source line and value."""


def place(image: Image, tile: Tile, address: int) -> str:
    """``tile 3 at 0x80000040 (prog.s:12, node 'conv1')``."""
    details = []
    line = image.lines.get(address)
    if line:
        details.append(f"{line[0]}:{line[1]}")
    node = image.nodes.get(address)
    if node:
        details.append(f"node '{node}'")
    return f"tile {tile.number} at 0x{address:x}" + (f" ({', '.join(details)})" if details else "")


def fault(image: Image, machine: Machine, tile: Tile, reason: int) -> Fault:
    """The fault that made a tile stop with ``reason``."""
    return Fault(f"{place(image, tile, tile.pc)}: {_what(image, machine, tile, reason)}")


def _what(image: Image, machine: Machine, tile: Tile, reason: int) -> str:
    first, second, third, fourth = tile.detail
    if reason == stop.ILLEGAL:
        return f"illegal instruction: {_illegal(image, tile.pc)}"
    if reason == stop.JUMP:
        if first % 4:
            return f"misaligned branch to 0x{first:x}: targets are multiples of 4"
        return f"branch to 0x{first & (1 << 64) - 1:x}, which is outside the program"
    if reason == stop.MEMORY:
        return _memory(machine, first & (1 << 64) - 1, second, bool(third))
    record = tables.records()[first]
    name = _full_name(record, tile)
    if reason == stop.RULE:
        return f"{name}: {record.rules[second].text}{_operands(record, tile)}"
    operand = record.operands[second]
    if reason == stop.VALUE:
        return f"{name}: operand '{operand.name}' from a register: {value_error(operand, third)}"
    if reason == stop.ALIGNMENT:
        return f"{name}: operand '{operand.name}' = 0x{third:x} must be a multiple of {fourth}"
    where = _memory_of(machine, tile, operand.memory, third)
    verb = "writes" if operand.role == "write" else "reads"
    return f"{name}: operand '{operand.name}' {verb} {fourth} bytes from 0x{third:x}, outside {where}"


def _full_name(record: Instruction, tile: Tile) -> str:
    if not record.formats:
        return record.mnemonic
    code = tile.fields(len(record.operands))[record.index("format")]
    return f"{record.mnemonic}.{Format(code).token}"


def _operands(record: Instruction, tile: Tile) -> str:
    values = tile.fields(len(record.operands))
    shown = [
        f"{o.name}=0x{v:x}" if o.is_address or o.lanes else f"{o.name}={v}"
        for o, v in zip(record.operands, values, strict=True)
        if not o.hidden and o.name != "format"
    ]
    return f" ({', '.join(shown)})"


def _memory_of(machine: Machine, tile: Tile, memory: str, address: int) -> str:
    windows = machine.windows
    spm = f"the SPM (0x0..0x{machine.spm.bytes - 1:x})"
    ddr = f"DDR (0x{windows.ddr_engine:x}..0x{windows.ddr_engine + machine.ddr.bytes - 1:x})"
    if memory == "spm":
        return spm
    if memory == "any" and address < windows.ddr_engine:
        return spm
    if windows.ddr_cached <= address < windows.ddr_cached + windows.ddr_core_bytes:
        return f"{ddr}; it is a kernel-core address: write %ncc(symbol)"
    return ddr


def _illegal(image: Image, address: int) -> str:
    for segment in image.segments:
        if "x" in segment.flags and segment.address <= address < segment.address + len(segment.data):
            return predecode.explain(segment.data, address - segment.address)
    return "the program counter left the program"


def _memory(machine: Machine, address: int, size: int, store: bool) -> str:
    windows = machine.windows
    text = f"{'store' if store else 'load'} of {size} bytes at 0x{address:x}, where the kernel core sees no memory"
    if address < machine.spm.bytes:
        return f"{text}; it sees SPM byte a at 0x{windows.spm_weak:x} + a"
    if address >= windows.ddr_engine:
        return f"{text}; that is the engines' view of DDR: write %core(symbol)"
    return text
