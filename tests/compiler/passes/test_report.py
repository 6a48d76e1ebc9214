"""The report of a compilation: the places of its values and constants in DDR."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from asm.image import read_image
from compiler.cli import main
from paths import ROOT
from tx8isa.machine.description import load_machine

DDR = load_machine(None).windows.ddr_engine


@pytest.mark.parametrize("name", ["mlp/mlp", "attention/attention"])
def test_addresses_are_those_of_the_image(name: str, tmp_path: Path) -> None:
    """None for a constant that DDR does not have unchanged, but never 0, which is not an address of DDR."""
    report = tmp_path / "r.json"
    graph = ROOT / "examples" / f"{name}.json"
    options = ["-q", "-o", str(tmp_path / "out"), "--no-cache", "--search", "off", "--report", str(report)]
    assert main([str(graph), *options]) == 0
    found = json.loads(report.read_text())
    image = read_image((tmp_path / "out" / "prog.bin").read_bytes(), "prog.bin")
    placed = {region["name"]: region for region in found["ddr"]}
    assert {symbol: region["address"] for symbol, region in placed.items()} == {
        symbol: image.symbols[symbol].address for symbol in placed
    }
    buffers = {buffer.name: buffer.address for buffer in image.buffers}
    assert buffers.items() <= {symbol: region["address"] for symbol, region in placed.items()}.items()
    constants = json.loads(graph.read_text())["constants"]
    for phase in found["phases"]:
        for region in (*phase["reads"], *phase["writes"]):
            if region["address"] is None:
                assert region["name"].startswith("c.") and int(region["name"][2:]) < len(constants)
                assert region["name"] not in placed
            else:
                first = placed[region["name"]]["address"]
                assert DDR <= first <= region["address"]
        assert all(region["address"] is not None for region in phase["writes"])
