"""Programs that fault, and the values outside an operand's range that cause it."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import numpy as np
import pytest

import asm
from chip_bench import EBREAK, W, chip, words_image
from emulator import native
from emulator.chip.system import System
from emulator.engines import tables
from emulator.tile.fault import Fault
from record_operands import scalar_bits
from tx8isa.numbers.formats import STORAGE_BITS
from tx8isa.records.record import Instruction, Operand
from tx8isa.table.encoding import DecodedInstruction, argument_values, decode, encoder
from tx8isa.table.registry import instructions

MACHINE = chip()


SPM, DDR, BASE = MACHINE.spm.bytes, MACHINE.ddr.bytes, W.ddr_engine


RECORDS = [r for r in instructions() if r.word_operands and not r.mnemonic.startswith("ncc.")]


def nothing(fields: int, state: int) -> int:
    return 0


@dataclass(frozen=True)
class Case:
    """An instruction whose operand words all come from registers."""

    record: Instruction
    values: tuple[int, ...]

    def put(self, name: str, value: int) -> Case:
        values = list(self.values)
        values[self.record.index(name)] = value
        return replace(self, values=tuple(values))

    def get(self, name: str) -> int:
        return self.values[self.record.index(name)]

    def length(self, operand: Operand) -> int:
        """Bytes that an address operand touches."""
        assert operand.extent is not None
        return operand.extent.length(*argument_values(self.record, operand.extent.arguments, self.values))

    def touching(self, operand: Operand) -> Case:
        """Return the case with the switches on that the extent of an operand depends on."""
        case = self
        for argument in operand.extent.arguments if operand.extent else ():
            if any(argument == other.name and other.hidden for other in self.record.operands):
                case = case.put(str(argument), 1)
        return case

    def align(self, operand: Operand) -> int:
        """Bytes of the elements it points to."""
        assert operand.extent is not None
        first = operand.extent.arguments[0]
        if isinstance(first, int):
            return max(first // 8, 1)
        return max(STORAGE_BITS[self.get(first[1:])] // 8, 1) if first.startswith("@") else 1

    def text(self) -> bytes:
        values, mask, number = list(self.values), 0, 0
        for i, operand in enumerate(self.record.operands):
            if operand.words:
                number += 1
                values[i], mask = number, mask | 1 << i
        return encoder(self.record).encode(values, mask)

    def registers(self) -> list[int]:
        return [v for v, o in zip(self.values, self.record.operands, strict=True) if o.words]

    def system(self, **options: str) -> System:
        text = self.text() + EBREAK.to_bytes(4, "little")
        system = System(words_image(list(np.frombuffer(text, "<u4").tolist())), MACHINE, **options)
        for number, value in enumerate(self.registers(), 1):
            system.tiles[0].set_register(number, value - (1 << 64) if value >> 63 == 1 else value)
        system.slots.words[:, 0] = native.compile_kernel(nothing, "nothing", 2)
        return system

    def fault(self) -> str:
        """Return the reason why the instruction is refused; empty if it is not."""
        with pytest.raises(Fault) as fault:
            self.system().run()
        text = str(fault.value)
        assert text.startswith("tile 0 at 0x8000")
        return "" if "ebreak" in text else text.partition(": ")[2]


def example(record: Instruction) -> Case:
    """The record's own example, copies staying in their tile."""
    found = decode(asm.assemble(f"_start: {record.example}").segments[0].data)
    assert isinstance(found, DecodedInstruction) and found.registers == 0
    case = Case(record, found.values)
    for name, here in (("tile", 0), ("tiles", 1)):
        if any(operand.name == name for operand in record.operands):
            case = case.put(name, here)
    return case


EXAMPLES = {record.mnemonic: example(record) for record in RECORDS}


def spell(case: Case) -> str:
    record = case.record
    suffix = (
        [n for n, code in record.operand("format").choices if code == case.get("format")]
        if record.formats
        else []
    )
    return ".".join([record.mnemonic, *suffix])


def memory(case: Case, operand: Operand) -> tuple[int, int, str]:
    """(first address, size, name in messages) of the memory an address operand points to."""
    address = case.get(operand.name)
    if operand.memory == "ddr" or (operand.memory == "any" and address >= BASE):
        return BASE, DDR, f"DDR (0x{BASE:x}..0x{BASE + DDR - 1:x})"
    return 0, SPM, f"the SPM (0x0..0x{SPM - 1:x})"


def operand_error(operand: Operand, value: int) -> bool:
    """Explain why a register may not hold ``value``, from the fields of the record alone."""
    value = scalar_bits(operand, value)
    if operand.choices:
        return value not in dict(operand.choices).values()
    if not operand.low <= value <= operand.high:
        return True
    if not operand.lanes or (value == 0 and operand.default == 0):
        return False
    parts = [value >> 16 * i & 0xFFFF for i in reversed(range(len(operand.lanes)))]
    return any(not lane.low <= part <= lane.high for lane, part in zip(operand.lanes, parts, strict=True))


def verdict(case: Case) -> str:
    """Return a part of the expected message, in exact integers; empty for a legal instruction."""
    for operand, value in zip(case.record.operands, case.values, strict=True):
        if operand.words and operand_error(operand, value):
            return f"operand '{operand.name}' from a register: "
    for check in tables.checks(case.record):
        if not check.holds(*argument_values(case.record, check.arguments, case.values)):
            return check.text
    for operand in case.record.operands:
        if operand.is_address and case.length(operand):
            if case.get(operand.name) % case.align(operand):
                return f"operand '{operand.name}' = 0x{case.get(operand.name):x} must be a multiple of "
            base, size, _ = memory(case, operand)
            if not base <= case.get(operand.name) <= base + size - case.length(operand):
                return f"operand '{operand.name}' {'writes' if operand.role == 'write' else 'reads'} "
    return ""


def random_value(operand: Operand, rng: random.Random) -> int:
    """A legal value, often a small one or a limit."""
    if operand.choices:
        return rng.choice([code for _, code in operand.choices])
    if operand.lanes:
        value = 0
        for lane in operand.lanes:
            value = value << 16 | rng.choice(
                [lane.low, lane.high, rng.randint(lane.low, min(lane.high, lane.low + 8))]
            )
        return value
    return rng.choice(
        [operand.low, operand.high, rng.randint(operand.low, min(operand.high, operand.low + 64))]
    )
