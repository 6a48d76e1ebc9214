"""A small chip for tests: build a program from words or assembly, run it, look at registers and memory."""

from __future__ import annotations

import struct
from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st

import asm
from asm.image import Image, Segment
from emulator.chip.system import System
from emulator.tile.fault import Fault
from tx8isa.machine.description import Machine, load_machine
from tx8isa.numbers.primitives import s64
from tx8isa.riscv.format import Scalar
from tx8isa.table import scalar as rv

TX81 = load_machine(None)


W = TX81.windows


CODE, DATA = W.ddr_cached, W.ddr_cached + 0x10_0000


DATA_BYTES = 0x1000


M64 = (1 << 64) - 1


def chip(tiles: int = 1, spm: int = TX81.spm.bytes) -> Machine:
    """A TX81 with fewer tiles or less SPM, which is faster to set up."""
    grid = msgspec.structs.replace(TX81.grid, x=1, y=tiles)
    return msgspec.structs.replace(TX81, grid=grid, spm=msgspec.structs.replace(TX81.spm, bytes=spm))


ONE = chip(spm=0x4000)


def build(text: str, machine: Machine = ONE, **options: Any) -> System:
    """Make a system with an assembled program."""
    return System(asm.assemble(text), machine, **options)


def final_registers(text: str, count: int = 32, **options: Any) -> list[int]:
    """x registers of tile 0, unsigned, when a program reaches its ebreak."""
    system = build(text, **options)
    with pytest.raises(Fault, match="ebreak"):
        system.run(10_000)
    return [system.tiles[0].register(number) & M64 for number in range(count)]


def words_image(words: list[int]) -> Image:
    """A program of bare instruction words, with a data segment of a known pattern."""
    text = struct.pack(f"<{len(words)}I", *words)
    data = bytes(i * 73 + 11 & 0xFF for i in range(DATA_BYTES))
    segments = Segment(".text", CODE, text, len(text), "rx"), Segment(".data", DATA, data, len(data), "rw")
    return Image(CODE, segments)


def run_words(words: list[int], registers: dict[int, int]) -> tuple[System, str]:
    """Run words; return the system and the fault that ended them. Registers not given are 0."""
    system = System(words_image(words), ONE)
    for number, value in {2: 0, **registers}.items():
        system.tiles[0].set_register(number, value)
    with pytest.raises(Fault) as fault:
        system.run(100_000)
    return system, str(fault.value)


def word(mnemonic: str, **values: int) -> int:
    return rv.scalar_by_mnemonic()[mnemonic].encode(values)


EBREAK = word("ebreak")


class Reference:
    """An interpreter of one hart over a dictionary of bytes, from the records and the memory map alone."""

    def __init__(self, words: list[int], registers: dict[int, int]) -> None:
        self.words, self.pc = words, CODE
        self.x = [registers.get(i, 0) for i in range(32)]
        self.x[0] = 0
        self.f = [0] * 32
        self.memory: dict[tuple[str, int], int] = {}
        data = words_image(words).segments[1].data
        self.memory.update({("ddr", DATA - CODE + i): byte for i, byte in enumerate(data)})

    def place(self, address: int) -> tuple[str, int]:
        for base, space, size in (
            (W.spm_weak, "spm", ONE.spm.bytes),
            (W.spm_strong, "spm", ONE.spm.bytes),
            (W.ddr_cached, "ddr", W.ddr_core_bytes),
            (W.ddr_uncached, "ddr", W.ddr_core_bytes),
        ):
            if base <= address < base + size:
                return space, address - base
        raise AssertionError(f"a test program left the memory: {address:#x}")

    def run(self, steps: int = 10_000) -> None:
        for _ in range(steps):
            record, values = rv.decode(self.words[(self.pc - CODE) // 4]) or (None, {})
            assert record is not None
            if record.mnemonic == "ebreak":
                return
            self.step(record, values)
        raise AssertionError("a test program did not end")

    def step(self, record: Scalar, v: dict[str, int]) -> None:
        following, result = self.pc + 4, None
        a = self.x[v["rs1"]] if "rs1" in v else 0
        floats = {field.name for field in record.fields if field.kind == "float"}
        b = self.x[v["rs2"]] if "rs2" in v else v.get("imm", v.get("shamt", 0))
        if "rs2" in floats:
            b = self.f[v["rs2"]]
        if record.kind in ("alu", "divide"):
            result = record.body(a, b)
        elif record.kind == "upper":
            result = record.body(self.pc, v["imm"])
        elif record.kind in ("load", "store"):
            places = [self.place((a + v["imm"] + i) & M64) for i in range(record.width)]
            if record.kind == "load":
                unwritten = {"spm": ONE.spm.reset_byte, "ddr": 0}
                raw = sum(self.memory.get(p, unwritten[p[0]]) << 8 * i for i, p in enumerate(places))
                result = record.body(raw)
            else:
                value = record.body(b)
                self.memory.update({p: value >> 8 * i & 0xFF for i, p in enumerate(places)})
        elif record.kind == "branch":
            following = self.pc + v["target"] if record.body(a, b) else following
        elif record.kind in ("jal", "jalr"):
            result = following
            following = (
                record.body(self.pc, v["target"]) if record.kind == "jal" else record.body(a, v["imm"])
            )
        else:
            assert record.kind in IDLE_KINDS
        if result is not None and "rd" in floats:
            self.f[v["rd"]] = s64(result)
        elif result is not None and v["rd"] != 0:
            self.x[v["rd"]] = s64(result)
        self.pc = following


POINTERS = {
    8: DATA + 0x100,
    9: W.spm_weak + 0x200,
    18: W.spm_strong + 0x1F8,
    19: W.ddr_uncached + DATA - CODE + 0x108,
}


COUNTER = 31


IDLE_KINDS = ("fence", "cache", "cache line", "wait")
"""Kinds of instructions that change no register and no memory."""


TARGETS = [n for n in range(32) if n not in (*POINTERS, COUNTER, 2)]


EDGES = (0, 1, -1, 2, 31, 32, 63, 64, (1 << 31) - 1, -(1 << 31), 1 << 31, 1 << 32, (1 << 63) - 1, -(1 << 63))


@st.composite
def instruction(
    draw: st.DrawFn, kinds: tuple[str, ...] = ("alu", "divide", "upper", "load", "store", *IDLE_KINDS)
) -> int:
    """An instruction word whose memory operands stay inside the memories and which changes no pointer."""
    record = draw(st.sampled_from([r for r in rv.scalar_instructions() if r.kind in kinds]))
    values = {}
    for field in record.fields:
        if field.name == "rd":
            values["rd"] = draw(st.sampled_from(TARGETS))
        elif field.name == "rs1" and record.kind in ("load", "store"):
            values["rs1"] = draw(st.sampled_from(list(POINTERS)))
        elif field.name == "imm" and record.kind in ("load", "store"):
            values["imm"] = draw(st.integers(-64, 64))
        elif field.kind == "register":
            values[field.name] = draw(st.integers(0, 31))
        else:
            values[field.name] = draw(st.integers(field.minimum, field.maximum))
    return record.encode(values)


@st.composite
def block(draw: st.DrawFn) -> list[int]:
    """Straight-line code with forward branches, perhaps as a loop body."""
    words = draw(st.lists(instruction(), min_size=1, max_size=12))
    for at in draw(st.lists(st.integers(0, len(words) - 1), max_size=3, unique=True)):
        branch = draw(st.sampled_from([r for r in rv.scalar_instructions() if r.kind == "branch"]))
        values = {"rs1": draw(st.integers(0, 31)), "rs2": draw(st.integers(0, 31))}
        words[at] = branch.encode({**values, "target": 4 * draw(st.integers(1, len(words) - at))})
    turns = draw(st.integers(0, 3))
    if turns:
        down = word("addi", rd=COUNTER, rs1=COUNTER, imm=-1)
        back = word("bne", rs1=COUNTER, rs2=0, target=-4 * (len(words) + 1))
        words = [word("addi", rd=COUNTER, rs1=0, imm=turns), *words, down, back]
    return words


def registers() -> st.SearchStrategy[dict[int, int]]:
    value = st.one_of(st.sampled_from(EDGES), st.integers(-(1 << 63), (1 << 63) - 1))
    return st.lists(value, min_size=31, max_size=31).map(
        lambda values: {n: POINTERS.get(n, v) for n, v in enumerate(values, 1)}
    )
