"""Forbidden instructions are refused with the reason: in assembly, as bytes, from registers, in the window.

Each of these hung or harmed a card, or its effect is unknown.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

import asm
from asm.diagnostics import AsmError
from chip_bench import EBREAK, build, chip, words_image
from emulator.chip.system import System
from emulator.engines import queues
from emulator.tile.fault import Fault
from tx8isa.records.record import Engine
from tx8isa.table.encoding import DecodedInstruction, decode, encoder
from tx8isa.table.packets import PACKETS
from tx8isa.table.registry import instructions
from window_programs import contents, stores

MACHINE = chip()
ILLEGAL = {Engine.CT: 1 << 8, Engine.NE: 1 << 16, Engine.TDMA: 1 << 40}
"""The bit of the exception register for an illegal instruction of each unit (spec)."""


@dataclass(frozen=True)
class Forbidden:
    """A legal instruction, its change, the same as text, and the reason in the message."""

    legal: str
    operand: str
    value: int
    text: str
    reason: str
    no_instruction: bool = False
    """An immediate of that value makes the bytes no instruction at all."""

    def values(self) -> tuple[DecodedInstruction, dict[str, int]]:
        found = decode(asm.assemble(f"_start: {self.legal}").segments[0].data)
        assert isinstance(found, DecodedInstruction)
        names = [operand.name for operand in found.instruction.operands]
        return found, {**dict(zip(names, found.values, strict=True)), self.operand: self.value}


LOOP = "dst=0, src0=0, src1=0, n=128, unit=64, full=384, full_unit=192"
LOOP_REASON = "unit must be 64 in the loop form"
JOIN = "dst=0, src0=0, src1=0, shape=[1,2,2,64], dst_shape=[1,2,2,128], dims="
REDUCE = "dst=0x1000, src0=0, shape=[1,2,8,64], dims="
OVER_N = "dims must not be n: a reduction over N times out on the chip (board)"
OVER_HW = "dims must not be hw: joining over H and W hangs the chip (board)"
SPARSE = "sparse must be 0: nobody has published the format of its index table"
IMAGE = "a=0, w=0, out=0x8000, shape=[1,8,8,16], dst_shape=[1,8,8,16], window=[3,3,1,1], pad=[1,1,1,1]"


def loop_forms() -> Iterator[Forbidden]:
    """A unit of 32 in every instruction that has a loop form: it left a card unusable."""
    for record in instructions():
        if record.mnemonic.endswith("_loop"):
            name = record.mnemonic + (f".{record.formats[0].token}" if record.formats else "")
            legal = f"{name} {LOOP}"
            yield Forbidden(legal, "unit", 32, legal.replace("unit=64", "unit=32"), LOOP_REASON)


CASES = [
    *loop_forms(),
    *(
        Forbidden(f"ct.reduce.{name}.fp16 {REDUCE}c", "dims", 3, f"ct.reduce.{name}.fp16 {REDUCE}{n}", OVER_N)
        for name in ("sum", "avg", "max", "min")
        for n in ("n", "3")
    ),
    Forbidden(f"ct.concat.fp16 {JOIN}c", "dims", 4, f"ct.concat.fp16 {JOIN}hw", OVER_HW),
    Forbidden(f"ct.concat.fp16 {JOIN}c", "dims", 3, f"ct.concat.fp16 {JOIN}n", "3 is not one of c w h", True),
    Forbidden(
        "td.memset.fp16 dst=0, value=0, n=8",
        "format",
        7,
        "td.memset.bool dst=0, value=0, n=8",
        "7 is not one of int8 int16 int32 fp16 bf16 fp32 tf32",
        True,
    ),
    Forbidden(
        "ne.gemm.fp16 a=0, b=0, out=0x1000, m=2, k=2, n=2",
        "sparse",
        1,
        "ne.gemm.fp16 a=0, b=0, out=0x1000, m=2, k=2, n=2, sparse=1",
        SPARSE,
    ),
    *(
        Forbidden(f"ne.{name}.fp16 {IMAGE}", "sparse", 1, f"ne.{name}.fp16 {IMAGE}, sparse=1", SPARSE)
        for name in ("conv", "dwconv")
    ),
]
every_case = pytest.mark.parametrize(
    "case", CASES, ids=lambda c: f"{c.text.split()[0]} {c.operand}={c.value}"
)


def outcome(system: System) -> tuple[str, int]:
    """The message and the exception register; no instruction may have been executed."""
    before = system.tiles[0].spm.data.copy()
    with pytest.raises(Fault) as fault:
        system.run()
    tile = system.tiles[0]
    assert not tile.counts[:, 0].any() and (tile.spm.data == before).all()
    return str(fault.value), int(tile.block(0)[queues.EXCEPTION])


def from_bytes(case: Forbidden, in_register: bool, on_exception: str) -> System:
    found, named = case.values()
    record = found.instruction
    values = [named[operand.name] for operand in record.operands]
    if in_register:
        values[record.index(case.operand)] = 5
    code = encoder(record).encode(values, int(in_register) << record.index(case.operand))
    code += EBREAK.to_bytes(4, "little")
    words = list(struct.unpack(f"<{len(code) // 4}I", code))
    system = System(words_image(words), MACHINE, on_exception=on_exception)
    system.tiles[0].set_register(5, case.value)
    return system


def test_there_are_loop_forms_of_every_kind() -> None:
    assert len(list(loop_forms())) > 20


@every_case
def test_assembly(case: Forbidden) -> None:
    """The legal instruction is accepted, the other one refused in one line with its place."""
    asm.assemble(case.legal)
    with pytest.raises(AsmError) as error:
        asm.assemble(case.text)
    reason = {"td.memset": "td.memset has the formats int8 int16", "ct.concat": "dims"}.get(
        case.text.split()[0].rpartition(".")[0], case.reason
    )
    assert reason in str(error.value)


@every_case
def test_bytes(case: Forbidden) -> None:
    found, _ = case.values()
    message, bits = outcome(from_bytes(case, False, "stop"))
    assert case.reason in message
    assert bits == (0 if case.no_instruction else ILLEGAL[found.instruction.engine])
    message, bits = outcome(from_bytes(case, False, "drop"))
    assert ("illegal instruction" if case.no_instruction else "ebreak") in message
    assert bits == (0 if case.no_instruction else ILLEGAL[found.instruction.engine])


@pytest.mark.parametrize("case", [c for c in CASES if c.operand in ("unit", "dims")], ids=lambda c: c.text)
def test_from_a_register(case: Forbidden) -> None:
    """Operands in the control word cannot come from a register."""
    found, _ = case.values()
    message, bits = outcome(from_bytes(case, True, "stop"))
    assert case.reason in message and bits == ILLEGAL[found.instruction.engine]
    message, bits = outcome(from_bytes(case, True, "drop"))
    assert "ebreak" in message and bits == ILLEGAL[found.instruction.engine]


@every_case
def test_window(case: Forbidden) -> None:
    found, named = case.values()
    record = found.instruction
    text = "_start: " + stores(contents(record, named), PACKETS[record.engine]) + " ebreak"
    message, bits = outcome(build(text, MACHINE))
    assert case.reason in message and bits == ILLEGAL[record.engine]
    message, bits = outcome(build(text, MACHINE, on_exception="drop"))
    assert "ebreak" in message and bits == ILLEGAL[record.engine]
