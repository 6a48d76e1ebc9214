"""Every word of 16 or 32 bits is the RISC-V manual's instruction with its operands, or none.

Encoding and decoding invert each other.
"""

from __future__ import annotations

import pytest

from record_proofs import prove_decoding, prove_encoding, prove_exclusive, prove_manual_encoding
from riscv_compressed_manual import SHORT
from riscv_manual import ENTRIES
from table_proofs import prove_compressed_table, prove_shortening, prove_table
from tx8isa.riscv.compressed import FULL_LENGTH
from tx8isa.riscv.format import Encoding, Scalar
from tx8isa.table import compressed, scalar
from tx8isa.table.encoding import MARK

pytestmark = pytest.mark.smt

FULL, SHORTER = scalar.scalar_instructions(), compressed.compressed_instructions()
every_full = pytest.mark.parametrize("record", FULL, ids=lambda record: record.mnemonic)
every_record = pytest.mark.parametrize("record", [*FULL, *SHORTER], ids=lambda record: record.mnemonic)


def test_the_manual_has_every_record() -> None:
    assert {record.mnemonic for record in FULL} == set(ENTRIES)
    assert {record.mnemonic for record in SHORTER} == set(SHORT)


@every_record
def test_encoding_inverts_decoding(record: Encoding) -> None:
    prove_encoding(record)


@every_record
def test_decoding_inverts_encoding(record: Encoding) -> None:
    prove_decoding(record)


@every_full
def test_words_and_operands_are_the_manuals(record: Scalar) -> None:
    prove_manual_encoding(record)


def test_no_word_is_two_instructions() -> None:
    """Words with the mark of an engine instruction are no scalar instructions."""
    prove_exclusive(
        FULL,
        ("an engine instruction", lambda word: word & MARK == MARK),
        ("a compressed instruction", lambda word: word & FULL_LENGTH != FULL_LENGTH),
    )


def test_no_16_bits_are_two_instructions() -> None:
    prove_exclusive(SHORTER, ("a longer instruction", lambda word: word & FULL_LENGTH == FULL_LENGTH))


@pytest.mark.parametrize("opcode", range(32))
def test_the_table_decodes_the_manuals_words_and_no_others(opcode: int) -> None:
    prove_table(scalar.decode, opcode)


def test_the_table_expands_the_manuals_16_bits_and_no_others() -> None:
    prove_compressed_table(compressed.decode, compressed.expand)


@every_full
def test_short_forms_do_the_same(record: Scalar) -> None:
    prove_shortening(record)
