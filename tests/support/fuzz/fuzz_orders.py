"""Legal engine instructions on sixteen tiles: the same bytes in every order, on any number of host threads.

On one tile, the bytes are those of the slow reference.
"""

from __future__ import annotations

import struct
from random import Random
from typing import Any

import numpy as np

from chip_bench import EBREAK, W, chip, word, words_image
from emulator.chip.system import System
from emulator.kernels.reference import execute
from emulator.tile.fault import Fault
from fuzz_instructions import COMPARED, MACHINE, RECORDS, WAIT, legal
from record_operands import SPM_BYTES, Case
from tx8isa.records.record import Engine, Instruction
from tx8isa.table.encoding import encoder

SIXTEEN = chip(16, SPM_BYTES)
_COUNTER = 4
"""The register that counts turns of the loop."""


def _stays_in_its_tile(record: Instruction) -> bool:
    """Return True if tiles that run it at the same time cannot see each other's results."""
    writes = {operand.memory for operand in record.operands if operand.is_address and "write" in operand.role}
    return record.engine not in (Engine.DTE, Engine.NCC, Engine.SCALAR) and writes <= {"spm"}


OWN = [record for record in RECORDS if _stays_in_its_tile(record)]


def _code(cases: list[Case]) -> bytes:
    """Write the instructions with a wait after each, so that no order of the queues can matter."""
    found = b""
    for case in cases:
        widths = [32 * operand.words or operand.width for operand in case.record.operands]
        values = [value & (1 << width) - 1 for value, width in zip(case.values, widths, strict=True)]
        found += encoder(case.record).encode(values) + WAIT
    return found


def _system(code: bytes, turns: int, contents: bytes, machine: Any, **options: Any) -> System:
    """Make a system that will run the code ``turns`` times."""
    back = [
        word("addi", rd=_COUNTER, rs1=_COUNTER, imm=-1),
        word("bne", rs1=_COUNTER, rs2=0, target=-len(code) - 4),
    ]
    words = [*struct.unpack(f"<{len(code) // 4}I", code), *back, EBREAK]
    system = System(words_image(words), machine, **options)
    for tile in system.tiles:
        tile.set_register(_COUNTER, turns)
        tile.spm.data[:] = np.frombuffer(contents, np.uint8)
    return system


def _run(system: System) -> int:
    """Run to the end; return the instructions that were executed."""
    try:
        system.run(1_000_000)
    except Fault as fault:
        assert "ebreak" in str(fault), fault
    return sum(int(tile.counts[:, 0].sum()) for tile in system.tiles)


def example(rng: Random) -> str:
    """Run in the usual order, and in one other order on other host threads."""
    cases = [legal(rng, records=OWN) for _ in range(rng.choice((2, 4, 8)))]
    code, contents = _code(cases), rng.randbytes(SPM_BYTES)
    turns = rng.choice((1, 20, 200))
    first = _system(code, turns, contents, SIXTEEN, threads=1)
    second = _system(code, turns, contents, SIXTEEN, threads=rng.choice((2, 4)), serial=rng.random() < 0.5)
    executed = _run(first) + _run(second)
    named = [(case.record.mnemonic, case.named) for case in cases]
    for one, two in zip(first.tiles, second.tiles, strict=True):
        wrong = np.flatnonzero(one.spm.data != two.spm.data)
        assert not wrong.size, f"tile {one.number}: SPM byte {int(wrong[0]):#x} depends on the order: {named}"
    assert np.array_equal(first.ddr[:COMPARED], second.ddr[:COMPARED]), f"DDR depends on the order: {named}"
    return f"{executed} executed, the same in two orders"


def reference_example(rng: Random) -> str:
    """Run one tile once, and compare with the slow reference."""
    cases = [legal(rng, True, OWN) for _ in range(2)]
    contents = rng.randbytes(SPM_BYTES)
    system = _system(_code(cases), 1, contents, MACHINE)
    spm, ddr = bytearray(contents), bytearray(system.ddr[:COMPARED])
    executed = _run(system)
    random, write_back = 1, [0, 0]
    for case in cases:
        addresses = {
            o.name for o in case.addresses() if o.memory == "ddr" or case.named[o.name] >= W.ddr_engine
        }
        values = [v - W.ddr_engine if n in addresses else v for n, v in case.named.items()]
        random = execute(case.record, case.fmt, values, spm, ddr, random, write_back)
    wrong = np.flatnonzero(system.tiles[0].spm.data != np.frombuffer(spm, np.uint8))
    named = [(case.record.mnemonic, case.fmt, case.named) for case in cases]
    assert not wrong.size, f"SPM byte {int(wrong[0]):#x} is not that of the reference: {named}"
    return f"{executed} executed, as the reference"
