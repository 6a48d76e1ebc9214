"""Saving and loading a state on the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import asm
from asm.image import write_image
from emulator.cli import main
from saved_runs import DOUBLE


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a program and its input, which is the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prog.bin").write_bytes(write_image(asm.assemble(DOUBLE, "prog.s")))
    np.save(tmp_path / "x.npy", np.arange(64, dtype=np.int32))
    return tmp_path


SAVE = ["prog.bin", "-q", "--input", "x=x.npy", "--save-state", "s.state"]


@pytest.mark.parametrize("at", ["100", "loop", "0x10"])
def test_save_and_load(folder: Path, at: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([*SAVE, "--at", at, "--output-dir", "out"]) == 0
    assert not list((folder / "out").iterdir())
    assert main(["prog.bin", "-q", "--load-state", "s.state", "--output-dir", "out", "--threads", "2"]) == 0
    assert np.load(folder / "out" / "y.npy").tolist() == list(range(64))
    assert capfd.readouterr() == ("", "")


def test_a_loaded_run_can_be_saved_again(folder: Path) -> None:
    assert main([*SAVE, "--at", "50"]) == 0
    assert main(["prog.bin", "-q", "--load-state", "s.state", "--save-state", "t.state", "--at", "90"]) == 0
    assert main([*SAVE, "--at", "90"]) == 0
    assert (folder / "t.state").read_bytes() == (folder / "s.state").read_bytes()


def test_where_the_limit_stops_the_run(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([*SAVE, "--max-instructions", "70"]) == 3
    assert "stopped after 70 instructions, the limit given" in capfd.readouterr().err
    assert main(["prog.bin", "-q", "--load-state", "s.state", "--output-dir", "out"]) == 0
    assert np.load(folder / "out" / "y.npy").tolist() == list(range(64))


def test_a_place_that_is_not_reached(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([*SAVE, "--at", "99999", "--output-dir", "out"]) == 1
    assert (
        "s.state: not written: the run ended before it came to 99999 instructions" in capfd.readouterr().err
    )
    assert np.load(folder / "out" / "y.npy").tolist() == list(range(64))
    assert not (folder / "s.state").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--save-state", "no/such/s.state", "--at", "5"], "no/such/s.state: No such file or directory"),
        (["--save-state", ".", "--at", "5"], ".: Is a directory"),
        (
            ["--save-state", "s", "--at", "lop"],
            "--at lop: the program has no such label; did you mean 'loop'?",
        ),
        (["--save-state", "s", "--at", "x"], "--at x: 0x280001000 is not in the code of the program"),
        (
            ["--save-state", "s", "--at", "0"],
            "--at 0: expected a number of instructions, at least 1, or a label",
        ),
    ],
)
def test_mistakes_are_one_line(
    folder: Path, arguments: list[str], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["prog.bin", "--input", "x=x.npy", *arguments]) == 1
    assert capfd.readouterr().err == f"tx8emu: error: {message}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--at", "5"], "argument --at: it says where --save-state FILE is to save"),
        (["--save-state", "s"], "argument --save-state: where? give --at N|LABEL, or --max-instructions N"),
        (["--save-state", "s", "--at", "5", "--strict"], "not with --strict, which looks at whole runs"),
        (["--load-state", "s", "--input", "x=x.npy"], "not with --input, which is part of the state"),
        (["--load-state", "s", "--ne-post", "proposed"], "not with --ne-post, which is part of the state"),
    ],
)
def test_usage(folder: Path, arguments: list[str], message: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["prog.bin", *arguments])
    assert left.value.code == 2
    assert message in capfd.readouterr().err


def test_files_that_cannot_be_loaded(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([*SAVE, "--at", "20"]) == 0
    (folder / "cut.state").write_bytes((folder / "s.state").read_bytes()[:-5])
    for name, message in (
        ("prog.bin", "prog.bin: not a saved state: it starts with 7f 45 4c 46"),
        ("cut.state", "cut.state: truncated: "),
        ("none.state", "none.state: No such file or directory"),
    ):
        assert main(["prog.bin", "--load-state", name]) == 1
        error = capfd.readouterr().err
        assert error.startswith(f"tx8emu: error: {message}")
        assert error.count("\n") == 1
    assert main(["prog.bin", "--load-state", "s.state", "--save-state", "t", "--at", "10"]) == 1
    assert "a tile has executed 20 already" in capfd.readouterr().err
