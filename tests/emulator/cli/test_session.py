"""tx8emu --session: scripts that run a program step by step, and those that are refused."""

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


@pytest.mark.parametrize("option", [("--stats",), ("--random", "0"), ("--strict",), ("--output-dir", "out")])
def test_options_of_single_runs_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], option: tuple[str, ...]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        run({"steps": []}, *option)
    assert f"argument --session: not with {option[0]}, which is about a single run" in capsys.readouterr().err
