"""tx8emu --session: scripts that run a program step by step, and refused ones."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asm
from asm.image import write_image
from emulator.cli.command import main

TEXT = """
        .input  x, fp32, 16
        .input  past, fp32, 16
        .const  more, fp32, 16, "more.bin"
        .output y, fp32, 16
        .text
_start: csrr    t0, mhartid
        bnez    t0, done
        rdma.fp32 dst=0x100, src=past, n=16
        rdma.fp32 dst=0x200, src=x, n=16
        rdma.fp32 dst=0x300, src=more, n=16
        ct.add.vv.fp32 dst=0x100, src0=0x100, src1=0x200, n=16
        ct.add.vv.fp32 dst=0x100, src0=0x100, src1=0x300, n=16
        wdma.fp32 dst=past, src=0x100, n=16
        wdma.fp32 dst=y, src=0x100, n=16
done:   ncc.wait
        li a0, 0
        li a7, 93
        ecall
"""
X = np.arange(16, dtype=np.float32)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a program that adds x and ones to its state, and arrays."""
    image = asm.assemble(TEXT, given={"more.bin": np.ones(16, "<f4").tobytes()})
    past = next(buffer for buffer in image.buffers if buffer.name == "past")
    image = replace(image, buffers=(*image.buffers, replace(past, name="present", kind="output")))
    (tmp_path / "prog.bin").write_bytes(write_image(image))
    for name, array in {"x": X, "xs": np.stack([X, 2 * X, 3 * X]), "zero": 0 * X, "short": X[:4]}.items():
        np.save(tmp_path / f"{name}.npy", array)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(script: Any, *more: str) -> int:
    Path("script.json").write_text(script if isinstance(script, str) else json.dumps(script))
    return main(["prog.bin", "-q", "--session", "script.json", *more])


def test_a_script_runs_step_by_step(folder: Path) -> None:
    steps = [
        {"run": {"each": {"x": "xs.npy"}, "outputs": {"y": "ys.npy"}}},
        {"save": "three.steps"},
        {"run": {"inputs": {"x": "x.npy"}, "outputs": {"y": "y.npy"}}},
        {"load": "three.steps"},
        {"write": {"past": "past.npy"}},
        {"reset": True},
        {"run": {"inputs": {"x": "x.npy"}, "repeat": 2, "outputs": {"y": "again.npy"}}},
    ]
    assert run({"state": {"past": "x.npy"}, "steps": steps}) == 0
    sums = X + np.cumsum(np.load("xs.npy") + 1, axis=0)
    np.testing.assert_array_equal(np.load("ys.npy"), sums)
    np.testing.assert_array_equal(np.load("y.npy"), sums[-1] + X + 1)
    np.testing.assert_array_equal(np.load("past.npy"), sums[-1])
    np.testing.assert_array_equal(np.load("again.npy"), [2 * X + 1, 3 * X + 2])


def test_inputs_are_bound_and_constants_replaced(folder: Path) -> None:
    script = {
        "bind": {"x": "x.npy"},
        "constants": {"more": "zero.npy"},
        "steps": [{"run": {"outputs": {"y": "y.npy"}}}],
    }
    assert run(script) == 0
    np.testing.assert_array_equal(np.load("y.npy"), X)


def test_a_fault_names_its_step(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = [{"run": {"inputs": {"x": "x.npy"}}}]
    assert run({"steps": steps}, "--max-instructions", "3") == 3
    assert "prog.bin: fault: step 0: " in capsys.readouterr().err


@pytest.mark.parametrize(
    "script, message",
    [
        ("{", "script.json: Input data was truncated"),
        ({}, "script.json: Object missing required field `steps`"),
        ({"stps": []}, "script.json: Object contains unknown field `stps`"),
        ({"steps": [{"run": {"repeat": 0}}]}, "Expected `int` >= 1 - at `$.steps[0].run.repeat`"),
        ({"steps": [{}]}, "script.json: step 0 has nothing; expected one of run, reset, save, load, write"),
        ({"steps": [{"reset": True, "save": "a"}]}, "step 0 has reset and save; expected one of"),
        ({"steps": [{"run": {}}]}, "input 'x' is missing: bind it, or give it to the step"),
        ({"steps": [], "state": {"y": "x.npy"}}, "the program has no state 'y'; known: past"),
        ({"steps": [], "bind": {"x": "short.npy"}}, "input 'x' is 4 float32, expected 16 float32"),
        ({"steps": [], "bind": {"x": "no.npy"}}, "no.npy: No such file or directory"),
        (
            {"steps": [], "constants": {"mor": "x.npy"}},
            "no constant 'mor'; known: more; did you mean 'more'?",
        ),
        ({"steps": [{"load": "x.npy"}]}, "x.npy: no states of a session: it starts with 93 4e"),
        ({"steps": [{"write": {"y": "y.npy"}}]}, "step 0: the program has no state 'y'; there are: past"),
        (
            {"steps": [{"run": {"each": {"x": "xs.npy"}, "repeat": 2}}]},
            "step 0: numbers of runs differ, or are 0: x: 3, repeat: 2",
        ),
        (
            {"steps": [{"run": {"inputs": {"x": "x.npy"}, "repeat": 10**15, "outputs": {"y": "y.npy"}}}]},
            "step 0: output 'y': 1000000000000000 runs of ",
        ),
        (
            {"steps": [{"run": {"inputs": {"x": "x.npy"}, "outputs": {"z": "z.npy"}}}]},
            "step 0: the program has no output 'z'; there are: y",
        ),
    ],
)
def test_wrong_scripts_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], script: Any, message: str
) -> None:
    assert run(script) == 1
    error = capsys.readouterr().err
    assert error.startswith("tx8emu: error: ") and error.count("\n") == 1
    assert message in error


@pytest.mark.parametrize(
    "option",
    [
        *(("--stats",), ("--random", "0"), ("--strict",), ("--output-dir", "out"), ("--tile", "1")),
        *(("--placement", "cyclic"), ("--at", "3"), ("--explore-seed", "2"), ("--cycles-only",)),
    ],
)
def test_options_of_single_runs_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], option: tuple[str, ...]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        run({"steps": []}, *option)
    assert f"argument --session: not with {option[0]}, which is about a single run" in capsys.readouterr().err


ONE = {"inputs": {"x": "x.npy"}}
OTHER_NAMES = {"linked": "prog.bin", "second": "x.npy"}


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ({"steps": [{"save": "prog.bin"}]}, "prog.bin: 'save' of step 0 would replace the program"),
        ({"steps": [{"save": "linked"}]}, "linked: 'save' of step 0 would replace the program"),
        ({"steps": [{"save": "./script.json"}]}, "./script.json: 'save' of step 0 would replace the script"),
        (
            {"steps": [{"run": ONE}, {"run": ONE | {"outputs": {"y": "second"}}}]},
            "second: an output of step 1, 'y' would replace an input of step 0, 'x'",
        ),
        (
            {"steps": [{"write": {"past": "x.npy"}}], "state": {"past": "x.npy"}},
            "x.npy: a state of step 0, 'past' would replace an array of 'state', 'past'",
        ),
        (
            {"steps": [{"write": {"past": "x.npy"}}], "bind": {"x": "x.npy"}},
            "x.npy: a state of step 0, 'past' would replace an array of 'bind', 'x'",
        ),
        (
            {"steps": [{"save": "zero.npy"}], "constants": {"more": "zero.npy"}},
            "zero.npy: 'save' of step 0 would replace an array of 'constants', 'more'",
        ),
        (
            {"steps": [{"run": {"each": {"x": "xs.npy"}, "outputs": {"y": "xs.npy"}}}]},
            "xs.npy: an output of step 0, 'y' would replace an input of step 0, 'x'",
        ),
        (
            {"steps": [{"load": "old.steps"}, {"save": "old.steps"}]},
            "old.steps: 'save' of step 1 would replace the states of step 0",
        ),
        (
            {"steps": [{"save": "a"}, {"run": ONE}, {"save": "./a"}]},
            "./a: 'save' of step 0 and 'save' of step 2 name the same file",
        ),
        (
            {"steps": [{"run": ONE | {"outputs": {"y": "y.npy"}}}, {"write": {"past": "y.npy"}}]},
            "y.npy: an output of step 0, 'y' and a state of step 1, 'past' name the same file",
        ),
        ({"steps": [{"save": "a\0b"}]}, "'a\\x00b': no file can have this name: expected no NUL"),
        ({"steps": [{"load": "a\0b"}]}, "'a\\x00b': no file can have this name: expected no NUL"),
    ],
)
def test_no_step_replaces_a_file_of_the_session(
    folder: Path, capsys: pytest.CaptureFixture[str], script: Any, message: str
) -> None:
    """Nothing is run, and nothing written."""
    for name, target in OTHER_NAMES.items():
        (folder / name).symlink_to(target)
    (folder / "old.steps").write_bytes(b"states")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert run(script) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"tx8emu: error: {message}") and error.count("\n") == 1
    (folder / "script.json").unlink()
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_the_machine_is_not_replaced(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "own.toml").write_text('like = "tx81"\n')
    assert run({"steps": [{"save": "own.toml"}]}, "--machine", "own.toml") == 1
    assert "own.toml: 'save' of step 0 would replace the machine description" in capsys.readouterr().err
    assert (folder / "own.toml").read_text() == 'like = "tx81"\n'


def test_a_step_may_read_what_a_step_before_has_written(folder: Path) -> None:
    """They are written again if an earlier run of the script has left them."""
    steps = [
        {"run": {"inputs": {"x": "x.npy"}, "outputs": {"y": "y.npy"}}},
        {"save": "a.steps"},
        {"load": "./a.steps"},
        {"run": {"inputs": {"x": "./y.npy"}, "outputs": {"y": "z.npy"}}},
    ]
    for _ in range(2):
        assert run({"steps": steps}) == 0
        np.testing.assert_array_equal(np.load("z.npy"), 2 * X + 3)
