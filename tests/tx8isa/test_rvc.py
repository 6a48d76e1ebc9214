"""The records of the compressed instructions: every 16 bits, the expansions, and tables that are refused."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tx8isa.errors import Tx8Error
from tx8isa.riscv.compressed import Compressed, compressed
from tx8isa.riscv.format import EncodingError, TableError
from tx8isa.table import compressed as rvc
from tx8isa.table import scalar as rv
from tx8isa.table.compressed import prove

RECORDS = rvc.compressed_instructions()
BY_MNEMONIC = rvc.compressed_by_mnemonic()
EVERY = [bits for bits in range(1 << 16) if bits & 3 != 3]


def test_no_bits_are_two_instructions() -> None:
    """All 16-bit words are tried with all records; decoded ones are encoded again."""
    found = 0
    for bits in EVERY:
        matching = [(record, values) for record in RECORDS if (values := record.decode(bits)) is not None]
        assert len(matching) <= 1, (hex(bits), [record.mnemonic for record, _ in matching])
        if matching:
            assert matching[0][0].encode(matching[0][1]) == bits
            assert rvc.decode(bits) == matching[0]
            found += 1
        else:
            assert rvc.decode(bits) is None and rvc.expand(bits) is None
    assert found == 46743


def test_bits_of_longer_instructions_are_none() -> None:
    assert not [bits for bits in range(3, 1 << 16, 4) if rvc.decode(bits) is not None]
    assert not [record for record in RECORDS if record.decode(1 << 16 | record.match) is not None]


def test_the_instructions_are_those_of_the_manual_for_rv64_with_d() -> None:
    """Volume I, table "RVC instruction listing", without those of other widths; and binutils' shifts by 0."""
    listed = (
        "addi4spn fld lw ld fsd sw sd nop addi addiw li addi16sp lui srli srai andi sub xor or and subw addw"
    )
    listed += " j beqz bnez slli fldsp lwsp ldsp jr mv ebreak jalr add fsdsp swsp sdsp srli64 srai64 slli64"
    assert sorted(BY_MNEMONIC) == sorted(f"c.{name}" for name in listed.split())


@pytest.mark.parametrize(
    ("bits", "expected"),
    [
        (0x0808, ("addi", {"rd": 10, "rs1": 2, "imm": 16})),
        (0x7101, ("addi", {"rd": 2, "rs1": 2, "imm": -512})),
        (0x757D, ("lui", {"rd": 10, "imm": 0xFFFFF})),
        (0x657D, ("lui", {"rd": 10, "imm": 31})),
        (0x5DE8, ("lw", {"rd": 10, "rs1": 11, "imm": 124})),
        (0xFDE8, ("sd", {"rs1": 11, "rs2": 10, "imm": 248})),
        (0x2922, ("fld", {"rd": 18, "rs1": 2, "imm": 8})),
        (0x8082, ("jalr", {"rd": 0, "rs1": 1, "imm": 0})),
        (0x9502, ("jalr", {"rd": 1, "rs1": 10, "imm": 0})),
        (0x852E, ("add", {"rd": 10, "rs1": 0, "rs2": 11})),
        (0xFD7D, ("bne", {"rs1": 10, "rs2": 0, "target": -2})),
        (0xB7F5, ("jal", {"rd": 0, "target": -20})),
        (0x9002, ("ebreak", {})),
    ],
)
def test_expansions(bits: int, expected: tuple[str, dict[str, int]]) -> None:
    """Bits from GNU as."""
    record, values = rvc.expand(bits) or (None, {})
    assert record is not None and (record.mnemonic, values) == expected


def test_what_an_assembler_chooses_stands_for_the_same() -> None:
    """Every expansion is shortened to bits with the same effect, mostly the same bits; hints never are."""
    chosen, other = 0, Counter[str]()
    for bits in EVERY:
        found, full = rvc.decode(bits), rvc.expand(bits)
        if found is None or full is None:
            continue
        short = rvc.shorten(*full)
        if any(found[1][name] in values for name, values in found[0].hints.items()):
            other[found[0].mnemonic] += short is not None
            continue
        assert short is not None
        again = rvc.expand(short)
        assert again is not None and (short == bits or again[1].items() == full[1].items())
        chosen += 1
    assert chosen > 40_000
    assert {name for name, count in other.items() if count} == {"c.addi", "c.li"}, "a move, and a c.nop"


@pytest.mark.parametrize(
    ("mnemonic", "values"),
    [
        ("addi", {"rd": 10, "rs1": 10, "imm": 32}),
        ("addi", {"rd": 10, "rs1": 11, "imm": 1}),
        ("addi", {"rd": 0, "rs1": 0, "imm": 5}),
        ("lui", {"rd": 2, "imm": 1}),
        ("lui", {"rd": 10, "imm": 0}),
        ("lui", {"rd": 10, "imm": 32}),
        ("lui", {"rd": 0, "imm": 1}),
        ("sub", {"rd": 8, "rs1": 9, "rs2": 8}),
        ("add", {"rd": 10, "rs1": 10, "rs2": 0}),
        ("add", {"rd": 0, "rs1": 10, "rs2": 11}),
        ("slli", {"rd": 10, "rs1": 10, "shamt": 0}),
        ("lw", {"rd": 0, "rs1": 2, "imm": 4}),
        ("lw", {"rd": 10, "rs1": 11, "imm": 2}),
        ("lw", {"rd": 10, "rs1": 11, "imm": -4}),
        ("beq", {"rs1": 5, "rs2": 0, "target": 4}),
        ("beq", {"rs1": 8, "rs2": 0, "target": 256}),
        ("jal", {"rd": 1, "target": 4}),
        ("jalr", {"rd": 1, "rs1": 10, "imm": 4}),
        ("mul", {"rd": 10, "rs1": 10, "rs2": 11}),
    ],
)
def test_what_has_no_compressed_form(mnemonic: str, values: dict[str, int]) -> None:
    assert rvc.shorten(rv.scalar_by_mnemonic()[mnemonic], values) is None


@pytest.mark.parametrize(
    ("mnemonic", "values", "message"),
    [
        ("c.addi", {"rd": 0, "imm": 1}, "c.addi: rd = 0 is reserved"),
        ("c.addi", {"rd": 1, "imm": 32}, "c.addi: imm = 32 is outside -32..31"),
        ("c.lui", {"rd": 2, "imm": 1}, "c.lui: rd = 2 is reserved"),
        ("c.lui", {"rd": 1, "imm": 32}, "c.lui: imm = 32, expected 1..31 or 0xfffe0..0xfffff"),
        ("c.lui", {"rd": 1, "imm": 1 << 20}, "c.lui: imm = 1048576, expected 1..31 or 0xfffe0..0xfffff"),
        ("c.sub", {"rd": 7, "rs2": 8}, "c.sub: rd = 7 is outside 8..15"),
        ("c.lwsp", {"rd": 1, "uimm": 6}, "c.lwsp: uimm = 6 is not a multiple of 4"),
        ("c.j", {"target": 2048}, "c.j: target = 2048 is outside -2048..2046"),
        ("c.j", {}, "c.j: target is missing; it takes target"),
        ("c.ebreak", {"rd": 1}, "c.ebreak: unknown field rd; it takes no operand"),
    ],
)
def test_wrong_values_are_refused(mnemonic: str, values: dict[str, int], message: str) -> None:
    with pytest.raises(EncodingError) as refused:
        BY_MNEMONIC[mnemonic].encode(values)
    assert str(refused.value) == message and isinstance(refused.value, Tx8Error)


def make(syntax: str, pattern: str, expansion: str = "addi rd, rd, imm", **settings: object) -> Compressed:
    return compressed(syntax, pattern, expansion, example=syntax, **settings)  # type: ignore[arg-type]


GOOD = make("c.one rd, imm", "000 imm[5] rd imm[4:0] 01")


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("000 imm[5] rd imm[4:0] 0", "has 15 bits, not 16"),
        ("0000 imm[5] rd imm[4:0] 01", "has 17 bits, not 16"),
        ("000 imm[5] r9 imm[4:0] 01", "'r9' is neither bits nor one of rd rs1"),
        ("000 imm[5] rd imm[5:1] 01", "of imm: twice or with a gap"),
        ("000 imm[6] rd imm[4:0] 01", "of imm: twice or with a gap"),
    ],
)
def test_patterns_that_are_no_encoding(pattern: str, message: str) -> None:
    with pytest.raises(TableError) as refused:
        make("c.one rd, imm", pattern)
    assert str(refused.value).startswith("c.one: ") and message in str(refused.value)


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([GOOD, GOOD], "two records are called c.one"),
        (
            [GOOD, make("c.two rd, imm", "000 imm[5] rd imm[4:0] 01")],
            "c.one and c.two have an encoding in comm",
        ),
        ([replace(GOOD, syntax="rd")], "c.one: 'rd' does not name the fields once each"),
        (
            [replace(GOOD, example="c.two a0, 1")],
            "c.one: the example 'c.two a0, 1' is of another instruction",
        ),
        ([make("c.one rd, imm", "000 imm[5] rd imm[4:0] 11")], "c.one: the low bits are those of a longer"),
        (
            [replace(GOOD, expansion="addy rd, rd, imm")],
            "c.one: 'addy rd, rd, imm' is not a scalar instruction",
        ),
        ([replace(GOOD, expansion="addi rd, rd")], "c.one: 'addi rd, rd' is not a scalar instruction"),
        ([replace(GOOD, expansion="addi rd, rd, 1")], "c.one: 'addi rd, rd, 1' does not use imm"),
        (
            [replace(GOOD, expansion="addi rd, rx, imm")],
            "c.one: 'rx' is neither a field, a register nor a numb",
        ),
        ([replace(GOOD, also=("sub rd, rd",))], "c.one: 'sub rd, rd' is not a scalar instruction"),
    ],
)
def test_prove_refuses_a_broken_table(records: list[Compressed], message: str) -> None:
    with pytest.raises(TableError) as refused:
        prove(records)
    assert str(refused.value).startswith(message)


def test_prove_accepts_encodings_that_a_value_keeps_apart() -> None:
    """As c.lui, which never names sp, and c.addi16sp."""
    prove([BY_MNEMONIC["c.lui"], BY_MNEMONIC["c.addi16sp"], BY_MNEMONIC["c.jr"], BY_MNEMONIC["c.mv"]])


@pytest.mark.parametrize(
    ("text", "at", "expected"),
    [
        (b"\x01\0", 0, "c.nop"),
        (b"\x13\0\0\0", 0, "addi"),
        (b"\x01", 0, None),
        (b"\x13\0", 0, None),
        (b"\x13\0\0", 0, None),
        (b"", 0, None),
        (b"\0\0", 0, None),
        (b"\x01\0\x13\0\0\0", 2, "addi"),
    ],
)
def test_decoding_in_a_text(text: bytes, at: int, expected: str | None) -> None:
    found = rvc.decode_at(text, at)
    assert (found[0].mnemonic if found else None) == expected
