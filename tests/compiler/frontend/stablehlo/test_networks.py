"""Networks that JAX wrote, compiled and run on the emulated chip, against what JAX computed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import compiler
import tx8
from compiler.cli import main
from compiler.evaluation.reference import run_reference
from compiler.frontend import load
from compiler.rewrite import rewrite_graph
from compiler.tools import run
from stablehlo_cases import FOLDER, NETWORKS, fed, network_arrays

LOOSE = {"mixture": 2e-3}
"""JAX rounds each operation of a network in bfloat16; here values that stay in the chip are not rounded."""


def test_twelve_networks_are_there() -> None:
    assert len(NETWORKS) == 12
    assert all(path.stat().st_size < 60_000 for path in FOLDER.rglob("*.mlir"))


@pytest.mark.parametrize("name", NETWORKS)
def test_the_chip_gives_what_jax_gives(name: str) -> None:
    graph = load(FOLDER / f"{name}.mlir")
    given, expected = network_arrays(name)
    inputs = fed(graph, given)
    computed = run_reference(graph, inputs)
    outputs, _ = run.execute(compiler.compile(graph), inputs)
    for tensor, wanted in zip(graph.outputs, expected, strict=True):
        assert outputs[tensor.name].shape == wanted.shape
        if tensor.is_float:
            assert np.abs(computed[tensor.name] - wanted).max() < LOOSE.get(name, 2e-5)
            assert np.abs(outputs[tensor.name] - wanted).max() < LOOSE.get(name, 5e-5)
        else:
            assert np.array_equal(outputs[tensor.name], wanted)


@pytest.mark.parametrize("name", ["mlp", "cnn", "cached_step", "ranking"])
def test_nothing_races(name: str) -> None:
    program = tx8.compile(FOLDER / f"{name}.mlir", dtype="fp16")
    finished = program.run(*network_arrays(name)[0])
    assert finished.hazards == ()


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "operators"),
    [
        ("mlp", {"Gemm", "Relu", "Softmax"}),
        ("attention", {"Softmax"}),
        ("updates", {"Gelu"}),
        ("decoder", {"Rotary"}),
    ],
)
def test_what_jax_writes_out_is_found_again(name: str, operators: set[str]) -> None:
    found = {node.op for node in rewrite_graph(load(FOLDER / f"{name}.mlir")).nodes}
    assert operators <= found


@pytest.mark.parametrize(
    ("name", "operator", "most"),
    [
        ("mobile", "Transpose", 1),
        ("cnn", "Transpose", 2),
        ("spectrum", "Transpose", 4),
        ("recurrent", "Concat", 1),
    ],
)
def test_little_is_only_moved(name: str, operator: str, most: int) -> None:
    """Images keep their channels in front, and a scan collects its results once."""
    operators = [node.op for node in rewrite_graph(load(FOLDER / f"{name}.mlir")).nodes]
    assert operators.count(operator) <= most


def test_the_command_runs_a_module(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", network_arrays("mlp")[0][0])
    arguments = ["--run", "-q", "-o", str(tmp_path / "out"), "--output-dir", str(tmp_path / "out")]
    assert main([str(FOLDER / "mlp.mlir"), *arguments, "--input", f"arg0={tmp_path / 'x.npy'}"]) == 0
    assert "error" not in capsys.readouterr().err
    found = np.load(tmp_path / "out" / "result.npy")
    assert np.abs(found - network_arrays("mlp")[1][0]).max() < 2e-5


def test_the_check_lists_the_operations(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(FOLDER / "recurrent.mlir"), "--check"]) == 0
    table = capsys.readouterr().out
    assert "stablehlo.dot_general" in table and "engines" in table
    assert "while" not in table.split("nodes")[0]
