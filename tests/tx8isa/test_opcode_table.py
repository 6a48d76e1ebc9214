"""The records against the published opcode table, row by row.

``data/opcodes.csv`` restates the enumeration of the vendor's headers and the packet fields each opcode uses
(docs/sources.md: headers, contracts, instructions). The mnemonics are ours. Left out are fields that the
wrapper reserves (the rounding mode of max and min), formats that the opcode fixes, and the count of
td.img2col, which its shapes determine. The number of elements that ct.maskgather.v may reach stands in
``full_elem_count``, as that of the tables does (proposed).
"""

from __future__ import annotations

import csv

import pytest

from paths import TESTS
from tx8isa.records.record import Engine
from tx8isa.table.registry import by_mnemonic, instructions

with (TESTS / "data" / "opcodes.csv").open(newline="") as file:
    ROWS = list(csv.DictReader(file))


def test_the_table_has_every_opcode_once() -> None:
    assert [int(row["opcode"]) for row in ROWS] == list(range(187))
    assert len({row["mnemonic"] for row in ROWS}) == len({row["header name"] for row in ROWS}) == 187


@pytest.mark.parametrize("row", ROWS, ids=[row["mnemonic"] for row in ROWS])
def test_the_record_is_the_one_of_the_table(row: dict[str, str]) -> None:
    record = by_mnemonic()[row["mnemonic"]]
    assert (record.opcode, record.engine.name) == (int(row["opcode"]), row["engine"])
    assert {fmt.token for fmt in record.formats} == set(row["formats"].split())


@pytest.mark.parametrize("row", ROWS, ids=[row["mnemonic"] for row in ROWS])
def test_the_operands_fill_the_fields_of_the_table(row: dict[str, str]) -> None:
    """Write-back fields hold results and are not operands."""
    record = by_mnemonic()[row["mnemonic"]]
    fields = [field for field in row["packet fields"].split() if not field.startswith("wb_data")]
    assert sorted(operand.field for operand in record.operands) == sorted(fields)


def test_no_record_of_the_two_engines_is_outside_the_table() -> None:
    records = [i.mnemonic for i in instructions() if i.engine in (Engine.CT, Engine.TDMA)]
    assert sorted(records) == sorted(row["mnemonic"] for row in ROWS)
