"""Images from files: right ones are proved, a mistake in one is named, unsuitable ones are refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tx8
from asm.image import write_image
from compiler.cli import main
from compiler.driver import Program, compile_graph
from compiler.frontend import load
from compiler.graph import GraphError
from compiler.tools.verification.findings import lines
from compiler.tools.verification.prove import prove
from example_modules import example_modules
from onnx_models import imported
from paths import ROOT
from program_mutants import Mutant, left_out
from tx8isa.errors import Tx8Error

WEIGHTS = np.linspace(-1, 1, 24 * 16, dtype=np.float32).reshape(24, 16)


def model(folder: Path, rows: int = 8, factor: float = 1.0) -> Path:
    """A graph of a product and a ReLU, in a file."""
    np.save(folder / "w.npy", WEIGHTS * np.float32(factor))
    nodes = [
        {"op": "MatMul", "name": "product", "inputs": ["x", "w"], "outputs": ["m"]},
        {"op": "Relu", "name": "positive", "inputs": ["m"], "outputs": ["y"]},
    ]
    shape: dict[str, Any] = {"name": "x", "dtype": "float32", "shape": [rows, 24]}
    graph = {"name": "g", "opset": 20, "inputs": [shape], "outputs": ["y"], "nodes": nodes}
    path = folder / "g.json"
    path.write_text(json.dumps(graph | {"constants": {"w": {"file": "w.npy"}}}))
    return path


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """The image of the graph."""
    compile_graph(load(model(tmp_path)), "fp16").write(tmp_path / "made")
    return tmp_path / "made" / "prog.bin"


def without(program: Program, what: str) -> Program:
    """Remove the first line of a program that has a text."""
    numbered = enumerate(program.text.splitlines(), 1)
    return Mutant("", next(at for at, line in numbered if what in line), left_out).of(program)


def test_an_image_is_proved(image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--dtype", "fp16", "-q", "-o", str(tmp_path / "other")]
    assert main([str(tmp_path / "g.json"), *options, f"--prove={image}"]) == 0
    assert capsys.readouterr().out == "proved: y, 128 elements\n"
    assert tx8.load(image).prove(tmp_path / "g.json", dtype="fp16").proved == {"y": 128}


def test_a_compiled_program_is_proved_without_its_model(tmp_path: Path) -> None:
    found = tx8.compile(model(tmp_path), dtype="fp16").prove(seed=3)
    assert found.holds
    assert str(found) == "proved: y, 128 elements"


def test_a_mistake_in_an_image_is_named(
    image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The code of the image is executed, even if its length differs from the graph's program."""
    wrong = without(compile_graph(load(tmp_path / "g.json"), "fp16"), "relu")
    image.write_bytes(write_image(wrong.image))
    graph = str(tmp_path / "g.json")
    assert main([graph, "--dtype", "fp16", "-q", "-o", str(tmp_path / "o"), f"--prove={image}"]) == 3
    said = capsys.readouterr().out
    first = r"the first is y\[\d, \d+\], which is m\[\d, \d+\], computed by ne\.gemm"
    assert re.match(rf"WRONG: \d+ of 128 elements of y; {first}", said)
    found = tx8.load(image).prove(graph, dtype="fp16")
    assert said == f"{found}\n"
    assert not found.holds


def test_code_with_another_factor_than_the_twin_is_proved(tmp_path: Path) -> None:
    """The twin's attention has another scale, which the code of one head holds."""
    with example_modules(ROOT / "examples" / "networks", ("transformers",)) as examples:
        made = examples.transformers
        graph = imported(made.transformer(made.Size(16, 24, 1, 1)), tmp_path)
    program = compile_graph(graph, "fp16")
    found = prove(program, image=program.image)
    assert found.holds, lines(found)


@pytest.mark.parametrize(
    ("made", "options", "said"),
    [
        (
            lambda folder: model(folder, rows=9),
            {},
            r"the image has input x fp32 8x24, .*; the graph's program has input x fp32 9",
        ),
        (
            lambda folder: model(folder, factor=2),
            {},
            r"of the image has \d+ other bytes than the graph's program",
        ),
        (model, {"dtype": "bf16"}, r"it was made from another graph or with other options$"),
    ],
    ids=["shape", "constants", "format"],
)
def test_an_image_of_another_graph_is_refused(
    image: Path, tmp_path: Path, made: Callable[[Path], Path], options: dict[str, str], said: str
) -> None:
    (tmp_path / "second").mkdir()
    with pytest.raises(GraphError, match=said) as refused:
        tx8.load(image).prove(made(tmp_path / "second"), **{"dtype": "fp16"} | options)
    assert "\n" not in str(refused.value)


def test_a_program_that_was_not_compiled_needs_a_model(image: Path) -> None:
    with pytest.raises(Tx8Error, match=r"the program was not compiled here: prove\(model\)"):
        tx8.load(image).prove()


def test_a_file_that_is_no_image_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = model(tmp_path)
    assert main([str(path), "-q", "-o", str(tmp_path / "o"), f"--prove={path}"]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1
