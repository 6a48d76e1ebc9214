"""``Program.run`` on several chips: undivided inputs and outputs, as on one chip, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tx8
from emulator import Fault

RNG = np.random.default_rng(8)
X = RNG.integers(-2, 3, (4, 32)).astype(np.float32)
W = RNG.integers(-2, 3, (32, 32)).astype(np.float32)
"""Small integers: their sums are exact in every format."""


def compiled(degrees: str) -> tx8.Program:
    graph = tx8.GraphBuilder("shared")
    product = graph.input("x", "float32", X.shape) @ W
    graph.output(graph.Relu(product), "relu")
    graph.output(product, "product")
    return tx8.compile(graph, chips=(2, 1), parallel=degrees, tiles=4)


@pytest.fixture(scope="module")
def dealt() -> tx8.Program:
    """Each chip has half of the rows."""
    return compiled("dp=2")


@pytest.mark.parametrize("degrees", ["tp=2", pytest.param("pp=2", marks=pytest.mark.long)])
def test_a_run_takes_and_gives_whole_arrays(degrees: str) -> None:
    program = compiled(degrees)
    run = program.run(X)
    assert np.array_equal(run["product"], X @ W) and np.array_equal(run[0], np.maximum(X @ W, 0))
    with tx8.Session(program, timed=True) as session:
        assert all(np.array_equal(run[name], array) for name, array in session.run(X).items())
        assert int(run.cycles) == session.cycles


def test_what_a_run_knows(dealt: tx8.Program, tmp_path: Path) -> None:
    run = dealt.run({"x": X.tolist()}, threads=2)
    assert [(b.name, b.shape) for b in (*dealt.inputs, *dealt.outputs)] == [
        ("x", (4, 32)),
        ("relu", (4, 32)),
        ("product", (4, 32)),
    ]
    assert run.hazards == ()
    assert run.instructions == sum(chip["instructions"] for chip in run.stats.to_dict()["chips"])
    assert str(run.stats).startswith("time ") and "chip 0:" in str(run.stats) + "chip 1:"
    assert run.cycles == run.stats.longest.cycles == dealt.run(X, timed=False).cycles
    assert json.loads(run.report(tmp_path / "run.json").read_text())["run"]["chips"]
    assert "product" in run._repr_html_() and "2 chips" in repr(run.stats)
    assert np.array_equal(run.verdicts["product"].verdict.max_abs_error, 0)


def test_a_program_from_a_file_has_the_inputs_of_chips(dealt: tx8.Program, tmp_path: Path) -> None:
    loaded = tx8.load(dealt.save(tmp_path))
    run = loaded.run({"chip0.x": X[:2], "chip1.x": X[2:]}, timed=False)
    assert [*run.outputs] == ["chip0.relu", "chip0.product", "chip1.relu", "chip1.product"]
    assert np.array_equal(np.concatenate([run["chip0.product"], run["chip1.product"]]), X @ W)
    same = loaded.run(x=X[:2], timed=False)
    assert np.array_equal(same["chip0.product"], same["chip1.product"])
    assert np.array_equal(loaded.run(X[:2], X[2:], timed=False)["chip1.product"], X[2:] @ W)
    with pytest.raises(tx8.Error, match=r"no input 'chip2.x'; its inputs: chip0.x, chip1.x"):
        loaded.run({"x": X[:2], "chip2.x": X[:2]})
    with pytest.raises(tx8.Error, match=r"input 'chip1.x' is missing"):
        loaded.run({"chip0.x": X[:2]})


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda run: run.report("run.html"),
            "a page is for a run on one chip; this one is on 2: tx8emu --html",
        ),
        (
            lambda run: run.trace("run.json"),
            "a trace is for a run on one chip; this one is on 2: tx8emu --trace",
        ),
        (lambda run: run.report("run.txt"), "'run.txt' ends neither in .html"),
        (lambda run: run.cycles_range, "cycles_range is for a run on one chip; this one is on 2"),
        (lambda run: run.execute(), "execute is for a run on one chip; this one is on 2"),
    ],
)
def test_what_looks_at_one_chip_is_refused(
    dealt: tx8.Program, ask: Callable[[tx8.Run], Any], message: str
) -> None:
    with pytest.raises(tx8.Error) as error:
        ask(dealt.run(X))
    assert str(error.value).startswith(message)


def test_wrong_inputs_and_faults(dealt: tx8.Program) -> None:
    with pytest.raises(tx8.Error, match="input 'x' is 2x32 float32, expected 4x32 float32"):
        dealt.run(X[:2])
    with pytest.raises(Fault, match=r"chip 0: .* stopped after 3 instructions"):
        dealt.run(X, max_instructions=3)
