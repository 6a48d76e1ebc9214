"""Programs of ranges of sizes, proved at some of them."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import emulator
import tx8
from compiler.cli import main
from compiler.driver import Program
from compiler.evaluation.sizes.ranges import ranges_of
from compiler.graph import GraphError
from compiler.tools.verification.findings import lines
from compiler.tools.verification.prove import Prover, prove
from program_mutants import drawn
from range_models import perceptron, picture, recurrent_cell, text_line

Dims = dict[str, tuple[int, int, int]]


def compiled(model: onnx.ModelProto, dims: Mapping[str, Any], **options: Any) -> Program:
    found = tx8.compile(model, dtype="fp16", dims=dims, **options).compiled
    assert found is not None
    return found


@pytest.fixture(scope="module")
def program() -> Program:
    return compiled(perceptron(), {"rows": (1, 20, 300)})


@pytest.fixture(scope="module")
def prover(program: Program) -> Prover:
    return Prover(program)


@pytest.mark.parametrize("size", [1, 11, 20, 37, 300])
def test_a_range_is_proved_at_any_size(size: int, prover: Prover) -> None:
    found = prover.at({"rows": size})
    assert lines(found) == [f"at rows={size}: proved: softmax6, {96 * size:,} elements"]


@pytest.mark.parametrize(
    ("make", "dims"),
    [
        (recurrent_cell, {"streams": (1, 4, 20)}),
        pytest.param(text_line, {"batch": (1, 2, 3), "width": (16, 40, 100)}, marks=pytest.mark.long),
        pytest.param(
            picture,
            {"batch": (1, 1, 2), "height": (16, 32, 48), "width": (16, 32, 48)},
            marks=pytest.mark.long,
        ),
    ],
)
def test_ranges_are_proved_at_their_ends_and_between(make: Any, dims: Dims) -> None:
    prover = Prover(compiled(make(), dims))
    assert len(prover.points) == 3
    for point in prover.points:
        found = prover.at(point)
        assert found.holds, lines(found)
        assert found.sizes == point


def test_states_of_a_free_size_are_proved() -> None:
    """A state for each of some streams, in memory that has room for more."""
    made = compiled(recurrent_cell(), {"streams": (1, 4, 20)}, state={"h": "new_h"})
    found = Prover(made).at({"streams": 3}, steps=2)
    assert found.holds and found.step == 2, lines(found)
    assert found.proved == {"matmul4": 3 * 8, "new_h": 3 * 32}


@pytest.mark.parametrize(
    ("dims", "points"),
    [
        ({"rows": (1, 8, 64)}, [1, 5, 64]),
        ({"rows": (1, 1, 2)}, [1, 2]),
        ({"rows": (2, 2, 3)}, [2, 3]),
        ({"rows": (6, 60, 60)}, [6, 33, 60]),
    ],
)
def test_the_sizes_of_a_proof(dims: Dims, points: list[int], prover: Prover) -> None:
    source = prover.program.ranges
    assert source is not None
    other = copy(prover)
    other.program = replace(prover.program, ranges=replace(source, ranges=ranges_of(dims)))
    assert other.points == [{"rows": size} for size in points]


def test_a_proof_is_at_the_usual_sizes_without_others(prover: Prover) -> None:
    assert prover.at().sizes == {"rows": 20}


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"rows": 301}, "rows is 301; allowed are 1 to 300"),
        ({"rows": 0}, "rows is 0; allowed are 1 to 300"),
        ({"row": 3}, "no dimension 'row'; those with a range: rows; did you mean 'rows'?"),
    ],
)
def test_sizes_that_no_run_has_are_refused(sizes: dict[str, int], message: str, prover: Prover) -> None:
    with pytest.raises(GraphError) as found:
        prover.at(sizes)
    assert str(found.value) == message


def test_sizes_of_a_program_of_one_size_are_refused() -> None:
    one_size = tx8.compile(perceptron(), dtype="fp16", dims={"rows": 4})
    with pytest.raises(tx8.Error, match="the program has one size, not rows"):
        one_size.prove(sizes={"rows": 4})


def test_mistakes_at_other_sizes_are_found(program: Program) -> None:
    """Each mistake is found at an odd size, or gives the same bytes there, or is a hazard."""
    found = 0
    x = np.random.default_rng(1).standard_normal((37, 96)).astype(np.float32)

    def run(of: Program) -> Any:
        loaded = emulator.Program(of.image, of.machine)
        results = loaded.run({"x": x}, strict=True)
        return None if loaded.hazards else [each.tobytes() for each in results.values()]

    right = run(program)
    for mutant in drawn(program, 6, seed=2):
        try:
            proof = prove(mutant.of(program), sizes={"rows": 37})
            if proof.holds:
                assert run(mutant.of(program)) in (None, right), mutant
            else:
                found += 1
        except (emulator.Fault, GraphError):
            continue
    assert found > 1


def test_the_command_proves_ranges(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(perceptron(), tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", np.zeros((9, 96), np.float32))
    command = [str(tmp_path / "m.onnx"), "-q", "--dtype", "fp16", "--prove", "-o", str(tmp_path)]
    assert main([*command, "--dim", "rows=2:16:40"]) == 0
    counts = [(2, "192"), (9, "864"), (40, "3,840")]
    wanted = [f"at rows={rows}: proved: softmax6, {count} elements" for rows, count in counts]
    assert capsys.readouterr().out.splitlines() == wanted
    assert main([*command, "--dim", "rows=2:16:40", "--input", f"x={tmp_path / 'x.npy'}"]) == 0
    assert capsys.readouterr().out.splitlines() == wanted[1:2]
