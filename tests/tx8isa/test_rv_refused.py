"""Operands that fit no field, and records of scalar instructions that are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tx8isa.errors import Tx8Error
from tx8isa.riscv.format import SEGMENTS, EncodingError, Field, Scalar, TableError, scalar
from tx8isa.table.scalar import prove, scalar_by_mnemonic, scalar_instructions

RECORDS = scalar_instructions()
BY_MNEMONIC = scalar_by_mnemonic()


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
