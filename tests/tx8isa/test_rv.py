"""The scalar instruction table: encodings against GNU binutils, meanings against exact arithmetic."""

from __future__ import annotations

import operator
import os
import random
import shutil
import struct
import subprocess
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import trunc
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import given
from hypothesis import strategies as st

from tx8isa.errors import Tx8Error
from tx8isa.riscv.format import SEGMENTS, EncodingError, Field, Scalar, TableError, scalar
from tx8isa.riscv.registers import (
    CSR_NAMES,
    CSRS,
    FLOAT_REGISTER_NAMES,
    FLOAT_REGISTERS,
    REGISTER_NAMES,
    REGISTERS,
    ROUNDING_MODES,
)
from tx8isa.table.scalar import decode, prove, scalar_by_mnemonic, scalar_instructions

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
    run(gnu("as"), "-march=rv64imfd_zicsr_zifencei", "-mno-relax", "-o", target, source)
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
    file = tmp_path / "words.bin"
    file.write_bytes(b"".join(struct.pack("<I", record.encode(values)) for record, values in cases))
    text = run(gnu("objdump"), "-b", "binary", "-m", "riscv:rv64", "-M", "no-aliases", "-D", file)
    names = [line.split("\t")[2].strip() for line in text.splitlines() if line.count("\t") >= 2]
    assert names == [record.mnemonic for record, _ in cases]


def test_register_and_csr_names_are_those_of_gnu_as(tmp_path: Path) -> None:
    lines = [f"addi {name}, zero, 0" for name in REGISTERS] + [f"csrrs a0, {name}, zero" for name in CSRS]
    lines += [f"fld {name}, 0(zero)" for name in FLOAT_REGISTERS]
    decoded = [decode(word) for word in gnu_words(lines, tmp_path)]
    values = [found[1] for found in decoded if found is not None]
    assert len(values) == len(lines)
    numbers, rest = values[: len(REGISTERS)], values[len(REGISTERS) :]
    assert [v["rd"] for v in numbers] == list(REGISTERS.values())
    assert [v["csr"] for v in rest[: len(CSRS)]] == list(CSRS.values())
    assert [v["rd"] for v in rest[len(CSRS) :]] == list(FLOAT_REGISTERS.values())


def test_register_names_are_complete() -> None:
    assert len(set(REGISTER_NAMES)) == 32
    assert [REGISTERS[name] for name in REGISTER_NAMES] == list(range(32))
    assert [FLOAT_REGISTERS[name] for name in FLOAT_REGISTER_NAMES] == list(range(32))
    assert len(FLOAT_REGISTERS) == 64 and not set(FLOAT_REGISTERS) & set(REGISTERS)
    assert REGISTERS["fp"] == REGISTERS["s0"] == REGISTERS["x8"]
    assert "x32" not in REGISTERS
    assert {CSRS[name]: name for name in CSRS} == CSR_NAMES
    assert len(CSR_NAMES) == len(CSRS)


# --- meaning -----------------------------------------------------------------------------------------------


def wrap(value: int, bits: int = 64) -> int:
    """The number congruent to ``value`` modulo 2**bits that a signed word of ``bits`` bits holds."""
    half = 2 ** (bits - 1)
    return (value + half) % 2**bits - half


def unsigned(value: int, bits: int = 64) -> int:
    return value % 2**bits


def quotient(a: int, b: int, bits: int) -> int:
    return wrap(trunc(Fraction(a, b)), bits) if b else -1


def remainder(a: int, b: int) -> int:
    return a - b * trunc(Fraction(a, b)) if b else a


def low(operation: Callable[[int, int], int]) -> Callable[[int, int], int]:
    """The W form: both operands and the result are the low 32 bits, signed."""
    return lambda a, b: wrap(operation(wrap(a, 32), wrap(b, 32)), 32)


def low_unsigned(operation: Callable[[int, int], int]) -> Callable[[int, int], int]:
    return lambda a, b: wrap(operation(unsigned(a, 32), unsigned(b, 32)), 32)


ALU: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: wrap(a + b),
    "sub": lambda a, b: wrap(a - b),
    "sll": lambda a, b: wrap(a * 2 ** (b % 64)),
    "slt": lambda a, b: int(a < b),
    "sltu": lambda a, b: int(unsigned(a) < unsigned(b)),
    "xor": operator.xor,
    "srl": lambda a, b: wrap(unsigned(a) // 2 ** (b % 64)),
    "sra": lambda a, b: a // 2 ** (b % 64),
    "or": operator.or_,
    "and": operator.and_,
    "addw": low(operator.add),
    "subw": low(operator.sub),
    "sllw": low(lambda a, b: a * 2 ** (b % 32)),
    "srlw": low_unsigned(lambda a, b: a // 2 ** (b % 32)),
    "sraw": low(lambda a, b: a // 2 ** (b % 32)),
    "mul": lambda a, b: wrap(a * b),
    "mulh": lambda a, b: a * b // 2**64,
    "mulhsu": lambda a, b: a * unsigned(b) // 2**64,
    "mulhu": lambda a, b: wrap(unsigned(a) * unsigned(b) // 2**64),
    "div": lambda a, b: quotient(a, b, 64),
    "divu": lambda a, b: wrap(quotient(unsigned(a), unsigned(b), 65)),
    "rem": remainder,
    "remu": lambda a, b: wrap(remainder(unsigned(a), unsigned(b))),
    "mulw": low(operator.mul),
    "divw": low(lambda a, b: quotient(a, b, 32)),
    "divuw": low_unsigned(lambda a, b: quotient(a, b, 33)),
    "remw": low(remainder),
    "remuw": low_unsigned(remainder),
}
IMMEDIATE_FORMS = {
    **{f"{name}i": name for name in ("add", "slt", "xor", "sll", "srl", "sra", "or", "and")},
    "sltiu": "sltu",
    **{f"{name}iw": f"{name}w" for name in ("add", "sll", "srl", "sra")},
}
ORACLES = {**ALU, **{form: ALU[name] for form, name in IMMEDIATE_FORMS.items()}}
BRANCHES: dict[str, Callable[[int, int], bool]] = {
    "beq": operator.eq,
    "bne": operator.ne,
    "blt": operator.lt,
    "bge": operator.ge,
    "bltu": lambda a, b: unsigned(a) < unsigned(b),
    "bgeu": lambda a, b: unsigned(a) >= unsigned(b),
}
LOADS = {"lb": (1, True), "lh": (2, True), "lw": (4, True), "ld": (8, True)}
LOADS |= {"lbu": (1, False), "lhu": (2, False), "lwu": (4, False)}
STORES = {"sb": 1, "sh": 2, "sw": 4, "sd": 8}

EDGES = sorted(
    {
        wrap(sign * 2**power + delta)
        for power in (0, 5, 6, 31, 32, 63)
        for sign in (1, -1)
        for delta in (-1, 0, 1)
    }
)
words = st.one_of(st.sampled_from(EDGES), st.integers(-(2**63), 2**63 - 1), st.integers(-70, 70))


def mnemonics(kind: str) -> set[str]:
    return {record.mnemonic for record in RECORDS if record.kind == kind}


def test_every_body_has_an_oracle() -> None:
    assert mnemonics("alu") == set(ORACLES)
    assert mnemonics("branch") == set(BRANCHES)
    assert mnemonics("load") == {*LOADS, "flw", "fld"}  # the float ones: test_rv_float
    assert mnemonics("store") == {*STORES, "fsw", "fsd"}
    assert mnemonics("upper") == {"lui", "auipc"}
    assert mnemonics("jal") | mnemonics("jalr") == {"jal", "jalr"}
    assert mnemonics("csr") == {"csrrw", "csrrs", "csrrc", "csrrwi", "csrrsi", "csrrci"}
    assert mnemonics("fence") == {"fence", "fence.tso", "wfi"}
    assert mnemonics("fence.i") == {"fence.i"}
    assert mnemonics("system") == {"ecall", "ebreak", "mret"}
    assert len(mnemonics("float")) == 26 + 28 + 4  # without loads and stores; the manual's tables for RV64


def second_operands(record: Scalar) -> list[int]:
    """Edge values of what the body receives as b: any register, or what the immediate can be."""
    immediates = [field for field in record.fields if field.kind in ("signed", "unsigned")]
    if not immediates:
        return EDGES
    return [edge for edge in EDGES if immediates[0].problem(edge) is None] + [immediates[0].maximum]


@pytest.mark.parametrize("mnemonic", ORACLES)
def test_alu_edges(mnemonic: str) -> None:
    record = BY_MNEMONIC[mnemonic]
    for a, b in product(EDGES, second_operands(record)):
        assert record.body(a, b) == ORACLES[mnemonic](a, b), (a, b)


@given(st.sampled_from(sorted(ALU)), words, words)
def test_alu_random(mnemonic: str, a: int, b: int) -> None:
    result = BY_MNEMONIC[mnemonic].body(a, b)
    assert result == ORACLES[mnemonic](a, b)
    assert -(2**63) <= result < 2**63


@given(st.sampled_from(sorted(BRANCHES)), words, words)
def test_branches(mnemonic: str, a: int, b: int) -> None:
    for left, right in ((a, b), (a, a), (b, a)):
        assert bool(BY_MNEMONIC[mnemonic].body(left, right)) == BRANCHES[mnemonic](left, right)


@given(st.binary(min_size=8, max_size=8))
def test_loads_and_stores(data: bytes) -> None:
    for mnemonic, (width, signed) in LOADS.items():
        record = BY_MNEMONIC[mnemonic]
        assert (record.width, record.signed) == (width, signed or width == 8)
        raw = int.from_bytes(data[:width], "little")
        assert record.body(raw) == int.from_bytes(data[:width], "little", signed=signed)
    value = int.from_bytes(data, "little", signed=True)
    for mnemonic, width in STORES.items():
        record = BY_MNEMONIC[mnemonic]
        assert (record.width, record.signed) == (width, False)
        assert record.body(value).to_bytes(width, "little") == data[:width]


@given(words, st.integers(0, 2**20 - 1))
def test_upper_immediates(pc: int, imm: int) -> None:
    upper = int.from_bytes(struct.pack("<I", imm * 4096), "little", signed=True)
    assert BY_MNEMONIC["lui"].body(pc, imm) == upper
    assert BY_MNEMONIC["auipc"].body(pc, imm) == wrap(pc + upper)


@given(words, st.integers(-2048, 2047), st.integers(-(2**19), 2**19 - 1))
def test_jumps(base: int, imm: int, half: int) -> None:
    assert BY_MNEMONIC["jal"].body(base, 2 * half) == wrap(base + 2 * half)
    assert BY_MNEMONIC["jalr"].body(base, imm) == wrap((base + imm) // 2 * 2)


@given(words, words, st.integers(0, 31))
def test_csr_instructions(old: int, value: int, zimm: int) -> None:
    for suffix, operand in (("", value), ("i", zimm)):
        assert BY_MNEMONIC[f"csrrw{suffix}"].body(old, operand) == operand
        kept = unsigned(old) - (unsigned(old) & unsigned(operand))
        assert unsigned(BY_MNEMONIC[f"csrrs{suffix}"].body(old, operand)) == kept + unsigned(operand)
        assert unsigned(BY_MNEMONIC[f"csrrc{suffix}"].body(old, operand)) == kept


@pytest.mark.parametrize(
    ("mnemonic", "source", "writes"),
    [
        ("csrrw", 0, True),
        ("csrrw", 5, True),
        ("csrrs", 0, False),
        ("csrrs", 5, True),
        ("csrrc", 0, False),
        ("csrrc", 5, True),
        ("csrrwi", 0, True),
        ("csrrsi", 0, False),
        ("csrrsi", 1, True),
        ("csrrci", 0, False),
        ("csrrci", 1, True),
    ],
)
def test_which_csr_instructions_write(mnemonic: str, source: int, writes: bool) -> None:
    name = "zimm" if mnemonic.endswith("i") else "rs1"
    assert BY_MNEMONIC[mnemonic].writes_csr({"rd": 0, "csr": 0x340, name: source}) is writes


def test_only_csr_instructions_write_a_csr() -> None:
    assert not BY_MNEMONIC["add"].writes_csr({"rd": 1, "rs1": 1, "rs2": 1})


# --- what is refused ---------------------------------------------------------------------------------------

FIELDS = [(record, field) for record in RECORDS for field in record.fields]


@pytest.mark.parametrize(("record", "field"), FIELDS, ids=lambda x: getattr(x, "mnemonic", None) or x.name)
def test_values_outside_a_field_are_refused(record: Scalar, field: Field) -> None:
    legal = {f.name: f.minimum for f in record.fields}
    limits = f"{field.minimum}..{field.maximum}"
    for value in (field.minimum - field.unit, field.maximum + field.unit, 2**64):
        with pytest.raises(EncodingError) as refused:
            record.encode({**legal, field.name: value})
        assert str(refused.value) == f"{record.mnemonic}: {field.name} = {value} is outside {limits}"
    assert record.encode({**legal, field.name: field.maximum}) & ~record.mask


@pytest.mark.parametrize("mode", [5, 6])
def test_reserved_rounding_modes_are_refused(mode: int) -> None:
    with pytest.raises(EncodingError, match=f"fadd.d: rm = {mode} is reserved"):
        BY_MNEMONIC["fadd.d"].encode({"rd": 1, "rs1": 2, "rs2": 3, "rm": mode})


def test_field_limits_are_those_of_the_manual() -> None:
    limits = {(f.kind, f.minimum, f.maximum, f.unit) for _, f in FIELDS}
    assert limits == {
        ("register", 0, 31, 1),
        ("float", 0, 31, 1),
        ("rounding", 0, 7, 1),
        ("signed", -2048, 2047, 1),
        ("target", -4096, 4094, 2),
        ("target", -1048576, 1048574, 2),
        ("unsigned", 0, 2**20 - 1, 1),
        ("unsigned", 0, 63, 1),
        ("unsigned", 0, 31, 1),
        ("csr", 0, 4095, 1),
        ("order", 0, 15, 1),
    }


@pytest.mark.parametrize(
    ("mnemonic", "values", "message"),
    [
        ("jal", {"rd": 1, "target": 3}, "jal: target = 3 is not a multiple of 2"),
        ("beq", {"rs1": 0, "rs2": 0, "target": -1}, "beq: target = -1 is not a multiple of 2"),
        ("add", {"rd": 1, "rs1": 2}, "add: rs2 is missing; it takes rd, rs1, rs2"),
        ("lw", {"rd": 1, "rs1": 2}, "lw: imm is missing; it takes rd, imm(rs1)"),
        ("lui", {"rd": 1, "imm": 0, "rs1": 0}, "lui: unknown field rs1; it takes rd, imm"),
        ("ecall", {"rd": 1}, "ecall: unknown field rd; it takes no operand"),
    ],
)
def test_wrong_operands_are_refused(mnemonic: str, values: dict[str, int], message: str) -> None:
    with pytest.raises(Tx8Error) as refused:
        BY_MNEMONIC[mnemonic].encode(values)
    assert str(refused.value) == message


def test_a_field_the_encoding_has_not() -> None:
    assert BY_MNEMONIC["add"].field("rs2").maximum == 31
    with pytest.raises(KeyError):
        BY_MNEMONIC["add"].field("imm")


def body(a: int, b: int) -> int:
    """Sum."""
    return a + b


def undocumented(a: int, b: int) -> int:
    return a + b


def make(syntax: str, pattern: str, **settings: object) -> Scalar:
    settings = {"example": syntax, **settings}
    return scalar(syntax, pattern, **settings)(body)  # type: ignore[arg-type]


GOOD = make("one rd, rs1, rs2", "0000000 rs2 rs1 000 rd 0110011")


def test_prove_accepts_disjoint_records() -> None:
    prove([GOOD, make("two rd, rs1, rs2", "0000001 rs2 rs1 000 rd 0110011")])
    prove(RECORDS)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("000000 rs2 rs1 000 rd 0110011", "has 31 bits, not 32"),
        ("00000000 rs2 rs1 000 rd 0110011", "has 33 bits, not 32"),
        ("", "has 0 bits, not 32"),
        ("0" * 40 + " rd", "has 45 bits, not 32"),
        ("0000000 rs9 rs1 000 rd 0110011", "'rs9' is neither bits nor one of rd rs1"),
        ("0000002 rs2 rs1 000 rd 0110011", "'0000002' is neither bits nor one of"),
        ("0000000 rs2 rs2 000 rd 0110011", "of rs2: twice or with a gap"),
        ("imm_b_hi rs2 rs1 000 imm_b_hi 00110", "of target: twice or with a gap"),
        ("imm_b_hi rs2 rs1 000 rd 1100011", "of target: twice or with a gap"),
    ],
)
def test_patterns_that_are_no_encoding(pattern: str, message: str) -> None:
    with pytest.raises(TableError) as refused:
        make("one rd, rs1, rs2", pattern)
    assert str(refused.value).startswith("one: ")
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (replace(GOOD, doc="  "), "one: the docstring is missing"),
        (
            replace(GOOD, example="two a0, a1, a2"),
            "one: the example 'two a0, a1, a2' is not of this instruction",
        ),
        (replace(GOOD, example=""), "one: the example '' is not of this instruction"),
        (replace(GOOD, syntax="rd, rs1"), "one: the syntax 'rd, rs1' does not name the fields of"),
        (replace(GOOD, syntax="rd, rs1, rs1"), "one: the syntax 'rd, rs1, rs1' does not name the fields of"),
        (replace(GOOD, syntax=""), "one: the syntax '' does not name the fields of"),
        (replace(GOOD, fields=GOOD.fields[:2]), "one: the bits 0x00000f80 belong to no field"),
        (replace(GOOD, mask=GOOD.mask | 1 << 7), "one: field rd overlaps the bits 0x00000080"),
        (replace(GOOD, match=GOOD.match | 1 << 7), "one: match sets the bits 0x00000080 outside its mask"),
        (replace(GOOD, kind="load"), "one: kind load cannot move 0 bytes"),
        (replace(GOOD, kind="store", width=3), "one: kind store cannot move 3 bytes"),
        (replace(GOOD, width=4), "one: kind alu cannot move 4 bytes"),
    ],
)
def test_prove_refuses_a_broken_record(record: Scalar, message: str) -> None:
    with pytest.raises(TableError) as refused:
        prove([record])
    assert message in str(refused.value)


def test_prove_refuses_a_body_without_docstring() -> None:
    record = scalar(f"one {GOOD.syntax}", GOOD.pattern, example="one a0, a1, a2")(undocumented)
    with pytest.raises(TableError, match="one: the docstring is missing"):
        prove([record])


@pytest.mark.parametrize(
    ("other", "word"),
    [
        (make("two rd, rs1, rs2", GOOD.pattern), 0x00000033),
        (make("two rd, imm(rs1)", "imm_i rs1 000 rd 0110011"), 0x00000033),
        (make("two rd", "0000000 00001 00010 000 rd 0110011"), 0x00110033),
    ],
)
def test_prove_names_both_records_of_an_overlap(other: Scalar, word: int) -> None:
    for table, names in (([GOOD, other], "one and two"), ([other, GOOD], "two and one")):
        with pytest.raises(TableError) as refused:
            prove(table)
        assert str(refused.value) == f"{names} both match the word {word:#010x}"


def test_prove_refuses_one_name_for_two_records() -> None:
    other = make("one rd", "1111111 00000 00000 000 rd 0110011")
    with pytest.raises(TableError, match="two records are called one"):
        prove([GOOD, other])


def test_every_segment_is_used() -> None:
    used = {token for record in RECORDS for token in record.pattern.split()}
    assert set(SEGMENTS) <= used
