"""Chosen formats: values of data out of a format's range, and the fastest formats within a limit."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import compiler
import tx8
from compiler.evaluation.reference import run_reference
from compiler.graph import Array, Graph, GraphError
from compiler.quantise import (
    Allowed,
    CyclesOf,
    Goal,
    Metric,
    PhaseCycles,
    Quantised,
    Settings,
    automatic,
    compiled_cycles,
    held_wide,
    quantise,
    samples_of,
)
from compiler.tools import run
from compiler.tools.run import random_samples
from float_nets import cosine, float_graph, samples, small_cnn

Nodes = list[tuple[str, str, list[str], str, dict[str, Any]]]


def cycles(dtype: str) -> CyclesOf:
    return compiled_cycles(dtype=dtype, search="off")


def chosen(
    graph: Graph, given: dict[str, Array] | None = None, goal: Goal | None = None, calibrated: bool = False
) -> Quantised:
    known = random_samples(graph, 0) if given is None else samples_of(given, graph)
    return automatic(graph, known, Allowed(goal or Goal(), Settings(), calibrated), cycles)


def lost(graph: Graph, made: Quantised, inputs: dict[str, Array]) -> float:
    """Return 1 less the cosine of the chip's result and the reference."""
    program = compiler.compile(made.graph, made.dtype, search="off")
    found, exact = run.execute(program, inputs)[0]["y"], run_reference(graph, inputs)["y"]
    return 1 - cosine(found, exact)


def powers() -> Graph:
    """A norm written out, by powers that no rewrite knows: the fourth powers leave FP16 beyond 16."""
    nodes: Nodes = [
        ("Mul", "square", ["x", "x"], "q", {}),
        ("Mul", "fourth", ["q", "q"], "f", {}),
        ("Relu", "limited", ["f"], "r", {}),
        ("Sqrt", "root", ["r"], "s", {}),
        ("Sqrt", "again", ["s"], "t", {}),
        ("MatMul", "product", ["t", "w"], "y", {}),
    ]
    rng = np.random.default_rng(4)
    return float_graph(nodes, {"x": (16, 64)}, {"w": rng.standard_normal((64, 32)).astype(np.float32)})


def draws(scale: float, shape: tuple[int, ...] = (16, 64), count: int = 8) -> dict[str, Array]:
    rng = np.random.default_rng(3)
    return {"x": (rng.standard_normal((count, *shape)) * scale).astype(np.float32)}


def test_data_say_what_fp16_cannot_hold() -> None:
    graph, given = powers(), draws(8.0)
    held = held_wide(graph, samples_of(given, graph), "fp16")
    assert held.wide is not None
    assert set(held.wide.values) == {"f", "r"}
    assert held.graph.precise == {"fourth", "limited", "root"}
    inputs = {"x": given["x"][0]}
    exact = run_reference(graph, inputs)["y"]
    plain, wide = (
        run.execute(compiler.compile(each, "fp16"), inputs)[0]["y"] for each in (graph, held.graph)
    )
    assert not np.isfinite(plain).all()
    assert np.abs(wide - exact).max() < 0.01 * np.abs(exact).max()


def test_ordinary_data_change_nothing() -> None:
    graph = powers()
    held = held_wide(graph, samples_of(draws(1.0), graph), "fp16")
    assert (held.wide, held.graph.precise, held.dtype) == (None, frozenset(), "fp16")


@pytest.mark.parametrize("dtype", ["bf16", "tf32", None])
def test_other_formats_hold_what_fp32_holds(dtype: str | None) -> None:
    graph = powers()
    assert held_wide(graph, samples_of(draws(8.0), graph), dtype).wide is None


def test_inputs_that_fp16_cannot_hold_are_read_in_fp32() -> None:
    graph = float_graph([("Log", "log", ["x"], "y", {})], {"x": (4, 8)}, {})
    given = {"x": np.full((8, 4, 8), 1e6, np.float32)}
    held = held_wide(graph, samples_of(given, graph), "fp16")
    program = compiler.compile(held.graph, "fp16")
    found = run.execute(program, {"x": given["x"][0]})[0]["y"]
    np.testing.assert_allclose(found, np.log(1e6), rtol=1e-3)


# --- the choice -----------------------------------------------------------------------------------------


def test_two_bytes_are_enough_for_an_ordinary_network() -> None:
    graph = small_cnn()
    made = chosen(graph)
    assert made.dtype == "fp16"
    assert set(made.table.formats().values()) == {"fp16"}
    names = [trial.name for trial in made.table.trials]
    assert names == ["fp16", "bf16"]
    losses = [trial.loss for trial in made.table.trials]
    assert losses == sorted(losses)
    assert lost(graph, made, {"x": samples(graph, 1, 99)["x"][0]}) < 0.001


def test_what_two_bytes_cannot_hold_is_compared_with_other_formats() -> None:
    """FP16 with FP32 around the fourth powers, or a format that holds them: the fastest one is chosen."""
    graph, given = powers(), draws(8.0)
    made = chosen(graph, given)
    assert made.table.loss is not None and made.table.loss < 0.001
    compared = {trial.name: trial.cycles for trial in made.table.trials}
    assert {"fp16 and fp32", "bf16"} <= compared.keys()
    known = [found for found in compared.values() if found is not None]
    assert compared[made.table.trials[0].name] == min(known)
    assert lost(graph, made, {"x": given["x"][0]}) < 0.001


def cancelling() -> Graph:
    """Two products, and a difference of nearly equal numbers, which vanishes in two-byte formats."""
    rng = np.random.default_rng(6)
    constants: dict[str, Array] = {
        "w": rng.standard_normal((64, 64)).astype(np.float32) / 8,
        "much": np.array(3000, np.float32),
    }
    constants["v"] = rng.standard_normal((64, 64)).astype(np.float32) / 8
    nodes: Nodes = [
        ("MatMul", "first", ["x", "w"], "a", {}),
        ("Add", "far", ["a", "much"], "b", {}),
        ("Tanh", "bent", ["a"], "t", {}),
        ("Add", "moved", ["b", "t"], "c", {}),
        ("Sub", "back", ["c", "much"], "d", {}),
        ("MatMul", "second", ["d", "v"], "y", {}),
    ]
    return float_graph(nodes, {"x": (16, 64)}, constants)


def test_nodes_that_lose_are_in_fp32() -> None:
    graph = cancelling()
    made = chosen(graph, goal=Goal(0.0005))
    assert {trial.name for trial in made.table.trials} >= {"fp16", "bf16", "fp16 and fp32", "fp32"}
    assert made.table.loss is not None and made.table.loss <= 0.0005
    assert lost(graph, made, {"x": draws(1.0)["x"][0]}) < 0.001
    mixed = next(trial for trial in made.table.trials if trial.name == "fp16 and fp32")
    assert mixed.loss <= 0.0005 and 0 < mixed.aside < 6


@pytest.mark.parametrize(("with_bytes", "expected"), [(90, "int8"), (110, "fp16")])
def test_bytes_are_chosen_where_they_are_faster(with_bytes: int, expected: str) -> None:
    """The expected time of the phases decides; here they take 100 cycles without bytes."""
    graph, given = small_cnn(), samples(small_cnn())

    def expectation(dtype: str) -> CyclesOf:
        def cycles(graph: Graph) -> list[PhaseCycles]:
            quantised = any(node.op == "QuantizeLinear" for node in graph.nodes)
            return [PhaseCycles(("c0",), with_bytes if quantised else 100)]

        return cycles

    allowed = Allowed(Goal(0.01), Settings())
    made = automatic(graph, samples_of(given, graph), allowed, expectation)
    assert made.table.narrow == expected
    assert [trial.cycles for trial in made.table.trials[:2]] == sorted([with_bytes, 100, 100])[:2]
    assert lost(graph, made, {"x": given["x"][0]}) < 0.01
    without_data = automatic(graph, samples_of(given, graph), replace(allowed, calibrated=False), expectation)
    assert without_data.table.narrow == "fp16"


def test_a_quantised_network_gets_a_format_for_its_floats() -> None:
    bytes_ = quantise(small_cnn(), samples_of(samples(small_cnn()), small_cnn()), Settings(), Goal()).graph
    made = chosen(bytes_, samples(small_cnn()), calibrated=True)
    assert made.dtype == "fp16"
    assert [trial.name for trial in made.table.trials] == ["fp16", "bf16"]


def test_the_metric_of_the_user_decides() -> None:
    """A metric that only considers the sign accepts results that the cosine would not."""
    graph = cancelling()

    def signs(outputs: dict[str, Array]) -> float:
        return float(np.isfinite(outputs["y"]).all())

    made = chosen(graph, goal=Goal(0.0, Metric("signs", signs)))
    assert made.dtype in ("fp16", "bf16")
    assert made.table.loss == 0.0
    assert "signs lost 0.000%" in made.table.summary()


def test_the_table_has_what_was_compared() -> None:
    made = chosen(small_cnn())
    lines = made.table.text().split("\n")
    assert lines[0].split() == ["formats", "in", "wider", "ones", "lost", "estimated", "cycles"]
    assert lines[1].startswith("fp16") and lines[1].endswith("chosen")
    assert lines[2].startswith("bf16")
    assert lines[4].split() == ["node", "operator", "format", "sensitivity", "estimated", "cycles", "won"]


# --- files ----------------------------------------------------------------------------------------------


def test_chosen_formats_are_read_back(tmp_path: Path) -> None:
    graph, given = cancelling(), draws(1.0)
    made = chosen(graph, given, Goal(0.0005))
    content = json.loads(made.table.json())
    content["dtype"] = "bf16"
    for at, saved in enumerate(content["nodes"].values()):
        saved["format"] = "fp32" if at % 2 else "bf16"
    path = tmp_path / "f.json"
    path.write_text(json.dumps(content))
    again = chosen(graph, given, Goal(formats=path))
    assert again.dtype == "bf16"
    assert again.table.formats() == {name: saved["format"] for name, saved in content["nodes"].items()}
    assert again.graph.precise >= {name for name, found in again.table.formats().items() if found == "fp32"}
    with pytest.raises(
        GraphError, match=r"is lost with them; at most 0\.000% is allowed: keep more nodes in"
    ):
        chosen(graph, given, Goal(0.0, formats=path))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(dtype="fp8"), "floats in 'fp8'; allowed are fp16, bf16, tf32, fp32"),
        (lambda c: c["nodes"]["far"].update(format="bf16"), "node 'far' in 'bf16'; allowed are fp16, fp32"),
        (lambda c: c["nodes"].update(other=c["nodes"]["far"]), "the graph has no node 'other'; it was made"),
        (lambda c: c["nodes"]["first"].update(format="int8"), "nodes in int8 need samples of the inputs"),
    ],
)
def test_files_that_do_not_fit_are_refused(
    change: Callable[[dict[str, Any]], Any], message: str, tmp_path: Path
) -> None:
    graph = cancelling()
    names = {node.name: {"operator": node.op, "format": "fp16"} for node in graph.nodes}
    content = {"version": 1, "graph": "net", "dtype": "fp16", "nodes": names}
    change(content)
    (tmp_path / "f.json").write_text(json.dumps(content))
    with pytest.raises(GraphError) as caught:
        chosen(graph, goal=Goal(formats=tmp_path / "f.json"))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


# --- from Python ----------------------------------------------------------------------------------------


def test_python_chooses_too() -> None:
    graph = cancelling()
    program = tx8.compile(graph, dtype="auto", max_loss=0.0005, search="off")
    assert program.formats is not None and program.formats.loss is not None
    assert program.formats.loss <= 0.0005
    inputs = {"x": draws(1.0)["x"][0]}
    found = program.run(inputs).outputs["y"]
    assert cosine(np.asarray(found), run_reference(graph, inputs)["y"]) > 0.999


def test_python_says_what_data_do_not_hold() -> None:
    program = tx8.compile(powers(), dtype="fp16", calibrate=draws(8.0))
    assert program.compiled is not None and program.compiled.wide is not None
    assert "'f' (up to " in str(program.compiled.wide)
    assert program.formats is None
