"""The results of scalar instructions' bodies, against arithmetic with integers."""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from math import trunc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tx8isa.riscv.format import Scalar
from tx8isa.table.scalar import scalar_by_mnemonic, scalar_instructions

RECORDS = scalar_instructions()
BY_MNEMONIC = scalar_by_mnemonic()


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
    assert mnemonics("alu") | mnemonics("divide") == set(ORACLES)
    assert mnemonics("branch") == set(BRANCHES)
    assert mnemonics("load") == {*LOADS, "flw", "fld"}  # the float ones: test_rv_float
    assert mnemonics("store") == {*STORES, "fsw", "fsd"}
    assert mnemonics("upper") == {"lui", "auipc"}
    assert mnemonics("jal") | mnemonics("jalr") == {"jal", "jalr"}
    assert mnemonics("csr") == {"csrrw", "csrrs", "csrrc", "csrrwi", "csrrsi", "csrrci"}
    assert mnemonics("fence") == {"fence", "fence.tso", "th.sync", "th.sync.s"}
    assert mnemonics("wait") == {"wfi"}
    assert mnemonics("cache") == {f"th.dcache.{what}all" for what in ("c", "i", "ci")}
    assert mnemonics("cache line") == {f"th.dcache.{what}va" for what in ("c", "i", "ci")}
    assert mnemonics("fence.i") == {"fence.i"}
    assert mnemonics("system") == {"ecall", "ebreak", "mret"}
    assert len(mnemonics("float")) == 26 + 28 + 4  # without loads and stores; the manual's tables for RV64


@pytest.mark.parametrize("mnemonic", sorted(mnemonics("cache") | mnemonics("cache line")))
def test_maintenance_is_what_its_name_says(mnemonic: str) -> None:
    """The extension names instructions by c for clean and i for invalidate, then the address or all."""
    record = BY_MNEMONIC[mnemonic]
    letters = record.mnemonic.rpartition(".")[2].removesuffix("va").removesuffix("all")
    assert record.body() == ("c" in letters, "i" in letters)


def second_operands(record: Scalar) -> list[int]:
    """Edge values of the body's operand b: any register, or the immediate's range."""
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
