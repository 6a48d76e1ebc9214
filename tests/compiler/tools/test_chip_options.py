"""The options of tx8cc about several chips: what is refused, and how."""

from __future__ import annotations

import pytest

from compiler.cli import main
from paths import ROOT

MLP = str(ROOT / "examples/mlp/mlp.json")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--chips", "2x1"], "--chips needs --parallel, which says how they share the work, such as tp=2"),
        (["--chips", "2", "--parallel", "tp=2"], "'2' is not columns x rows of chips, such as 2x2"),
        (
            ["--parallel", "tp=2", "--run", "--stats"],
            "--stats is for one chip, without --parallel; tx8emu has it",
        ),
        (["--parallel", "tp=2", "--verify-nodes"], "--verify-nodes is for one chip, without --parallel"),
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
        (["--chips", "8x8", "--parallel", "tp=64"], "8x8 chips of machine tx81: "),
        (["--parallel", "tp=2"], "--parallel tp=2: is for 2 chips; 1x1 chips are 1"),
        (["--machine", "tx81-2x1"], "machine tx81-2x1 has 2 chips: --parallel says how they share the work"),
    ],
)
def test_one_line_for_what_does_not_fit(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([MLP, "-q", "--no-cache", *options]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"tx8cc: error: {message}")
    assert said.count("\n") == 1
