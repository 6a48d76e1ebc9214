"""Hostile engine instructions: legal ones with replaced operands, inverted bits, random words; all engines.

A run may only write the results of its instructions, which follow from records and operands in unbounded
integers. No other byte of SPM or DDR may change.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np

from chip_bench import EBREAK, W, chip, words_image
from emulator.chip.system import System
from emulator.tile.fault import Fault
from record_operands import SOLVERS, SPM_BYTES, Case, draw, scalar_bits
from tx8isa.errors import Tx8Error
from tx8isa.machine.description import Machine
from tx8isa.numbers.formats import Format
from tx8isa.numbers.primitives import s64
from tx8isa.records.record import Engine, Instruction, Operand
from tx8isa.table.encoding import DecodedInstruction, decode, encoder
from tx8isa.table.registry import by_mnemonic, instructions

MACHINE, FOUR = chip(spm=SPM_BYTES), chip(4, SPM_BYTES)
COMPARED = 1 << 22
"""Bytes of DDR that are looked at afterwards."""
RECORDS = [record for record in instructions() if type(record.meaning) in SOLVERS]
LINE = 256
EDGES = (
    0,
    1,
    2,
    63,
    64,
    65,
    0xFF,
    0xFFFF,
    1 << 22,
    (1 << 22) - 1,
    (1 << 24) - 1,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    (1 << 40) - 1,
    W.ddr_engine,
    W.ddr_engine + MACHINE.ddr.bytes,
    (1 << 63) - 1,
    1 << 63,
    (1 << 64) - 1,
    SPM_BYTES,
    SPM_BYTES - 1,
    SPM_BYTES - 2,
)
WORKERS = (0,) * 20 + (1,) * 5 + (2,) * 5 + (3,)
WAIT = encoder(by_mnemonic()["ncc.wait"]).encode([])


def one_format(record: Instruction) -> Format | None:
    """Return the same format for a record each time, so that few kernels are compiled."""
    return record.formats[RECORDS.index(record) % len(record.formats)] if record.formats else None


def any_value(operand: Operand, rng: Random) -> int:
    """A legal value, an edge, or any bits."""
    kind = rng.randrange(4)
    if kind == 0:
        return rng.choice(EDGES)
    if kind == 1:
        return rng.getrandbits(64)
    if operand.lanes:
        value = 0
        for lane in operand.lanes:
            edge = rng.choice((lane.low, lane.high, rng.randint(lane.low, lane.high), 0, lane.high + 1))
            value = value << 16 | edge & 0xFFFF
        return value
    return rng.choice((operand.low, operand.high, rng.randint(operand.low, operand.high)))


def legal(rng: Random, all_formats: bool = False, records: Sequence[Instruction] = RECORDS) -> Case:
    """Legal operands of any record; the addresses of some end at the last byte of SPM."""
    while True:
        record = rng.choice(records)
        fmt = rng.choice(record.formats) if all_formats and record.formats else one_format(record)
        case = draw(record, fmt, rng.choice((0, 1, 7, 17, 64, 65, 200, 1000)), rng)
        if case is not None:
            break
    case.put(tile=rng.choice((0, 0, 1, 3)), tiles=rng.choice((1, 1, 15, 10)))
    spm = case.addresses(memory="spm")
    if spm and rng.random() < 0.4:
        room = min(SPM_BYTES - case.named[o.name] - case.length(o) for o in spm)
        if rng.random() < 0.5:
            room -= room % LINE
        align = max(map(case.align, spm))
        case.put(**{o.name: case.named[o.name] + room - room % align for o in spm})
    case.put(**{o.name: case.named[o.name] + W.ddr_engine for o in case.addresses(memory="ddr")})
    return case


class Program:
    """Instructions and the registers they use; a register is given once."""

    def __init__(self, rng: Random, all_formats: bool, records: Sequence[Instruction] = RECORDS) -> None:
        self.rng, self.all_formats, self.records = rng, all_formats, records
        self.registers = {number: rng.choice((*EDGES, rng.getrandbits(64))) for number in range(1, 32)}
        self.free = list(range(5, 32))
        self.code = b""

    def add(self) -> None:
        rng = self.rng
        case = legal(rng, self.all_formats, self.records)
        values, in_registers = list(case.values), 0
        operands = case.record.operands
        changed = rng.sample(range(len(operands)), min(rng.choice((0, 0, 1, 1, 2, 3)), len(operands)))
        for (
            i
        ) in changed:  # an immediate that is not legal is not an instruction: most of them go to registers
            if operands[i].words or rng.random() < 0.1:
                values[i] = any_value(operands[i], rng)
        for i, operand in enumerate(operands):
            if operand.words and self.free and (i in changed or rng.random() < 0.3):
                number = self.free.pop()
                self.registers[number], values[i] = values[i], number
                in_registers |= 1 << i
            elif operand.words:
                values[i] &= (1 << 32 * operand.words) - 1
            else:
                values[i] &= (1 << operand.width) - 1
        code = bytearray(encoder(case.record).encode(values, in_registers, rng.choice(WORKERS)))
        if rng.random() < 0.05:
            for _ in range(rng.randint(1, 3)):
                code[rng.randrange(len(code))] ^= 1 << rng.randrange(8)
        if rng.random() < 0.02:
            code[4:] = rng.randbytes(len(code) - 4)
        self.code += bytes(code)
        if rng.random() < 0.3:
            self.code += WAIT

    def cases(self) -> list[Case]:
        """Return the legal instructions of the program."""
        found, at = [], 0
        while at < len(self.code):
            decoded = decode(self.code, at)
            if not isinstance(decoded, DecodedInstruction):
                at += 4
                continue
            values = list(decoded.values)
            for i, operand in enumerate(decoded.instruction.operands):
                if decoded.registers >> i & 1:
                    values[i] = scalar_bits(operand, self.registers[values[i]] if values[i] else 0)
            names = [operand.name for operand in decoded.instruction.operands]
            case = Case(decoded.instruction, decoded.format, dict(zip(names, values, strict=True)))
            if not case.problem():
                found.append(case)
            at += decoded.size
        return found

    def has_core_words(self) -> bool:
        """Return True if a word that is not an engine instruction begins like a compressed one."""
        at = 0
        while at < len(self.code):
            decoded = decode(self.code, at)
            half = int.from_bytes(self.code[at : at + 2], "little")
            if not isinstance(decoded, DecodedInstruction) and half and half & 3 != 3:
                return True
            at += decoded.size if isinstance(decoded, DecodedInstruction) else 4
        return False

    def system(self, machine: Machine = MACHINE, **options: Any) -> System:
        code = self.code + EBREAK.to_bytes(4, "little")
        system = System(words_image(list(struct.unpack(f"<{len(code) // 4}I", code))), machine, **options)
        for number, value in self.registers.items():
            for tile in system.tiles:
                tile.set_register(number, s64(value))
        return system


def written(cases: list[Case], hostile: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the bytes of SPM and of DDR that the instructions may write."""
    spm, ddr = np.zeros(SPM_BYTES, bool), np.zeros(COMPARED, bool)
    for case in cases:
        for operand in case.record.operands:
            if operand.role != "write" or not operand.is_address:
                continue
            first, length = case.named[operand.name], case.length(operand)
            in_ddr = operand.memory == "ddr" or (operand.memory == "any" and first >= W.ddr_engine)
            memory, first = (ddr, first - W.ddr_engine) if in_ddr else (spm, first)
            if length <= 0 or first < 0 or (memory is spm and first + length > SPM_BYTES):
                continue
            end = first + length
            if hostile and case.record.engine in (Engine.CT, Engine.NE):
                end = -(-end // LINE) * LINE
            memory[first:end] = True
    return spm, ddr


def example_of_any_format(rng: Random) -> str:
    return example(rng, True)


def example_on_tiles(rng: Random) -> str:
    """Four tiles, on several threads, run the same instructions; the copies go to any of them."""
    program = Program(rng, False, [r for r in RECORDS if r.engine is Engine.DTE or rng.random() < 0.05])
    for _ in range(6):
        program.add()
    system = program.system(FOUR, threads=rng.randint(1, 3), on_exception=rng.choice(("stop", "drop")))
    try:
        system.run(300)
        verdict = "ended"
    except (Fault, Tx8Error) as error:
        verdict = str(error)
    executed = sum(int(tile.counts[:, 0].sum()) for tile in system.tiles)
    return f"{executed} executed, {verdict}"


def example(rng: Random, all_formats: bool = False) -> str:
    """Run one to eight instructions, and return the result."""
    program = Program(rng, all_formats)
    for _ in range(rng.choice((1, 1, 4, 8))):
        program.add()
    hostile = rng.random() < 0.3
    system = program.system(
        on_exception=rng.choice(("stop", "drop", "drop")),
        serial=rng.random() < 0.3,
        write_span="hostile" if hostile else "exact",
        ne_post=rng.choice(("ignore", "proposed")),
    )
    tile = system.tiles[0]
    tile.spm.data[:] = np.frombuffer(Random(rng.getrandbits(32)).randbytes(SPM_BYTES), np.uint8)
    before = tile.spm.data.copy(), system.ddr[:COMPARED].copy()
    try:
        system.run(1000)
        verdict = "ended"
    except (Fault, Tx8Error) as error:
        verdict = str(error)
    cases = program.cases()
    if all(case.record.engine is not Engine.SCALAR for case in cases) and not program.has_core_words():
        allowed = written(cases, hostile)
        after = tile.spm.data, system.ddr[:COMPARED]
        for name, memory, old, free in zip(("SPM", "DDR"), after, before, allowed, strict=True):
            wrong = np.flatnonzero((memory != old) & ~free)
            found = [(case.record.mnemonic, case.named) for case in cases]
            assert not wrong.size, f"{name} byte {int(wrong[0]):#x} changed by one of {found}"
    return f"{len(cases)} legal, {int(tile.counts[:, 0].sum())} executed, {verdict}"
