"""Random graphs of many operators and types on the emulated chip; ``random_runs.py`` makes more."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from random_graphs import GraphDraw, drawn, setting
from random_runs import found_problems, problems, shrunk, wrong

SEEDS = range(200)


@pytest.mark.parametrize("seed", SEEDS)
def test_graph(seed: int, tmp_path: Path) -> None:
    found = found_problems(seed, tmp_path)
    assert not found, f"python tests/support/networks/random_runs.py {seed} {seed + 1}: {found}"


def test_the_graphs_are_of_many_kinds() -> None:
    draws = [drawn(seed)[0] for seed in range(60)]
    operators = {node.op_type for draw in draws for node in draw.nodes}
    assert len(operators) > 90
    assert {"Conv", "MatMul", "Loop", "If", "Cast", "TopK", "Pad", "Where"} <= operators
    assert {draw.opset for draw in draws} >= {13, 17, 25}
    assert any(draw.special for draw in draws)
    types = {array.dtype.name for draw in draws for array in draw.inputs.values()}
    assert {"float32", "int64", "int32", "uint8", "int8", "bool"} <= types


def test_a_graph_is_the_same_every_time() -> None:
    assert drawn(5)[1].SerializeToString() == drawn(5)[1].SerializeToString()
    assert drawn(5)[1].SerializeToString() != drawn(6)[1].SerializeToString()


def _with_a_wrong_sum() -> GraphDraw:
    """Three nodes; the declared value of the second one is wrong."""
    draw = GraphDraw(np.random.default_rng(3), "fp32", 20, False)
    x = draw.input(draw.numbers((3, 5)))
    draw.add("Abs", [x], exact=True)
    draw.add("Add", ["v1", "v1"], exact=True)
    draw.add("Neg", ["v2"], exact=True)
    draw.values["v2"] = draw.values["v2"] + 1
    return draw


def test_a_wrong_value_is_found_and_shrunk_to_its_node(tmp_path: Path) -> None:
    draw, how = _with_a_wrong_sum(), setting(0)
    (found,) = problems(draw, draw.model(["v2", "v3"]), how, tmp_path)
    assert found.startswith("v2 [3, 5] float32: ")
    small, made = shrunk(draw, how, tmp_path)
    assert [node.op_type for node in made.graph.node] == ["Add"]
    assert list(small.inputs) == ["v1"]


@pytest.mark.parametrize(
    ("got", "wanted", "right"),
    [
        (np.array([1.0, np.nan]), np.array([1.0, np.nan]), True),
        (np.array([1.0, np.nan]), np.array([1.0, 2.0]), False),
        (np.array([1.0, np.inf]), np.array([1.0, np.inf]), True),
        (np.array([1.0, np.inf]), np.array([1.0, 7.0]), False),
        (np.array([1.0, 7.0]), np.array([1.0, np.inf]), False),
        (np.array([1.0, 2.0]), np.array([1.0, 2.5]), False),
    ],
)
def test_what_is_wrong(got: np.ndarray, wanted: np.ndarray, right: bool) -> None:
    found = wrong(got.astype(np.float32), wanted.astype(np.float32), "fp32")
    assert (found is None) == right
    assert wrong(got.astype(np.float32)[:1], wanted.astype(np.float32), "fp32") is not None
