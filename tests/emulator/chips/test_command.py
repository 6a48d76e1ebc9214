"""tx8emu on several chips: inputs and outputs by chip, statistics, trace, pages, verdict, refusals."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import asm
from asm.image import write_image
from chip_senders import copy, parts, ready, wait
from compiler.cli import main as compile_main
from emulator.cli import main
from emulator.memory.buffers import InputError
from emulator.program import load, on_chips
from paths import ROOT
from tx8isa.errors import Tx8Error
from tx8isa.machine.description import load_machine

SUM = """
        .input  x, fp32, 16x64
        .output y, fp32, 16x64
        .text
_start: csrr    t0, mhartid
        andi    t0, t0, 15
        slli    t0, t0, 8
        la      a0, x
        la      a1, y
        add     a0, a0, t0
        add     a1, a1, t0
        rdma.fp32 dst=0x1000, src=a0, n=64
        ct.add.vv.fp32 dst=0x2000, src0=0x1000, src1=0x1000, n=64
        wdma.fp32 dst=a1, src=0x2000, n=64
        ncc.wait
        li      a0, 0
        li      a7, 93
        ecall
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "sum.bin"
    path.write_bytes(write_image(asm.assemble(SUM)))
    return str(path)


def made(tmp_path: Path, text: str, machine: str | None = None) -> str:
    path = tmp_path / "made.bin"
    path.write_bytes(write_image(asm.assemble(text, machine=load_machine(machine))))
    return str(path)


def arrays(count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(7)
    return [rng.standard_normal((16, 64)).astype(np.float32) for _ in range(count)]


def test_inputs_and_outputs_of_each_chip(program: str, tmp_path: Path) -> None:
    """``x`` is for all chips, ``chip1.x`` for chip 1."""
    every, one = arrays(2)
    np.save(tmp_path / "every.npy", every)
    np.save(tmp_path / "one.npy", one)
    given = ["--input", f"x={tmp_path / 'every.npy'}", "--input", f"chip1.x={tmp_path / 'one.npy'}"]
    assert main([program, "--chips", "2x2", *given, "--output-dir", str(tmp_path / "out"), "-q"]) == 0
    found = {path.name: np.load(path) for path in (tmp_path / "out").iterdir()}
    assert sorted(found) == [f"chip{number}.y.npy" for number in range(4)]
    for number in range(4):
        assert np.array_equal(found[f"chip{number}.y.npy"], 2 * (one if number == 1 else every))


def test_random_inputs_differ_from_chip_to_chip(program: str, tmp_path: Path) -> None:
    assert main([program, "--chips", "2x1", "--random", "3", "--output-dir", str(tmp_path), "-q"]) == 0
    rng = np.random.default_rng(3)
    for number in range(2):
        expected = rng.standard_normal((16, 64)).astype(np.float32)
        assert np.array_equal(np.load(tmp_path / f"chip{number}.y.npy"), 2 * expected)


def test_statistics_of_all_chips(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([program, "--chips", "2x1", "--random", "0", "--stats=json", "-q"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [chip["instructions"] for chip in report["chips"]] == [report["chips"][0]["instructions"]] * 2
    assert report["cycles"] == max(chip["cycles"] for chip in report["chips"])
    assert report["links"] == []
    assert main([program, "--chips", "2x1", "--random", "0", "--stats", "-q"]) == 0
    assert "chip 1 ends last" in (text := capsys.readouterr().out) or "chip 0 ends last" in text


def test_a_trace_of_all_chips_and_links(tmp_path: Path) -> None:
    path = made(tmp_path, parts(h0=copy(hart=17, user=0, high=0x0100_0180)))
    trace = tmp_path / "run.json"
    assert main([path, "--chips", "2x1", "--trace", str(trace), "-q"]) == 0
    events = json.loads(trace.read_text())["traceEvents"]
    names = {e["args"]["name"] for e in events if e["name"] in ("process_name", "thread_name")}
    assert {"chip 0 tile 0 (0,0)", "chip 1 tile 15 (3,3)", "links between chips", "chip 0 to chip 1"} <= names
    sent = [e for e in events if e.get("cat") == "link"]
    assert [(e["name"], e["args"]["bytes"], e["dur"]) for e in sent] == [
        ("copy from tile 0 of chip 0", 64, pytest.approx(64 / 25 * 1e-3))
    ]
    (started,) = [e for e in events if e.get("args", {}).get("of chip") == 1]
    assert started["args"]["to tile"] == 1


@pytest.mark.long
def test_pages_of_all_chips(program: str, tmp_path: Path) -> None:
    page = tmp_path / "run.html"
    assert main([program, "--chips", "2x1", "--random", "0", "--html", str(page), "-q"]) == 0
    assert sorted(path.name for path in tmp_path.glob("*.html")) == ["run.chip0.html", "run.chip1.html"]


def test_a_verdict_names_chips(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    read = " li t0, 0x30400800\n lw t1, 0(t0)\n"
    path = made(tmp_path, parts(h0=copy(hart=17, high=0x0100_0180), h17=ready() + read + wait()))
    assert main([path, "--chips", "2x1", "--strict", "--json", "-q"]) == 3
    hazards = json.loads(capsys.readouterr().out)["hazards"]
    both = [hazard for hazard in hazards if hazard["other"]]
    assert [(h["at"]["chip"], h["other"]["chip"], h["memory"]) for h in both] == [
        (0, 1, "SPM of tile 1 of chip 1")
    ]


def test_a_deadlock_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = made(tmp_path, parts(h16=ready() + wait()))
    assert main([path, "--chips", "2x1", "-q"]) == 3
    assert capsys.readouterr().err.startswith(
        f"{path}: fault: the program can never go on: chip 1: tile 0 at"
    )


def test_dumps_are_of_one_chip(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    dump = [program, "--chips", "2x1", "--random", "0", "--dump-tensor", "y", "-q"]
    assert main(dump) == main([*dump, "--chip", "0"]) == 0
    first = capsys.readouterr().out
    assert first[: len(first) // 2] == first[len(first) // 2 :]
    assert main([*dump, "--chip", "1"]) == 0
    assert capsys.readouterr().out != first[: len(first) // 2]


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (
            ["--chips", "5x7"],
            1,
            "5x7 chips of machine tx81: key chips: found 5 x 7 chips, expected at most 32",
        ),
        (["--chips", "2"], 2, "'2' is not columns x rows of chips, such as 2x2"),
        (["--chips", "0x2"], 2, "'0x2' is not columns x rows of chips"),
        (["--chips", "2x1", "--gdb", "0"], 1, "--gdb is for programs on one chip; this one runs on 2"),
        (["--chips", "2x1", "--explore", "1"], 1, "--explore is for programs on one chip"),
        (["--chips", "2x1", "--save-state", "s", "--at", "9"], 1, "--save-state is for programs on one chip"),
        (["--chips", "2x1", "--dump-spm", "--chip", "2"], 1, "--chip 2: expected 0..1"),
        (
            ["--dump-spm", "--chip", "1"],
            2,
            "argument --chip: 1 is outside 0..0, the program runs on one chip",
        ),
        (["--chips", "2x1"], 1, "input 'x' (16x64 float32) is missing"),
        (["--machine", "tx81-3x3"], 1, "tx81-3x3: cannot read the machine description"),
    ],
)
def test_what_is_refused(
    options: list[str], status: int, message: str, program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        found = main([program, *options, "-q"])
    except SystemExit as left:
        found = int(left.code or 0)
    error = capsys.readouterr().err
    assert found == status
    assert message in error


def test_an_input_of_a_chip_that_is_not_there(program: str) -> None:
    loaded = on_chips(load(program), 2, 1, program)
    (array,) = arrays(1)
    with pytest.raises(InputError, match=r"no input 'chip2\.x'; its inputs: x"):
        loaded.run({"x": array, "chip2.x": array})
    assert set(loaded.run({"chip0.x": array, "chip1.x": array})) == {"chip0.y", "chip1.y"}
    with pytest.raises(Tx8Error, match="the program runs on 2 chips of machine tx81 x 2x1, not on one"):
        loaded.start({"x": array})


def test_the_compiler_finds_how_several_chips_share_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = str(ROOT / "examples/mlp/mlp.json")
    assert compile_main([graph, "--machine", "tx81-2x1", "-o", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "tried dp=2" in said and "tried tp=2" in said
    assert main([str(tmp_path / "prog.bin"), "--random", "0", "-q"]) == 0


def test_a_program_for_a_mesh_runs_on_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = made(tmp_path, SUM, "tx81-2x1")
    assert main([path, "--random", "0", "-q", "--output-dir", str(tmp_path / "out")]) == 0
    assert len(list((tmp_path / "out").iterdir())) == 2
    assert main([path, "--random", "0", "--chips", "2x2", "-q"]) == 1
    assert capsys.readouterr().err == (
        f"tx8emu: error: {path}: the program was made for machine tx81-2x1: chips.y is 1, 2 on tx81-2x1 x 2x2"
        "; run it without --machine and --chips, on its own, or make it anew for tx81-2x1 x 2x2\n"
    )
    small = tmp_path / "small.toml"
    text = (ROOT / "tx8isa/machine/machines/tx81.toml").read_text(encoding="utf-8")
    head, _, rest = text.partition("[chips]")
    small.write_text(
        head.replace('"tx81"', '"small"') + rest[rest.index("# The model of time") :], encoding="utf-8"
    )
    assert main([path, "--machine", str(small), "--random", "0", "-q"]) == 1
    assert "chips.x is 2, 1 on small" in capsys.readouterr().err
    one = made(tmp_path, SUM)
    assert main([one, "--machine", str(small), "--chips", "2x1", "--random", "0", "-q"]) == 1
    assert "machine small has no links between chips: give its description a table [chips]" in (
        capsys.readouterr().err
    )
