"""Messages of faults: the place of a fault, the value found, and the allowed values."""

from __future__ import annotations

import ctypes
from enum import StrEnum
from typing import Any, NamedTuple, Self

from asm.image import Image, named_place
from emulator.core import predecode
from emulator.engines import tables
from emulator.memory import state, stop
from tx8isa.numbers.formats import Format
from tx8isa.records.record import Engine, Instruction
from tx8isa.riscv.compressed import COMPRESSED_BYTES
from tx8isa.table import compressed as rvc
from tx8isa.table import scalar as rv
from tx8isa.table.encoding import value_error

from .tile import Tile


class Category(StrEnum):
    """The reason why the emulator refuses an instruction, or reports a finding."""

    UNDEFINED = "undefined by the chip"
    CONTRACT = "against the contract"
    UNPREDICTABLE = "not predictable"
    MISSING = "not implemented"
    STOPPED = "stopped on request"


class Facts(NamedTuple):
    """The facts about a kind of fault or of finding."""

    name: str
    category: Category
    meaning: str
    fix: str = ""
    """The remedy; empty if each finding has its own."""
    reason: int | None = None
    """The ``stop`` of compiled code that becomes this kind of fault."""


class CategorisedKind(StrEnum):
    """A kind of fault or of finding; its value is its name."""

    facts: Facts

    def __new__(cls, *facts: Any) -> Self:
        """Return the member with its facts."""
        found = Facts(*facts)
        member = str.__new__(cls, found.name)
        member._value_, member.facts = found.name, found
        return member

    @property
    def category(self) -> Category:
        """The reason why the emulator refuses or reports it."""
        return self.facts.category


UNDEFINED, CONTRACT = Category.UNDEFINED, Category.CONTRACT
MISSING, STOPPED = Category.MISSING, Category.STOPPED


class FaultKind(CategorisedKind):
    """The kinds of faults."""

    ILLEGAL = Facts(
        "illegal-instruction",
        UNDEFINED,
        "the bytes are no instruction",
        "jump to instructions only, and keep data outside of the text",
        stop.ILLEGAL,
    )
    OPCODE = Facts(
        "opcode",
        UNDEFINED,
        "a packet's engine has no such instruction",
        "see the opcodes in docs/isa",
        stop.OPCODE,
    )
    WORKER = Facts(
        "worker",
        UNDEFINED,
        "the machine does not have the worker",
        "use a worker that the machine has",
        stop.WORKER,
    )
    CSR = Facts(
        "csr",
        UNDEFINED,
        "the core has no such control register, or it is read-only",
        "see docs/registers.md",
        stop.CSR,
    )
    MEMORY = Facts(
        "address",
        UNDEFINED,
        "the core sees neither memory nor register there",
        "use %core(symbol), or the address of an SPM byte as the core sees it",
        stop.MEMORY,
    )
    JUMP = Facts(
        "branch",
        CONTRACT,
        "the target of a branch is outside the program",
        "end with the exit call, and return with the ra of the caller",
        stop.JUMP,
    )
    RANGE = Facts(
        "range", CONTRACT, "an operand leaves its memory", "lower the count or the address", stop.RANGE
    )
    ALIGNMENT = Facts(
        "alignment",
        CONTRACT,
        "an address is not a multiple of its alignment",
        "round the address to the multiple",
        stop.ALIGNMENT,
    )
    VALUE = Facts(
        "value",
        CONTRACT,
        "an operand or a register has a value that is not allowed",
        "use a value that the message allows",
        stop.VALUE,
    )
    RULE = Facts("rule", CONTRACT, "operands contradict each other", "make the operands agree", stop.RULE)
    STRIDE = Facts(
        "stride",
        CONTRACT,
        "a byte stride is not a multiple of the element's bytes",
        "multiply the stride by the bytes of an element",
        stop.STRIDE,
    )
    END = Facts(
        "end",
        CONTRACT,
        "an end register contradicts the other registers",
        "write the address of the last byte, or 0",
        stop.END,
    )
    BUSY = Facts(
        "busy",
        CONTRACT,
        "a block of the DTE is told to start a copy before its last one is done",
        "wait for bit 0 of dma_status first",
    )
    PACKET = Facts(
        "packet",
        CONTRACT,
        "a stream does not have the packet that it is told about",
        "configure the stream for as many packets first",
    )
    DEADLOCK = Facts(
        "deadlock",
        CONTRACT,
        "no tile can ever go on",
        "let every tile of a barrier reach it, and send what tiles wait for",
    )
    LIMIT = Facts(
        "emulator-limit",
        MISSING,
        "one instruction is larger than the emulator takes",
        "divide the work among several instructions",
    )
    OTHER_CARD = Facts(
        "other-card",
        MISSING,
        "an address is on another card, and one chip is emulated",
        "run it on a machine of several chips",
    )
    CALL = Facts(
        "environment-call", MISSING, "the environment has no such call", "use exit (93) or write (64)"
    )
    NEEDS_DATA = Facts(
        "needs-data",
        MISSING,
        "a run without data meets a value that engines make",
        "run with data",
        stop.MADE,
    )
    NEEDS_TIME = Facts(
        "needs-time", MISSING, "a counter of time is read in a run without simulated time", "run with --timed"
    )
    EXCEPTION = Facts(
        "exception",
        STOPPED,
        "a numeric exception is not masked, and stops the machine",
        "mask the exception, or avoid its cause",
        stop.EXCEPTION,
    )
    STATUS = Facts(
        "exit-status",
        STOPPED,
        "the program exits with a status other than 0",
        "see what the program checks before it exits",
    )
    BREAKPOINT = Facts(
        "breakpoint",
        STOPPED,
        "ebreak without a debugger, as an assertion ends",
        "see what the program checks there",
    )
    INSTRUCTIONS = Facts(
        "instruction-limit",
        STOPPED,
        "a tile has executed as many instructions as it may",
        "look for a loop without end, or allow more instructions",
    )
    KILLED = Facts("killed", STOPPED, "the debugger ends the program", "start it again")


_OF_REASON = {kind.facts.reason: kind for kind in FaultKind if kind.facts.reason is not None}


class Fault(Exception):
    """The program ran and faulted; ``str`` is one line with tile, instruction, source line and value."""

    def __init__(self, text: str, kind: FaultKind) -> None:
        super().__init__(text, kind)
        self.text, self.kind = text, kind

    def __str__(self) -> str:
        return self.text

    @property
    def category(self) -> Category:
        """The reason why the emulator refuses to go on."""
        return self.kind.category

    @property
    def bare(self) -> Fault:
        """Return the same fault without its traceback, which would keep the memories alive."""
        return Fault(self.text, self.kind)


def place(image: Image, tile: Tile, address: int) -> str:
    """Return ``tile 3 at 0x80000040 (prog.s:12, node 'conv1')``."""
    line = image.lines.get(address)
    details = named_place(f"{line[0]}:{line[1]}" if line else "", image.nodes.get(address))
    return f"tile {tile.number} at 0x{address:x}" + (f" ({details})" if details else "")


def fault(image: Image, tile: Tile, reason: int) -> Fault:
    """Return the fault that made a tile stop with ``reason``."""
    return Fault(f"{place(image, tile, tile.pc)}: {_what(image, tile, reason)}", _kind(tile, reason))


def _kind(tile: Tile, reason: int) -> FaultKind:
    """Return the kind of a stop: bounds on the work of one instruction are the emulator's own."""
    if reason == stop.RULE:
        record = tables.records()[tile.detail[0]]
        if tables.checks(record)[tile.detail[1]] not in record.rules:
            return FaultKind.LIMIT
    return _OF_REASON[reason]


def _what(image: Image, tile: Tile, reason: int) -> str:
    first, second, third, _ = tile.detail
    if reason == stop.ILLEGAL:
        return f"illegal instruction: {_illegal(image, tile)}"
    if reason == stop.JUMP:
        return f"branch to 0x{first & (1 << 64) - 1:x}, which is outside the program"
    if reason == stop.MEMORY:
        return _memory(tile, first & (1 << 64) - 1, second, bool(third))
    if reason == stop.WORKER:
        return f"worker {first}, the machine has {second}"
    if reason == stop.OPCODE:
        return f"{Engine(first).name} has no instruction with opcode {second}"
    if reason == stop.EXCEPTION:
        text = f"instruction {third} of worker {first} raised an exception that is not masked"
        return f"{text}: bits 0x{second:x}, and the machine is set to stop then"
    return _refused(tile, reason)


def _refused(tile: Tile, reason: int) -> str:
    """Return why an engine instruction was not issued."""
    first, second, third, fourth = tile.detail
    record = tables.records()[first]
    name = _full_name(record, tile)
    if reason == stop.RULE:
        return f"{name}: {tables.checks(record)[second].text}{_operands(record, tile)}"
    operand = record.operands[second]
    if reason == stop.STRIDE:
        text = f"{name}: register '{operand.field}' = {third} is not a multiple of"
        return f"{text} the {fourth} bytes of an element"
    if reason == stop.END:
        return f"{name}: the end of '{operand.field}' is 0x{third:x}, its last byte is 0x{fourth:x}"
    if reason == stop.VALUE:
        return f"{name}: operand '{operand.name}' from a register: {value_error(operand, third)}"
    if reason == stop.ALIGNMENT:
        return f"{name}: operand '{operand.name}' = 0x{third:x} must be a multiple of {fourth}"
    verb = "writes" if operand.role == "write" else "reads"
    where = memory_of(tile, operand.memory, third)
    return f"{name}: operand '{operand.name}' {verb} {fourth} bytes from 0x{third:x}, outside {where}"


def _full_name(record: Instruction, tile: Tile) -> str:
    if not record.formats:
        return record.mnemonic
    code = tile.fields(len(record.operands))[record.index("format")]
    named = any(code == choice for _, choice in record.operand("format").choices)
    return f"{record.mnemonic}.{Format(code).token}" if named else record.mnemonic


def _operands(record: Instruction, tile: Tile) -> str:
    values = tile.fields(len(record.operands))
    shown = [
        f"{o.name}=0x{v:x}" if o.is_address or o.lanes else f"{o.name}={v}"
        for o, v in zip(record.operands, values, strict=True)
        if not o.hidden and o.name != "format"
    ]
    return f" ({', '.join(shown)})"


def memory_of(tile: Tile, memory: str, address: int) -> str:
    """Return the memory (``spm``, ``ddr`` or ``any``) for an address, with its bounds and a hint."""
    base, size = _word(tile, state.ENGINE_DDR), _word(tile, state.DDR_BYTES)
    if memory == "spm" or (memory == "any" and address < base):
        where = f"the SPM (0x0..0x{_word(tile, state.SPM_BYTES) - 1:x})"
    else:
        where = f"DDR (0x{base:x}..0x{base + size - 1:x})"
    core = _word(tile, state.CORE_DDR)
    if memory != "spm" and core <= address < core + _word(tile, state.CORE_WINDOW):
        return f"{where}; it is a kernel-core address: write %ncc(symbol)"
    if memory == "any" and address >> 39 & 1:
        return f"{where}; bit 39 means another card, and one chip is emulated"
    return where


def _word(tile: Tile, at: int) -> int:
    return int(tile.words[at])


def _illegal(image: Image, tile: Tile) -> str:
    address = tile.pc
    for segment in image.segments:
        if "x" in segment.flags and segment.address <= address < segment.address + len(segment.data):
            at, base = _word(tile, state.TEXT), _word(tile, state.CODE_BASE)
            text = ctypes.string_at(at + segment.address - base, len(segment.data))
            begin = text[address - segment.address :][:4]
            word = int.from_bytes(begin, "little")
            size = rvc.length(word) if len(begin) > 1 else COMPRESSED_BYTES
            if len(begin) < size:
                return f"{segment.section} ends after {len(begin)} of its {size} bytes"
            found = rv.decode(word)
            if found is not None:
                mode = _word(tile, state.FCSR) >> 5
                return f"{found[0].mnemonic} with the rounding mode {mode} in frm, expected 0..4"
            return predecode.explain(text, address - segment.address)
    return "the program counter left the program"


def _memory(tile: Tile, address: int, size: int, store: bool) -> str:
    access = f"{'store' if store else 'load'} of {size} bytes at 0x{address:x}"
    text = f"{access}, where the kernel core sees no memory"
    if address < _word(tile, state.SPM_BYTES):
        return f"{text}; it sees SPM byte a at 0x{_word(tile, state.CORE_SPM):x} + a"
    if address >= _word(tile, state.ENGINE_DDR):
        return f"{text}; that is the engines' view of DDR: write %core(symbol)"
    return text
