"""Operands in a trace, as the disassembler spells them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from asm.image import Image
from emulator.engines import queues, tables
from emulator.timing.slices import Track
from made_traces import EMPTY, MACHINE, batch, encoded, image_of, made
from time_slices import BASE


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_operands_are_spelt_as_the_disassembler_does(tmp_path: Path, seed: int) -> None:
    image, slices, expected = encoded(seed)
    events = made(tmp_path / "t.json", image, [slices]).engine_slices()
    assert len(events) == len(expected) > 180
    for event, row, (name, operands, in_registers) in zip(events, slices.slices, expected, strict=True):
        text = event["args"]["operands"]
        found = dict(re.findall(r"(\w+)=(\[.*?\]|[^,\s]+)", text))
        assert event["name"] == name
        assert {n: v for n, v in found.items() if n in operands} == operands, text
        record = tables.records()[row["record"]]
        follow = {o.name for o in record.operands if isinstance(o.default, str)}  # a register perhaps
        assert set(found) - set(operands) <= in_registers | follow, text


def test_operands_where_the_text_says_something_else(tmp_path: Path) -> None:
    """A program that changed its text, or issued through registers: the values count, not the text."""
    image, slices, expected = encoded(4)
    for elsewhere in (image_of([bytes(len(image.segments[0].data))]), EMPTY):
        events = made(tmp_path / "t.json", elsewhere, [slices]).engine_slices()
        found = [dict(re.findall(r"(\w+)=(\[.*?\]|[^,\s]+)", e["args"]["operands"])) for e in events]
        assert [(e["name"], f) for e, f in zip(events, found, strict=True)] == [e[:2] for e in expected]


def test_an_address_in_ddr_or_spm(tmp_path: Path) -> None:
    """The ranges distinguish operands that allow both memories."""
    number = tables.numbers()["dte.unicast"]
    record = tables.records()[number]
    row = {"record": number, "track": Track.DTE, "started": 0, "ended": 9000, "target": 3}
    given = batch(row, ranges={0: [[queues.DDR + 0x40, 8, 0], [0x80, 8, 1]]})
    given.fields[0, record.index("src")], given.fields[0, record.index("dst")] = 0x40, 0x80
    given.fields[0, record.index("n")] = 8
    (event,) = made(tmp_path / "t.json", EMPTY, [given]).engine_slices()
    assert f"src={MACHINE.windows.ddr_engine + 0x40:#x}" in event["args"]["operands"]
    assert "dst=0x80" in event["args"]["operands"]


def test_names_that_json_would_misread(tmp_path: Path) -> None:
    name = 'a"b\\c %d é\n'
    image = Image(entry=BASE, segments=(), nodes={BASE: name}, lines={BASE: (name, 3)})
    read = made(tmp_path / "t.json", image, [batch({"started": 0, "ended": 5000})])
    (event,) = read.engine_slices()
    assert (event["args"]["node"], event["args"]["source"]) == (name, f"{name}:3")
    assert [e["name"] for e in read.slices("node")] == [name]
