"""``tx8emu PROGRAM --prove GRAPH``: the image shows how it was made; unsuitable arguments are refused in one
line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import tx8
from asm.image import write_image
from compiler.driver import compile_entries
from emulator.cli import main as emulator_main
from onnx_models import imported
from paths import ROOT
from program_mutants import Mutant
from range_models import perceptron
from tx8.judge.proof import main
from tx8_entry import commands

MACHINES = ROOT / "tx8isa" / "machine" / "machines"


FLOAT = onnx.TensorProto.FLOAT


def model(weights: float = 1.0, rows: int = 4) -> onnx.ModelProto:
    """A state to which products are added."""
    w = np.linspace(-weights, weights, 24 * 16, dtype=np.float32).reshape(24, 16)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Add", ["past", "m"], ["present"]),
    ]
    return written(nodes, {"past": [rows, 16], "x": [rows, 24]}, {"present": [rows, 16]}, w)


def written(nodes: Any, inputs: Any, outputs: Any, w: Any) -> onnx.ModelProto:
    ends = [
        [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in each.items()]
        for each in (inputs, outputs)
    ]
    graph = helper.make_graph(nodes, "g", *ends, [numpy_helper.from_array(w, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def saved(made: onnx.ModelProto, folder: Path) -> Path:
    onnx.save(made, folder / "g.onnx")
    return folder / "g.onnx"


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """An image of the model, with the description of its graph."""
    program = tx8.compile(model(), dtype="bf16", tiles=3, state={"past": "present"})
    saved(model(), tmp_path)
    return program.save(tmp_path)


def test_an_image_is_proved_as_it_was_made(
    image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["tx8emu", str(image), "--prove", str(tmp_path / "g.onnx")])
    assert commands.tx8emu() == 0
    steps = [f"at step {step}: proved: present, 64 elements" for step in (1, 2, 3)]
    assert capsys.readouterr().out.splitlines() == steps


def test_a_range_is_proved_as_the_image_declares_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(perceptron(), tmp_path / "m.onnx")
    made = tx8.compile(perceptron(), dtype="fp16", dims={"rows": (2, 16, 40)}).save(tmp_path)
    assert main([str(made), "--prove", str(tmp_path / "m.onnx")]) == 0
    counts = [(2, "192"), (9, "864"), (40, "3,840")]
    wanted = [f"at rows={rows}: proved: softmax6, {count} elements" for rows, count in counts]
    assert capsys.readouterr().out.splitlines() == wanted


def test_a_wrong_image_is_named(image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tx8.compile(model(), dtype="bf16", tiles=3, state={"past": "present"}).compiled
    assert program is not None
    lines = enumerate(program.text.splitlines(), 1)
    number = next(at for at, line in lines if "ne.gemm" in line)
    wrong = Mutant("", number, lambda line: line.replace("k=24", "k=23")).of(program)
    image.write_bytes(write_image(wrong.image))
    assert main([str(image), "--prove", str(tmp_path / "g.onnx")]) == 3
    assert capsys.readouterr().out.startswith("at step 1: WRONG: 64 of 64 elements of present; the first is ")


def said(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Return the only line about arguments that are refused."""
    assert main([*map(str, arguments)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("tx8emu: error: ")
    return line.removeprefix("tx8emu: error: ")


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (model(2.0), "it was made from another graph or with other options"),
        (model(rows=5), "the image has input past "),
    ],
    ids=["constants", "shape"],
)
def test_another_graph_is_refused(
    other: onnx.ModelProto, message: str, image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in said(capsys, image, "--prove", saved(other, tmp_path))


def test_a_graph_without_the_states_is_refused(
    image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    graph = written(nodes, {"x": [4, 24]}, {"y": [4, 16]}, np.ones((24, 16), np.float32))
    wanted = "state past=present: the graph has no input 'past'; its inputs: x"
    assert said(capsys, image, "--prove", saved(graph, tmp_path)) == wanted


def test_other_programs_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = saved(model(), tmp_path)
    hand = tx8.assemble("_start: li a7, 93\n ecall").save(tmp_path / "hand")
    assert said(capsys, hand, "--prove", graph) == "the program has no input 'past'; its inputs: none"
    assert "of one; --tiles is about programs that it has" in said(
        capsys, hand, "--prove", graph, "--tiles", "2"
    )
    chips = tx8.compile(model(), dtype="fp16", chips=(2, 1)).save(tmp_path / "chips")
    assert "runs on 2 chips" in said(capsys, chips, "--prove", graph)
    both = compile_entries({name: imported(model(), tmp_path) for name in ("a", "b")}, dtype="fp16")
    both.write(tmp_path / "both")
    image = tmp_path / "both" / "prog.bin"
    assert "has the networks a, b; --prove takes programs of one" in said(capsys, image, "--prove", graph)


def test_another_machine_is_refused(image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machine = MACHINES / "tx81-4x8.toml"
    line = said(capsys, image, "--prove", tmp_path / "g.onnx", "--machine", machine)
    assert line.startswith(str(image)) and "machine" in line


def test_files_that_are_none_are_refused(
    image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "cannot be read" in said(capsys, image, "--prove", tmp_path / "none.onnx")
    assert "cannot be read" in said(capsys, tmp_path / "none.bin", "--prove", tmp_path / "g.onnx")


@pytest.mark.parametrize(
    ("start", "arguments", "message"),
    [
        (main, ["p.bin", "--prove"], "argument --prove: expected a graph"),
        (main, ["p.bin", "--prove", "g.onnx", "--stats"], "unrecognized arguments: --stats"),
        (
            emulator_main,
            ["p.bin", "--prove", "g.onnx"],
            "argument --prove: needs the compiler too: start the command tx8emu",
        ),
    ],
)
def test_wrong_usage_is_one_line(
    start: object, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert callable(start)
    with pytest.raises(SystemExit) as left:
        start(arguments)
    assert left.value.code == 2
    assert capsys.readouterr().err == f"tx8emu: error: {message}; see tx8emu --help\n"
