"""The options of tx8cc about several chips: refusals and their messages."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from compiler.cli import main
from paths import ROOT

MLP = str(ROOT / "examples/mlp/mlp.json")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--chips", "2x1", "--verify-nodes"],
            "--verify-nodes is for one chip, without --chips and --parallel",
        ),
        (["--estimate", "--run"], "--estimate makes no program, so --run has no effect: leave out --run, or"),
        (["--estimate", "-S"], "--estimate makes no program, so -S has no effect: leave out -S, or"),
        (["--estimate", "--search", "full"], "so --search has no effect: leave out --search, or --estimate"),
        (["--estimate", "--json"], "--estimate makes no program, so --json has no effect: leave out --json"),
        (["--estimate", "--pass-times"], "so --pass-times has no effect: leave out --pass-times, or --esti"),
        (["--chips", "2", "--parallel", "tp=2"], "'2' is not columns x rows of chips, such as 2x2"),
        (
            ["--parallel", "tp=2", "--run", "--stats"],
            "--stats is for one chip, without --chips and --parallel; tx8emu has it",
        ),
        (
            ["--parallel", "tp=2", "--verify-nodes"],
            "--verify-nodes is for one chip, without --chips and --parallel",
        ),
    ],
)
def test_options_that_do_not_go_together(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([MLP, *options])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--chips", "2x2", "--parallel", "tp=2"], "--parallel tp=2: is for 2 chips; 2x2 chips are 4"),
        (
            ["--chips", "2x1", "--parallel", "dp=2"],
            "dp=2: input 'x' is 19x77; its first axis must be a multiple",
        ),
        (
            ["--chips", "2x1", "--parallel", "sp=2"],
            "sp=2: input 'x' is 19x77; its rows, axis 0, must be a multiple of 2",
        ),
        (["--chips", "2x1", "--parallel", "ep=2"], "ep=2: no experts: expected weights [experts, rows, "),
        (["--chips", "8x8", "--parallel", "tp=64"], "8x8 chips of machine tx81: "),
        (["--parallel", "tp=2"], "--parallel tp=2: is for 2 chips; 1x1 chips are 1"),
        (
            ["--chips", "3x1"],
            "graph 'mlp': no degrees of parallelism fit the chips: dp=3: input 'x' is 19x77; its first axis "
            "must be a multiple of 3; tp=3: nothing can be shared by the chips",
        ),
        (["--estimate", "--chips", "64x65"], "--chips 64x65: 4160 chips, expected at most 4096"),
        (["--estimate", "--chips", "8x8", "--parallel", "tp=64"], "--parallel tp=64: tp is 64, expected at"),
    ],
)
def test_one_line_for_what_does_not_fit(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([MLP, "-q", "--no-cache", *options]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"tx8cc: error: {message}")
    assert said.count("\n") == 1


def test_degrees_are_found_when_only_the_chips_are_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.json"
    assert main([MLP, "--chips", "2x1", "-S", "-o", str(tmp_path), "--report", str(report)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "16 tiles of each of 2 chips (tp=2)" in lines[0]
    names = ["tried dp=2", "tried tp=2", "tried sp=2", "tried pp=2"]
    assert [line.split(":")[0] for line in lines[1:5]] == names
    assert lines[4] == "tried pp=2: the batch has no parts, so the stages would take turns"
    tried = json.loads(report.read_text())["degrees"]
    found = [(each["degrees"], each["cycles"] is None) for each in tried]
    assert found == [("dp=2", True), ("tp=2", False), ("sp=2", True), ("pp=2", True)]


def test_an_estimate_of_many_chips(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([MLP, "--dtype", "fp16", "--estimate", "--chips", "2x1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("tried dp=2: input 'x' is 19x77")
    assert lines[4] == "tp=2 on 2 chips, one of which takes:"
    cycles = {line.split("  ")[0].strip(): int(line.split()[-2].replace(",", "")) for line in lines[6:]}
    phases = list(cycles)[: list(cycles).index("all")]
    assert sum(cycles[name] for name in phases) == cycles["all"]
    assert 0 < cycles["bound of links"] < cycles["exchanges"] < cycles["all"]


def test_an_estimate_of_a_pipeline(capsys: pytest.CaptureFixture[str]) -> None:
    graph = str(ROOT / "examples/attention/attention.json")
    assert main([graph, "--dtype", "fp16", "--estimate", "--chips", "2x1", "--parallel", "pp=2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"pp=2 on 2 chips, parts of the batch: 2; a chip of stage [01], .* takes:", lines[0])
    cycles = {line.split("  ")[0].strip(): int(line.split()[-2].replace(",", "")) for line in lines[2:]}
    phases = list(cycles)[: list(cycles).index("all")]
    assert phases[-1] == "waiting"
    assert sum(cycles[name] for name in phases) == cycles["all"]
    assert max(cycles["stage 0"], cycles["stage 1"]) == cycles["all"] - cycles["waiting"]
    assert cycles["fill"] + cycles["drain"] <= cycles["all"]


def test_an_estimate_of_stages_that_cannot_be_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([MLP, "--estimate", "--chips", "8x8", "--parallel", "pp=64"]) == 1
    said = capsys.readouterr().err
    assert said == "tx8cc: error: pp=64: graph 'mlp' has only 6 places for a stage to begin\n"
