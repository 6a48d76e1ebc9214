"""``tx8cc --run`` with views of the run, saved inputs, and verdicts as data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from compiler.cli import main
from compiler.driver import Program
from compiler.evaluation import judgement
from compiler.tools import run
from emulator.cli import main as tx8emu
from emulator.cli.verdict import HazardData
from emulator.tile.fault import Fault, FaultKind
from report_page import embedded
from tx8isa.errors import Tx8Error
from tx8isa.tools.overwrite import Role

GRAPH: dict[str, Any] = {
    "name": "tiny",
    "opset": 20,
    "inputs": [{"name": name, "dtype": "float32", "shape": [3, 5]} for name in "ab"],
    "outputs": ["y"],
    "nodes": [
        {"op": "Add", "name": "sum", "inputs": ["a", "b"], "outputs": ["s"]},
        {"op": "Relu", "name": "cut", "inputs": ["s"], "outputs": ["y"]},
    ],
}


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = Path("tiny.json")
    path.write_text(json.dumps(GRAPH))
    return path


def tx8cc(*arguments: str) -> int:
    return main(["tiny.json", "-q", "--tiles", "2", *arguments])


def document(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


# --- views --------------------------------------------------------------------------------------


def test_page_and_trace_are_those_of_the_emulator(tiny: Path) -> None:
    assert tx8cc("--run", "--save-inputs", "in", "--html", "a.html", "--trace", "a.json") == 0
    given = [f"--input={name}=in/{name}.npy" for name in "ab"]
    assert tx8emu(["tiny/prog.bin", "-q", *given, "--html", "b.html", "--trace", "b.json"]) == 0
    pages = [embedded(Path(name).read_text()) for name in ("a.html", "b.html")]
    assert pages[0][0] == pages[1][0]
    assert all(np.array_equal(pages[0][1][name], pages[1][1][name]) for name in pages[0][1])
    assert Path("a.json").read_bytes() == Path("b.json").read_bytes()


def test_saved_inputs_give_the_same_outputs(tiny: Path) -> None:
    assert tx8cc("--run", "--seed", "7", "--save-inputs", "in", "--output-dir", "first") == 0
    assert sorted(path.name for path in Path("in").iterdir()) == ["a.npy", "b.npy"]
    given = [f"--input={name}=in/{name}.npy" for name in "ab"]
    assert tx8emu(["tiny/prog.bin", "-q", *given, "--output-dir", "second"]) == 0
    assert Path("first/y.npy").read_bytes() == Path("second/y.npy").read_bytes()


def test_the_c_runtime_takes_as_long_as_a_run_with_its_submissions(
    tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tx8cc("--run") == 0
    shown = capsys.readouterr().out
    assert tx8emu(["tiny/prog.bin", "-q", "--random", "0", "--cycles-only", "--issue", "c-runtime"]) == 0
    cycles = capsys.readouterr().out.removesuffix(" cycles\n")
    assert f"cycles over the ranges of the model, {cycles} by the C runtime\n" in shown
    assert tx8cc("--run", "--issue", "c-runtime") == 0
    assert capsys.readouterr().out.endswith(" cycles over the ranges of the model\n")


def test_a_report_that_is_a_page(tiny: Path) -> None:
    assert tx8cc("--run", "--report", "r.html") == 0
    assert Path("r.html").read_text().startswith("<!")


def test_a_page_beside_data(tiny: Path) -> None:
    assert tx8cc("--run", "--report", "r.json", "--html", "r.html") == 0
    found = json.loads(Path("r.json").read_text())
    assert {phase["name"] for phase in found["phases"]}
    assert Path("r.html").read_text().startswith("<!")
    assert tx8emu(["tiny/prog.bin", "-q", "--random", "0", "--report", "same.json"]) == 0
    assert json.loads(Path("same.json").read_text()) == {"run": found["run"]}  # one name, one content
    assert tx8cc("--report", "r.json") == 0
    assert json.loads(Path("r.json").read_text())["run"] is None


def test_a_page_that_cannot_be_written_is_one_line(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tx8cc("--run", "--html", "no/r.html") == 1
    message = "tx8cc: error: no/r.html: cannot be written: No such file or directory\n"
    assert capsys.readouterr().err == message


def test_a_page_that_fails_in_the_end_loses_no_outputs(
    tiny: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from emulator.watch.report import file

    def full(path: Path, data: bytes) -> None:
        raise Tx8Error(f"{path}: cannot be written: No space left on device")

    monkeypatch.setattr(file, "write_whole", full)
    assert tx8cc("--run", "--html", "r.html", "--output-dir", "out") == 1
    message = "tx8cc: error: r.html: cannot be written: No space left on device\n"
    assert capsys.readouterr().err == message
    assert Path("out/y.npy").exists()


def test_hazards_are_status_3(
    tiny: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    two_phases(tiny)
    assert tx8cc("--run", "--strict") == 0
    without_barriers(monkeypatch)
    assert tx8cc("--run", "--strict", "--no-cache") == 3
    assert "tiny/prog.bin: " in capsys.readouterr().err


def two_phases(path: Path) -> None:
    """A graph in which every tile reads data that another one has written."""
    softmax = [
        {"op": "Softmax", "inputs": [x], "outputs": [y], "attrs": {"axis": axis}}
        for x, y, axis in (("a", "s", 0), ("s", "y", 1))
    ]
    inputs = [{"name": "a", "dtype": "float32", "shape": [64, 64]}]
    path.write_text(json.dumps(GRAPH | {"inputs": inputs, "nodes": softmax}))


def without_barriers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every program lacks the barriers between tiles, as if the compiler had forgotten them."""
    from compiler.passes import compilation

    assemble = compilation._assembled

    def forgetful(text: str, *rest: Any) -> Any:
        lines = text.splitlines(keepends=True)
        return assemble("".join(line for line in lines if "ncc.barrier" not in line), *rest)

    monkeypatch.setattr(compilation, "_assembled", forgetful)


def test_a_debugger_can_control_the_run(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import emulator.debug.gdb

    ports, kept = [], set[str]()

    def debug(system: Any, port: int, limit: int | None = None, files: Sequence[Role] = ()) -> None:
        ports.append(port)
        kept.update(str(path) for _, path in files if path)
        system.run(limit)

    monkeypatch.setattr(emulator.debug.gdb, "debug", debug)
    assert tx8cc("--run", "--gdb", "1234", "--save-inputs", "in", "--output-dir", "out") == 0
    assert ports == [1234]
    assert {"tiny.json", "tiny/prog.bin", "tiny/prog.s", "in/a.npy", "in/b.npy", "out/y.npy"} <= kept


# --- usage --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--html", "a.html"], "--html needs --run"),
        (["--trace", "a"], "--trace needs --run"),
        (["--strict"], "--strict needs --run"),
        (["--gdb", "0"], "--gdb needs --run"),
        (["--save-inputs", "in"], "--save-inputs needs --run"),
        (["--report", "a.html"], "it needs --run"),
        (["--run", "--report", "a.txt"], "'a.txt' ends neither in .html, for a page, nor in .json, for data"),
        (["--run", "--html", "a.json"], "'a.json' does not end in .html"),
        (["--run", "--html", "a.html", "--report", "b.html"], "both name the page"),
        (["--run", "--gdb", "99999"], "'99999' is not a port from 0 to 65535"),
        (["other.json", "--run", "--html", "a.html"], "--html is for a single graph"),
        (["other.json", "--run", "--trace", "a"], "--trace is for a single graph"),
        (["--json"], "--json needs --check, --run or --verify-nodes"),
        (["--seed", "3"], "--seed needs --run, --verify-nodes, --prove or --dtype auto"),
        (["--plan", "p.json", "--search", "full"], "--plan replaces the search: leave out --search, or --pl"),
        (["-q", "-v"], "-q and -v exclude each other"),
        (["--run", "--json", "--stats=json"], "--json and --stats=json would both write to standard output"),
        (["--run", "--json", "--report", "-"], "--json and --report - would both write to standard output"),
    ],
)
def test_wrong_usage(
    tiny: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["tiny.json", *arguments])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err.splitlines()[-1]
    assert [path.name for path in Path().iterdir()] == ["tiny.json"]


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("c", np.zeros((3, 5), np.float32), "the graph has no input 'c'; its inputs: a, b"),
        ("a", np.zeros((5, 3), np.float32), "input 'a' is 5x3 float32, expected 3x5 float32"),
        ("a", np.zeros((3, 5), np.int64), "input 'a' is 3x5 int64, expected 3x5 float32"),
    ],
)
def test_a_wrong_input_is_found_before_anything_is_compiled(
    tiny: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    array: Any,
    message: str,
) -> None:
    monkeypatch.setattr("compiler.cli._compiled", lambda *_: pytest.fail("it was compiled"))
    np.save("x.npy", array)
    for what in ("--run", "--verify-nodes"):
        assert tx8cc(what, "--input", f"{name}=x.npy") == 1
        assert capsys.readouterr().err == f"tx8cc: error: {message}\n"
    assert not Path("tiny").exists()


def test_inputs_are_not_saved_over_those_that_are_read(
    tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save("a.npy", np.ones((3, 5), np.float32))
    assert tx8cc("--run", "--input", "a=a.npy", "--save-inputs", ".") == 1
    message = "a.npy: input 'a' in --save-inputs would replace an array of --input"
    assert message in capsys.readouterr().err
    assert not Path("tiny").exists()


# --- verdicts as data -------------------------------------------------------------------------


def test_verdicts_of_a_run(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tx8cc("--run", "--json") == 0
    found = document(capsys)
    (output,) = found.pop("outputs")
    assert output["max_abs_error"] < 1e-5
    assert output["cosine"] == pytest.approx(1)
    assert {key: output[key] for key in ("name", "shape", "pass", "problem")} == {
        "name": "y",
        "shape": [3, 5],
        "pass": True,
        "problem": None,
    }
    ends = found.pop("cycles_range")
    cycles = found.pop("cycles")
    assert 0 < ends["least"] <= cycles <= ends["most"] and cycles < ends["c_runtime"]
    assert found.pop("instructions") > 0
    assert found == {
        "graph": "tiny",
        "dtype": "fp32",
        "floats": "fp32",
        "tiles": 2,
        "pass": True,
        "fault": None,
        "fault_kind": None,
        "fault_category": None,
        "hazards": None,
    }


def test_a_wrong_output_is_said_with_status_3(
    tiny: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judgement, "run_reference", lambda *_, **__: {"y": np.full((3, 5), 9.0)})
    assert tx8cc("--run", "--json") == 3
    found = document(capsys)
    assert not found["pass"]
    (output,) = found["outputs"]
    assert not output["pass"]
    assert output["problem"].endswith("the program is at fault: nothing is rounded before it")
    assert output["at_fault"] == "program"
    assert output["rounding_alone"] == {"max_abs_error": 0.0, "cosine": 1.0}


def test_a_fault_is_said_with_status_3(
    tiny: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(program: Program, *_: Any) -> None:
        fault = Fault("tile 0: no such address", FaultKind.MEMORY)
        raise run.RunFault(fault, ["r.html: cannot be written"])

    monkeypatch.setattr(run, "check", stop)
    assert tx8cc("--run", "--json") == 3
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert found["fault"] == "tile 0: no such address"
    assert (found["fault_kind"], found["fault_category"]) == ("address", "undefined by the chip")
    assert captured.err.splitlines() == [
        "tx8cc: fault: tile 0: no such address",
        "tx8cc: error: r.html: cannot be written",
    ]


def test_hazards_are_data(
    tiny: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    two_phases(tiny)
    assert tx8cc("--run", "--strict", "--json") == 0
    assert document(capsys)["hazards"] == []
    without_barriers(monkeypatch)
    assert tx8cc("--run", "--strict", "--json", "--no-cache") == 3
    found = document(capsys)
    assert not found["pass"]
    hazard = found["hazards"][0]
    assert set(hazard) == {field.name for field in msgspec.structs.fields(HazardData)}
    assert (hazard["memory"], hazard["at"]["file"]) == ("DDR", "prog.s")
    assert tx8emu(["tiny/prog.bin", "-q", "--random", "0", "--strict", "--json"]) == 3
    assert document(capsys)["hazards"] == found["hazards"]


def test_verdicts_of_nodes(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tx8cc("--verify-nodes", "--json") == 0
    found = document(capsys)
    assert (found["pass"], found["wrong"]) == (True, None)
    assert [(node["node"], node["operator"], node["output"]) for node in found["nodes"]] == [
        ("sum", "Add", "s"),
        ("cut", "Relu", "y"),
    ]
    assert all(node["alone"]["pass"] and node["so_far"]["pass"] for node in found["nodes"])


def test_a_document_for_each_graph(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("other.json").write_text(json.dumps(GRAPH | {"name": "other"}))
    assert main(["tiny.json", "other.json", "-q", "--run", "--json"]) == 0
    decoder, text = json.JSONDecoder(), capsys.readouterr().out
    first, end = decoder.raw_decode(text)
    second, _ = decoder.raw_decode(text[end:].lstrip())
    assert [first["graph"], second["graph"]] == ["tiny", "other"]
