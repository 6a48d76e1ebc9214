"""The proofs can fail: each of these mistakes in a record is found, and the record without it is right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from record_proofs import (
    prove_csr,
    prove_decoding,
    prove_division,
    prove_encoding,
    prove_exclusive,
    prove_load,
    prove_manual_encoding,
    prove_meaning,
)
from riscv_manual import DIVISIONS, LOADS
from table_proofs import prove_compressed_table, prove_shortening
from tx8isa.numbers.primitives import s32, s64, u32, u64
from tx8isa.records.record import Instruction
from tx8isa.riscv.compressed import Compressed
from tx8isa.riscv.format import Encoding
from tx8isa.table import compressed
from tx8isa.table.registry import by_mnemonic, instructions
from tx8isa.table.scalar import scalar_by_mnemonic, scalar_instructions
from wide_proofs import prove_headers, prove_wide_decoding

pytestmark = pytest.mark.smt

RECORDS = scalar_by_mnemonic()
SHORT = compressed.compressed_by_mnemonic()
Body = Callable[..., Any]


def refused(proof: Callable[..., None], *arguments: Any) -> None:
    with pytest.raises(AssertionError, match="false for"):
        proof(*arguments)


# --- bodies ------------------------------------------------------------------------------------------------


def floor_div(a: int, b: int) -> int:
    return -1 if b == 0 else s64(-a) if b == -1 else a // b


def div_that_overflows(a: int, b: int) -> int:
    if b == 0:
        return -1
    quotient = a // b
    return quotient + 1 if quotient < 0 and quotient * b != a else quotient


def floor_rem(a: int, b: int) -> int:
    return a if b == 0 else 0 if b == -1 else a % b


def divw_of_64_bits(a: int, b: int) -> int:
    dividend, divisor = s32(a), s32(b)
    if divisor == 0:
        return -1
    quotient = dividend // divisor
    return quotient + 1 if quotient < 0 and quotient * divisor != dividend else quotient


BODIES: dict[str, list[tuple[str, Body]]] = {
    "sra": [("srl", RECORDS["srl"].body), ("5 bits of rs2", lambda a, b: a >> (b & 31))],
    "srai": [("srl", RECORDS["srli"].body)],
    "sraw": [("6 bits of rs2", lambda a, b: s32(a) >> (b & 63)), ("srlw", RECORDS["srlw"].body)],
    "sllw": [("unsigned result", lambda a, b: u32(u32(a) << u32(b & 31)))],
    "sltu": [("signed", RECORDS["slt"].body)],
    "sltiu": [("or equal", lambda a, b: 1 if u64(a) <= u64(b) else 0)],
    "add": [("65 bits", lambda a, b: a + b)],
    "addw": [("64 bits", RECORDS["add"].body)],
    "mulw": [("64 bits", RECORDS["mul"].body)],
    "divu": [("by 0", lambda a, b: 0 if b == 0 else s64(u64(a) // u64(b)))],
    "remuw": [("by 0", lambda a, b: u32(a) if s32(b) == 0 else s32(u32(a) % u32(b)))],
    "div": [("rounded down", floor_div), ("overflow", div_that_overflows)],
    "rem": [("rounded down", floor_rem)],
    "divw": [("overflow", divw_of_64_bits)],
    "remw": [("64 bits", RECORDS["rem"].body)],
    "lb": [("unsigned", RECORDS["lbu"].body)],
    "lhu": [("signed", RECORDS["lh"].body)],
    "sh": [("a byte", RECORDS["sb"].body)],
    "jalr": [("bit 0 stays", lambda a, imm: s64(a + imm))],
    "lui": [("unsigned", lambda pc, imm: imm << 12)],
    "bge": [("greater", lambda a, b: a > b)],
    "bltu": [("signed", RECORDS["blt"].body)],
    "csrrc": [("kept bits", lambda old, operand: old & operand)],
}
MISTAKES = [(name, what, body) for name, found in BODIES.items() for what, body in found]


@pytest.mark.parametrize(("mnemonic", "what", "body"), MISTAKES, ids=[f"{n}-{w}" for n, w, _ in MISTAKES])
def test_wrong_bodies(mnemonic: str, what: str, body: Body) -> None:
    proof: Callable[..., None] = prove_meaning
    if mnemonic in DIVISIONS:
        proof = prove_division
    elif mnemonic in LOADS:
        proof = prove_load
    elif mnemonic.startswith("csr"):
        proof = prove_csr
    refused(proof, replace(RECORDS[mnemonic], body=body))


@pytest.mark.parametrize(
    ("mnemonic", "body"),
    [
        ("slt", lambda a, b: 1 if a - b < 0 else 0),
        ("bge", lambda a, b: a - b >= 0),
        ("mulh", lambda a, b: s64((a * b) >> 64)),
    ],
)
def test_bodies_that_need_more_than_64_bits(mnemonic: str, body: Body) -> None:
    """They are right as plain Python, and wrong as compiled code."""
    record = replace(RECORDS[mnemonic], body=body)
    prove_meaning(record)
    with pytest.raises(AssertionError, match="false for"):
        prove_meaning(record, machine=True)


# --- words -------------------------------------------------------------------------------------------------


def exchanged(record: Encoding, name: str, i: int, j: int) -> Any:
    """The record with two runs of bits of a field exchanged; encoding and decoding still agree."""
    field = record.field(name)
    pieces = list(field.pieces)
    (word_i, bit_i, width), (word_j, bit_j, other) = pieces[i], pieces[j]
    assert width == other
    pieces[i], pieces[j] = (word_i, bit_j, width), (word_j, bit_i, width)
    wrong = replace(field, pieces=tuple(pieces))
    return replace(record, fields=tuple(wrong if f is field else f for f in record.fields))


@pytest.mark.parametrize(("mnemonic", "i", "j"), [("beq", 0, 3), ("jal", 0, 2)])
def test_exchanged_bits_of_an_immediate(mnemonic: str, i: int, j: int) -> None:
    record = exchanged(RECORDS[mnemonic], "target", i, j)
    refused(prove_manual_encoding, record)


def test_bits_that_a_field_takes_twice() -> None:
    addi = RECORDS["addi"]
    narrow = replace(addi.field("imm"), pieces=((20, 0, 11), (30, 11, 1)))
    wrong = replace(addi, fields=tuple(narrow if f.name == "imm" else f for f in addi.fields))
    refused(prove_decoding, wrong)
    refused(prove_encoding, wrong)


@pytest.mark.parametrize(
    ("mnemonic", "mask", "match"), [("xor", 0xFE00707F, 0x00006033), ("addi", 0x7F, 0x13)]
)
def test_two_instructions_in_one_word(mnemonic: str, mask: int, match: int) -> None:
    """xor with the code of or; addi that takes every word of its opcode."""
    wrong = replace(RECORDS[mnemonic], mask=mask, match=match)
    records = [wrong if record.mnemonic == mnemonic else record for record in scalar_instructions()]
    refused(prove_exclusive, records)
    refused(prove_manual_encoding, wrong)


def compressed_table(wrong: Compressed) -> None:
    """The proof of the table with one record replaced."""
    records = [wrong if r.mnemonic == wrong.mnemonic else r for r in compressed.compressed_instructions()]
    expansions = {r.mnemonic: compressed.expansion_of(r, r.expansion) for r in records}

    def decode(word: Any) -> Any:
        found = ((record, record.decode(word)) for record in records)
        return next((pair for pair in found if pair[1] is not None), None)

    def expand(word: Any) -> Any:
        found = decode(word)
        return found and (expansions[found[0].mnemonic].full, expansions[found[0].mnemonic].values(found[1]))

    prove_compressed_table(decode, expand)


def without_reserved(mnemonic: str) -> Compressed:
    record = SHORT[mnemonic]
    return replace(record, fields=tuple(replace(field, never=()) for field in record.fields))


@pytest.mark.parametrize(
    "wrong",
    [
        without_reserved("c.addi4spn"),
        without_reserved("c.lwsp"),
        exchanged(SHORT["c.lw"], "uimm", 1, 2),
        exchanged(SHORT["c.addi16sp"], "imm", 0, 1),
        replace(SHORT["c.srai"], expansion="srli rd, rd, shamt"),
        replace(SHORT["c.mv"], expansion="add rd, rs2, rs2"),
        replace(SHORT["c.jalr"], expansion="jalr zero, 0(rs1)"),
    ],
    ids=lambda record: record.mnemonic,
)
def test_wrong_compressed_instructions(wrong: Compressed) -> None:
    refused(compressed_table, wrong)


def test_a_short_form_that_does_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """sub is not commutative."""
    wrong = compressed.expansion_of(SHORT["c.sub"], "sub rd, rs2, rd")
    monkeypatch.setattr(compressed, "_shorter", lambda: {"sub": (wrong,)})
    refused(prove_shortening, RECORDS["sub"])


# --- engine instructions -----------------------------------------------------------------------------------


def with_operand(mnemonic: str, name: str, **changes: Any) -> Instruction:
    record = by_mnemonic()[mnemonic]
    operands = (replace(o, **changes) if o.name == name else o for o in record.operands)
    return replace(record, operands=tuple(operands))


@pytest.mark.parametrize(
    "wrong",
    [
        with_operand("ct.add.vv", "n", width=4),
        with_operand("ct.add.vv", "rnd", at=9),
        with_operand("ne.gemm", "relu", at=by_mnemonic()["ne.gemm"].operand("lrelu").at),
    ],
    ids=["a count that does not fit", "format and rounding overlap", "two flags in one bit"],
)
def test_wrong_operands(wrong: Instruction) -> None:
    refused(prove_wide_decoding, wrong)


def test_two_engine_instructions_with_one_code() -> None:
    records = list(instructions())
    records[1] = replace(records[1], opcode=records[0].opcode, engine=records[0].engine)
    with pytest.raises(AssertionError, match="one engine and opcode"):
        prove_headers(records)
