"""Formats chosen by a search, written to a file, edited and read; metrics defined by the user."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import compiler
from compiler.evaluation.host_run import HostRun
from compiler.graph import Array, Graph, GraphError
from compiler.quantise import Goal, Metric, Quantised, Settings, compiled_cycles, quantise, samples_of
from compiler.tools import run
from float_nets import by_onnxruntime, cosine, float_graph, samples, small_cnn

PRODUCTS = ("MatMul", "Add")
"""Suffixes of the names of products and of their bias additions."""


def fragile(seed: int = 5) -> Graph:
    """Four products; only ``bad`` fails in bytes, because its small columns carry the result."""
    rng = np.random.default_rng(seed)
    constants = {f"w{at}": (rng.standard_normal((32, 32)) / 6).astype(np.float32) for at in range(3)}
    spread = np.geomspace(1, 3000, 32).astype(np.float32)
    constants["bad"] = (rng.standard_normal((32, 32)) / spread[:, None]).astype(np.float32)
    constants["spread"] = spread
    nodes: list[tuple[str, str, list[str], str, dict[str, Any]]] = [
        ("MatMul", "a", ["x", "w0"], "a", {}),
        ("Relu", "r", ["a"], "r", {}),
        ("MatMul", "b", ["r", "w1"], "b", {}),
        ("Tanh", "t", ["b"], "t", {}),
        ("Mul", "wide", ["t", "spread"], "s", {}),
        ("MatMul", "bad", ["s", "bad"], "c", {}),
        ("MatMul", "d", ["c", "w2"], "y", {}),
    ]
    return float_graph(nodes, {"x": (8, 32)}, constants)


def chosen(graph: Graph, goal: Goal, **more: Any) -> Quantised:
    return quantise(graph, samples_of(samples(graph), graph), Settings(), goal, **more)


def lost(graph: Graph, made: Graph) -> float:
    """1 less the mean cosine over the samples, by onnxruntime."""
    found = [
        cosine(by_onnxruntime(made, {"x": x})["y"], by_onnxruntime(graph, {"x": x})["y"])
        for x in samples(graph)["x"]
    ]
    return 1 - float(np.mean(found))


def test_only_the_node_that_loses_stays_in_float() -> None:
    graph = fragile()
    everything, made = chosen(graph, Goal()), chosen(graph, Goal(0.005))
    assert lost(graph, everything.graph) > 0.05
    assert lost(graph, made.graph) < 0.005
    assert made.table.formats() == {"a": "int8", "b": "int8", "bad": "fp16", "d": "int8"}
    assert made.table.loss is not None and made.table.loss < 0.005
    most = max(made.table.decisions, key=lambda item: item.sensitivity or 0.0)
    assert most.node == "bad"
    assert "in float: bad;" in made.table.summary()


def test_a_loss_of_nothing_keeps_everything_in_float() -> None:
    graph = fragile()
    made = chosen(graph, Goal(0.0))
    assert set(made.table.formats().values()) == {"fp16"}
    inputs = {"x": samples(graph, 1)["x"][0]}
    np.testing.assert_array_equal(HostRun(made.graph).run(inputs)["y"], HostRun(graph).run(inputs)["y"])


def test_a_loss_that_is_not_reached_keeps_nothing() -> None:
    made = chosen(small_cnn(), Goal(0.5))
    assert set(made.table.formats().values()) == {"int8"}


def test_sensitivities_are_those_of_nodes_alone(tmp_path: Path) -> None:
    """Each is the loss of the graph in which only that node has bytes, made from a file of formats."""
    graph = fragile()
    made = chosen(graph, Goal(0.005))
    few = {"x": samples(graph)["x"][:4]}
    for decision in made.table.decisions:
        alone = {item.node: "int8" if item is decision else "fp16" for item in made.table.decisions}
        path = _saved(made, alone, tmp_path / f"{decision.node}.json")
        one = chosen(graph, Goal(formats=path)).graph
        found = [
            cosine(by_onnxruntime(one, {"x": x})["y"], by_onnxruntime(graph, {"x": x})["y"]) for x in few["x"]
        ]
        assert decision.sensitivity == pytest.approx(1 - np.mean(found), rel=0.1, abs=2e-6)


@pytest.mark.long
def test_cycles_won_are_those_of_the_compiler() -> None:
    """Together they are the time of products, with their added operators, in one program minus the time in
    the other."""
    graph = fragile()
    made = chosen(graph, Goal(0.5), cycles=compiled_cycles(dtype="fp16", search="off"))
    assert all(
        decision.cycles is None or isinstance(decision.cycles, int) for decision in made.table.decisions
    )
    reports = [compiler.compile(g, "fp16").report for g in (graph, made.graph)]
    assert all(report is not None for report in reports)
    searched = chosen(graph, Goal(0.5), cycles=compiled_cycles(dtype="fp16"))
    won = sum(decision.cycles or 0 for decision in searched.table.decisions)
    products = [
        sum(p.estimate or 0 for p in r.phases if any(m.operator.endswith(PRODUCTS) for m in p.members))
        for r in reports
        if r
    ]
    assert abs(won - (products[0] - products[1])) <= 0.5 * products[0]


# --- files ----------------------------------------------------------------------------------------------


def _saved(made: Quantised, formats: dict[str, str], path: Path) -> Path:
    content = json.loads(made.table.json())
    for name, found in formats.items():
        content["nodes"].setdefault(name, {"operator": "X", "format": ""})["format"] = found
    path.write_text(json.dumps(content))
    return path


def test_formats_are_read_back(tmp_path: Path) -> None:
    graph = fragile()
    made = chosen(graph, Goal(0.005))
    (tmp_path / "f.json").write_text(made.table.json())
    again = chosen(graph, Goal(formats=tmp_path / "f.json"))
    assert again.table.formats() == made.table.formats()
    assert again.graph.nodes == made.graph.nodes


@pytest.mark.long
def test_an_edited_file_decides(tmp_path: Path) -> None:
    """A node in FP32 is computed in FP32, together with its group."""
    graph = small_cnn()
    formats = {"c1": "fp16", "fc": "fp32", "softmax": "fp32"}
    path = _saved(chosen(graph, Goal()), formats, tmp_path / "f.json")
    made = chosen(graph, Goal(formats=path))
    assert made.table.formats() == {**dict.fromkeys(["c0", "sum", "c2", "c3"], "int8"), **formats}
    assert made.graph.precise >= {"fc", "softmax"}
    inputs = {"x": samples(graph, 1, 50)["x"][0]}
    program = compiler.compile(made.graph, made.dtype)
    assert run.check(program, inputs).ok
    assert cosine(run.execute(program, inputs)[0]["y"], by_onnxruntime(graph, inputs)["y"]) > 0.998


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda c: c["nodes"].update(other=c["nodes"]["c0"]),
            "the graph has no node 'other'; it was made for graph",
        ),
        (
            lambda c: c["nodes"].pop("c0"),
            "says nothing of node 'c0'; it was made for graph 'net', this is 'net'",
        ),
        (
            lambda c: c["nodes"]["c0"].update(format="int4"),
            "node 'c0' in 'int4'; allowed are int8, fp16, fp32",
        ),
        (
            lambda c: c["nodes"].update(softmax={"operator": "", "format": "int8"}),
            "node 'softmax' cannot be int8",
        ),
        (lambda c: c.update(version=2), "formats of version 2; known is 1"),
        (lambda c: c.pop("graph"), "not a file of formats: Object missing required field `graph`"),
        (
            lambda c: c["nodes"]["c0"].update(bits=4),
            "not a file of formats: Object contains unknown field `bits`",
        ),
    ],
)
def test_files_that_do_not_fit_are_refused(
    change: Callable[[dict[str, Any]], Any], message: str, tmp_path: Path
) -> None:
    graph = small_cnn()
    content = json.loads(chosen(graph, Goal()).table.json())
    change(content)
    (tmp_path / "f.json").write_text(json.dumps(content))
    with pytest.raises(GraphError) as caught:
        chosen(graph, Goal(formats=tmp_path / "f.json"))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_for_another_graph_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f.json").write_text(chosen(fragile(), Goal()).table.json())
    with pytest.raises(GraphError, match="the graph has no node 'a'"):
        chosen(small_cnn(), Goal(formats=tmp_path / "f.json"))


def test_a_file_that_loses_too_much_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f.json").write_text(chosen(fragile(), Goal()).table.json())
    with pytest.raises(GraphError, match=r"% is lost with them; at most 0\.500% is allowed: keep more nodes"):
        chosen(fragile(), Goal(0.005, formats=tmp_path / "f.json"))


# --- metrics --------------------------------------------------------------------------------------------


def agreement(graph: Graph) -> Callable[[dict[str, Array]], float]:
    """The share of the rows whose largest element is at the same place as onnxruntime's for floats."""
    want = np.array([by_onnxruntime(graph, {"x": x})["y"].argmax(axis=-1) for x in samples(graph)["x"]])
    return lambda outputs: float(np.mean(outputs["y"].argmax(axis=-1) == want))


def test_a_metric_of_the_user_decides() -> None:
    graph = fragile()
    metric = Metric("agreement", agreement(graph))
    made = chosen(graph, Goal(0.05, metric))
    found = {"y": np.array([by_onnxruntime(made.graph, {"x": x})["y"] for x in samples(graph)["x"]])}
    assert agreement(graph)(found) >= 0.94
    assert made.table.formats()["bad"] == "fp16"
    assert "agreement lost" in made.table.summary()


def raising(outputs: dict[str, Array]) -> float:
    raise KeyError("probabilities")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (raising, "metric mine raised KeyError: 'probabilities'"),
        (lambda outputs: "good", "metric mine gave a str; expected a finite number"),
        (lambda outputs: float("nan"), "metric mine gave nan; expected a finite number"),
        (lambda outputs: outputs["y"], "metric mine gave a ndarray; expected a finite number"),
    ],
)
def test_a_metric_that_fails_is_one_line(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(GraphError) as caught:
        chosen(small_cnn(), Goal(0.1, Metric("mine", function)))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_metric_may_not_change_what_the_others_see() -> None:
    def destructive(outputs: dict[str, Array]) -> float:
        outputs["y"][:] = 0
        return 1.0

    made = chosen(small_cnn(), Goal(metric=Metric("mine", destructive)))
    assert made.table.loss == 0.0
