"""Encoding and decoding of engine instructions invert each other, for all operands and all words."""

from __future__ import annotations

import pytest

from tx8isa.records.record import Instruction
from tx8isa.table.registry import instructions
from wide_proofs import prove_headers, prove_wide_decoding, prove_wide_encoding

pytestmark = pytest.mark.smt

every_record = pytest.mark.parametrize("record", instructions(), ids=lambda record: record.mnemonic)


def test_every_header_is_of_one_record_or_refused() -> None:
    prove_headers(instructions())


@every_record
def test_decoding_inverts_encoding(record: Instruction) -> None:
    prove_wide_decoding(record)


@every_record
def test_encoding_inverts_decoding(record: Instruction) -> None:
    prove_wide_encoding(record)
