"""Programs of two trees are compared: equal ones, different ones, and ones that cannot be compared."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from paths import ROOT
from scripts import benchmark_modules

REPLAY = ROOT / "benchmarks" / "replay.py"


def replay(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, REPLAY, *words], capture_output=True, text=True, check=False)


@pytest.fixture
def checkout(tmp_path: Path) -> Callable[[str], Path]:
    """A checkout with the present tools, whose compiler gets more options."""

    def made(options: str) -> Path:
        tools, here = tmp_path / ".venv" / "bin", Path(sys.executable).parent
        tools.mkdir(parents=True)
        (tools / "tx8emu").symlink_to(here / "tx8emu")
        (tools / "tx8cc").write_text(f'#!/bin/sh\nexec {here}/tx8cc "$@" {options}\n')
        (tools / "tx8cc").chmod(0o755)
        return tmp_path

    return made


def test_a_tree_makes_the_same_programs_as_itself(checkout: Callable[[str], Path]) -> None:
    """On one chip and on four, whose statistics have another form."""
    found = replay(checkout(""), "batchnorm-30", "chips-batch", "--same")
    assert (found.returncode, found.stderr) == (0, "")
    first, second, last = map(str.split, found.stdout.splitlines())
    assert (first, second) == (["batchnorm-30", "the", "same"], ["chips-batch", "the", "same"])
    assert last == ["2", "programs,", "0", "differ"]


def test_what_differs_is_said_with_figures(checkout: Callable[[str], Path]) -> None:
    """With fewer tiles the code and the cycles differ, the results do not."""
    found = replay(checkout("--tiles 3"), "mlp", "--same")
    line, last = found.stdout.splitlines()
    assert found.returncode == 1 and last == "1 programs, 1 differ"
    for words in ("code ", " B; cycles ", "; least ", "; most ", "; commands ", "; hazards 0"):
        assert words in line
    assert "results" not in line


def test_a_program_that_one_tree_refuses(checkout: Callable[[str], Path]) -> None:
    found = replay(checkout("--tiles 99"), "mlp")
    assert found.returncode == 0
    assert "before: tx8cc: error: " in found.stdout and "; now: made" in found.stdout


def test_names_and_revisions_that_are_none() -> None:
    listed = replay("--list").stdout.split()
    assert len(listed) == len(set(listed)) >= 40
    for words, said in (
        (("HEAD", "nothing"), "no program is named 'nothing'"),
        (("no-such-revision",), "'no-such-revision' is no revision"),
        ((), "name a revision"),
    ):
        found = replay(*words)
        assert found.returncode and said in found.stderr.splitlines()[-1]


def test_a_row_of_the_page_has_quotients_of_cycles() -> None:
    with benchmark_modules("replay") as modules:
        made, row = modules.replay.Made, modules.replay.table_row
        before = made(cycles=2000, least=1000, most=4000, c_runtime=5000)
        after = made(cycles=1500, least=900, most=2000, c_runtime=2500)
        assert row("a", before, after) == "| a | 2,000 | 1,500 | 0.75 | 0.90 | 0.50 | 0.50 |"
        assert row("b", made(refused="no such option"), after) == "| b | - | 1,500 | - | - | - | - |"


def test_every_model_is_one_of_onnx_or_of_the_examples(tmp_path: Path) -> None:
    """Models of random weights are the same in every run; networks are left to those who compile them."""
    with benchmark_modules("_graphs", "_programs") as modules:
        made = [p for p in modules.programs.programs() if p.model.startswith("(") or "/" in p.model]
        assert len(made) > 30
        for program in made:
            path = program.write(tmp_path)
            if path.is_relative_to(tmp_path):
                first = path.read_bytes()
                path.unlink()
                assert program.write(tmp_path).read_bytes() == first
            else:
                assert path.is_file()
