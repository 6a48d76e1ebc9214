"""--stats of real programs."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import asm
import emulator
from asm.image import write_image
from compiler.cli import main as compile_main
from emulator.cli import main
from emulator.watch.stats.types import schema
from machine_files import warm_machine
from made_statistics import MACHINE
from square_program import square_program

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def program(tmp_path: Path) -> list[str]:
    np.save(tmp_path / "x.npy", np.ones((16, 2048), dtype=np.float16))
    (tmp_path / "p.bin").write_bytes(write_image(asm.assemble(square_program(), name="p.s")))
    files = [str(tmp_path / "p.bin"), "--input", f"x={tmp_path / 'x.npy'}"]
    return [*files, "--machine", warm_machine(tmp_path)]


def test_a_real_program(program: list[str], capsys: Capture) -> None:
    assert main([*program, "--stats=json"]) == 0
    found = json.loads(capsys.readouterr().out)
    jsonschema.validate(found, schema())
    assert found["complete"] and found["tiles_used"] == 16 and found["engine_instructions"] == 16 * 5
    assert {path["path"]: path["bytes"] for path in found["paths"]} == {
        "DDR to SPM (RDMA)": 65536,
        "SPM to DDR (WDMA)": 65536,
        "DDR, all engines": 131072,
        "operands of CT": 131072,
        "results of CT": 65536,
    }
    assert found["bound"] == "DDR" and found["resources"]
    nodes = {node["name"]: node for node in found["nodes"]}
    assert sum(node["cycles"] for node in nodes.values()) == pytest.approx(found["cycles"])
    assert nodes["square"]["operations"] == 16 * 2048 and nodes["load"]["ddr_bytes"] == 65536
    ct_row = next(row for row in found["engines"] if (row["tile"], row["engine"]) == (3, "CT"))
    assert ct_row["waiting"].keys() == {"RDMA"} and ct_row["instructions"] == 1
    assert [row["instruction"] for row in found["executed"]][:1] != []
    timing = MACHINE.timing.ct
    assert ct_row["busy"] == pytest.approx(timing.fixed.value + 2048 / timing.rates.fp16.value, rel=0.05)


def test_threads_do_not_change_a_digit(program: list[str], capsys: Capture) -> None:
    texts = []
    for threads in (1, 2, 4):
        assert main([*program, "--stats", "--threads", str(threads)]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] == texts[2] and texts[0].startswith("time ")


def test_the_c_runtime_takes_as_long_as_a_run_with_its_submissions(
    program: list[str], capsys: Capture
) -> None:
    found = {}
    for flow in ("text", "c-runtime"):
        assert main([*program, "--stats=json", "--issue", flow]) == 0
        found[flow] = json.loads(capsys.readouterr().out)
    expected = found["c-runtime"]["cycles"]
    assert found["text"]["cycles_range"]["c_runtime"] == expected > found["text"]["cycles"]
    assert found["c-runtime"]["cycles_range"]["c_runtime"] is None
    texts = {}
    for flow in found:
        assert main([*program, "--stats", "--issue", flow]) == 0
        texts[flow] = capsys.readouterr().out
    assert f"\nC runtime {int(expected):,} cycles, if the vendor's" in texts["text"]
    assert "C runtime" not in texts["c-runtime"]


def test_stats_may_stand_before_the_program(program: list[str], capsys: Capture) -> None:
    assert main(["--stats", *program]) == 0
    first = capsys.readouterr().out
    assert main([*program, "--stats=text"]) == 0
    assert capsys.readouterr().out == first


def test_a_wrong_form_is_refused(program: list[str], capsys: Capture) -> None:
    with pytest.raises(SystemExit) as left:
        main([*program, "--stats=xml"])
    assert left.value.code == 2 and "invalid choice: 'xml'" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["--stats", "--stats=json"])
def test_a_run_that_stopped_tells_what_it_did(
    program: list[str], tmp_path: Path, capsys: Capture, form: str
) -> None:
    (tmp_path / "p.bin").write_bytes(write_image(asm.assemble(square_program(status=4), name="p.s")))
    assert main([*program, form]) == 3
    out, err = capsys.readouterr()
    assert "exited with status 4" in err
    assert main([*program, form, "--max-instructions", "20"]) == 3
    out, err = capsys.readouterr()
    if form == "--stats":
        assert "where the run stopped" in out.splitlines()[0]
    else:
        assert json.loads(out)["complete"] is False


GRAPH = {
    "name": "tiny",
    "opset": 20,
    "outputs": ["y"],
    "inputs": [{"name": "x", "dtype": "float32", "shape": [64, 64]}],
    "nodes": [
        {"op": "Relu", "name": "up", "inputs": ["x"], "outputs": ["r"], "attrs": {}},
        {"op": "Sigmoid", "name": "down", "inputs": ["r"], "outputs": ["y"], "attrs": {}},
    ],
}


def test_the_compiler_prints_statistics_of_its_nodes(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps(GRAPH))
    assert compile_main([str(path), "--run", "--dtype", "fp16", "--stats=json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert "pass" in err and "random inputs" in err
    assert found["nodes"][0]["name"] == "up" and found["complete"]
    assert compile_main(["--stats", str(path), "--run", "--dtype", "fp16", "-q"]) == 0
    lines = capsys.readouterr().out.splitlines()
    column, row = lines[0].split().index("cycles") - 3, lines[1].split()  # two titles have 3 and 2 words
    assert int(row[column].replace(",", "")) == int(found["cycles"])
    assert any(line.startswith("nodes ") for line in lines)


def test_statistics_need_a_run(tmp_path: Path, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as left:
        compile_main([str(tmp_path / "tiny.json"), "--stats"])
    assert left.value.code == 2 and "--stats needs --run" in capsys.readouterr().err


def test_without_stats_no_time_is_simulated(program: list[str]) -> None:
    loaded = emulator.load(program[0])
    system = loaded.start({"x": np.ones((16, 2048), dtype=np.float16)})
    assert system.cycles is None
