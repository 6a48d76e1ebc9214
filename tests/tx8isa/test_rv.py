"""The scalar instruction table: encodings against GNU binutils, meanings against exact arithmetic."""

from __future__ import annotations

import os
import random
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import given
from hypothesis import strategies as st

from tx8isa.riscv.format import Field, Scalar
from tx8isa.riscv.registers import (
    CSR_NAMES,
    CSRS,
    FLOAT_REGISTER_NAMES,
    FLOAT_REGISTERS,
    REGISTER_NAMES,
    REGISTERS,
    ROUNDING_MODES,
    VENDOR_CSRS,
)
from tx8isa.table.scalar import decode, scalar_by_mnemonic, scalar_instructions

RECORDS = scalar_instructions()
BY_MNEMONIC = scalar_by_mnemonic()
each_record = pytest.mark.parametrize("record", RECORDS, ids=lambda r: r.mnemonic)


def gnu(tool: str) -> str:
    """Path of a GNU RISC-V tool; skips without it, fails in CI."""
    path = shutil.which(f"riscv64-unknown-elf-{tool}")
    if path is None:
        reason = f"riscv64-unknown-elf-{tool} is not installed"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return path


def run(*command: str | Path) -> str:
    """Standard output of a tool that must succeed silently."""
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


# --- encode and decode -------------------------------------------------------------------------------------


def field_values(field: Field) -> st.SearchStrategy[int]:
    if field.kind == "rounding":
        return st.sampled_from(list(ROUNDING_MODES.values()))
    steps = (field.maximum - field.minimum) // field.unit
    return st.integers(0, steps).map(lambda step: field.minimum + step * field.unit)


@st.composite
def instructions(draw: st.DrawFn) -> tuple[Scalar, dict[str, int]]:
    record = draw(st.sampled_from(RECORDS))
    return record, {field.name: draw(field_values(field)) for field in record.fields}


@given(instructions())
def test_decode_inverts_encode(instruction: tuple[Scalar, dict[str, int]]) -> None:
    record, values = instruction
    word = record.encode(values)
    assert 0 <= word < 1 << 32
    assert decode(word) == (record, values)
    assert [other for other in RECORDS if other.decode(word) is not None] == [record]


@given(st.integers(0, 2**32 - 1), st.sampled_from(RECORDS))
def test_encode_inverts_decode(noise: int, record: Scalar) -> None:
    word = noise & ~record.mask | record.match
    if "rm" in record.operands and word >> 12 & 7 in (5, 6):
        assert decode(word) is None
        return
    found = decode(word)
    assert found is not None
    assert found[0] is record
    assert record.encode(found[1]) == word


@given(st.integers(0, 2**32 - 1))
def test_indexed_decode_equals_a_linear_search(word: int) -> None:
    matching = [record for record in RECORDS if word & record.mask == record.match]
    if matching and "rm" in matching[0].operands and word >> 12 & 7 in (5, 6):
        matching = []
    assert decode(word) == ((matching[0], matching[0].decode(word)) if matching else None)


@pytest.mark.parametrize(
    "word",
    [
        0x00000000,
        0xFFFFFFFF,
        0x0000707F,  # header of a wide engine instruction
        0x00000001,  # compressed
        0x02000013 | 1 << 12 | 1 << 26,  # slli with a bit above its shift amount
        0x0200101B,  # slliw by 32
        0x00002063,  # branch with funct3 2
        0x00008067 | 1 << 12,  # jalr with funct3 1
        0x00100073 | 1 << 7,  # ebreak with rd
        0x10200073,  # sret: there is no supervisor mode
        0x00C5D553,  # fadd.s with the reserved rounding mode 5
        0x02C5E553,  # fadd.d with 6
        0x06C5F553,  # fadd.q
        0x0FF0000F | 2 << 12,  # fence with funct3 2
    ],
)
def test_words_that_are_no_instruction(word: int) -> None:
    assert decode(word) is None


@each_record
def test_a_longer_number_is_not_a_word(record: Scalar) -> None:
    assert record.decode(record.match) is not None
    assert decode(record.match | 1 << 32) is None
    assert decode(record.match - (1 << 32)) is None


# --- GNU binutils ------------------------------------------------------------------------------------------


def operand_text(field: Field, value: int) -> str:
    if field.kind == "register":
        return REGISTER_NAMES[value]
    if field.kind == "float":
        return FLOAT_REGISTER_NAMES[value]
    if field.kind == "rounding":
        return next(name for name, code in ROUNDING_MODES.items() if code == value)
    if field.kind == "target":
        return f".+({value})"
    if field.kind == "order":
        return "".join(letter for bit, letter in zip((8, 4, 2, 1), "iorw", strict=True) if value & bit)
    return str(value)


def assembly(record: Scalar, values: dict[str, int]) -> str:
    texts = {field.name: operand_text(field, values[field.name]) for field in record.fields}
    # GNU as has no operand for the mode of a conversion that is always exact.
    written = [op for op in record.operands if op != "rm" or record.rounding == 7]
    operands = [texts[op] if op in texts else f"{texts['imm']}({texts['rs1']})" for op in written]
    return f"{record.mnemonic} {', '.join(operands)}".rstrip()


def sample(record: Scalar, source: random.Random) -> list[dict[str, int]]:
    """The corners of every field together, then random values."""
    corners = [{f.name: f.minimum for f in record.fields}, {f.name: f.maximum for f in record.fields}]
    others = [
        {f.name: source.randrange(f.minimum, f.maximum + 1, f.unit) for f in record.fields} for _ in range(40)
    ]
    sets = corners + others if record.fields else [{}]
    modes = ROUNDING_MODES.values() if record.rounding == 7 else (0,)
    sets = [values for values in sets if values.get("rm", 0) in modes]
    # GNU as has no spelling for an empty set of accesses.
    return [values for values in sets if values.get("pred", 1) and values.get("succ", 1)]


def gnu_words(lines: list[str], folder: Path) -> list[int]:
    source, target = folder / "test.s", folder / "test.o"
    source.write_text(".option norelax\n" + "\n".join(lines) + "\n")
    run(gnu("as"), "-march=rv64imfd_zicsr_zifencei_xtheadcmo_xtheadsync", "-mno-relax", "-o", target, source)
    with target.open("rb") as file:
        text = ELFFile(file).get_section_by_name(".text").data()
    return list(struct.unpack(f"<{len(text) // 4}I", text))


def test_words_equal_those_of_gnu_as(tmp_path: Path) -> None:
    source = random.Random(8)
    cases = [(record, values) for record in RECORDS for values in sample(record, source)]
    expected = gnu_words([assembly(*case) for case in cases], tmp_path)
    assert len(expected) == len(cases)
    wrong = [
        f"{assembly(record, values)}: {record.encode(values):#010x} instead of {word:#010x}"
        for (record, values), word in zip(cases, expected, strict=True)
        if record.encode(values) != word
    ]
    assert wrong == []


def test_examples_assemble_to_themselves(tmp_path: Path) -> None:
    words = gnu_words([record.example for record in RECORDS], tmp_path)
    decoded = [decode(word) for word in words]
    assert [found and found[0].mnemonic for found in decoded] == [record.mnemonic for record in RECORDS]


def test_objdump_names_the_same_instruction(tmp_path: Path) -> None:
    source = random.Random(81)
    cases = [(record, values) for record in RECORDS for values in sample(record, source)[:8]]
    gnu_words([f".insn {record.encode(values):#010x}" for record, values in cases], tmp_path)
    text = run(gnu("objdump"), "-M", "no-aliases", "-d", tmp_path / "test.o")
    names = [line.split("\t")[2].strip() for line in text.splitlines() if line.count("\t") >= 2]
    assert names == [record.mnemonic for record, _ in cases]


STANDARD = [name for name in CSRS if name not in VENDOR_CSRS]


def test_register_and_csr_names_are_those_of_gnu_as(tmp_path: Path) -> None:
    lines = [f"addi {name}, zero, 0" for name in REGISTERS] + [f"csrrs a0, {name}, zero" for name in STANDARD]
    lines += [f"fld {name}, 0(zero)" for name in FLOAT_REGISTERS]
    decoded = [decode(word) for word in gnu_words(lines, tmp_path)]
    values = [found[1] for found in decoded if found is not None]
    assert len(values) == len(lines)
    numbers, rest = values[: len(REGISTERS)], values[len(REGISTERS) :]
    assert [v["rd"] for v in numbers] == list(REGISTERS.values())
    assert [v["csr"] for v in rest[: len(STANDARD)]] == [CSRS[name] for name in STANDARD]
    assert [v["rd"] for v in rest[len(STANDARD) :]] == list(FLOAT_REGISTERS.values())


def test_register_names_are_complete() -> None:
    assert len(set(REGISTER_NAMES)) == 32
    assert [REGISTERS[name] for name in REGISTER_NAMES] == list(range(32))
    assert [FLOAT_REGISTERS[name] for name in FLOAT_REGISTER_NAMES] == list(range(32))
    assert len(FLOAT_REGISTERS) == 64 and not set(FLOAT_REGISTERS) & set(REGISTERS)
    assert REGISTERS["fp"] == REGISTERS["s0"] == REGISTERS["x8"]
    assert "x32" not in REGISTERS
    assert {CSRS[name]: name for name in CSRS} == CSR_NAMES
    assert len(CSR_NAMES) == len(CSRS)
