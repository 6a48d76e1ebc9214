"""--verify-nodes: every node is judged separately, and the first wrong one is written as a graph."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from compiler import driver
from compiler.cli import main
from compiler.driver import Program, compile_graph
from compiler.evaluation.reference import run_reference
from compiler.frontend.json.reader import load_graph
from compiler.graph import Array, Graph
from compiler.tools.verification.excerpt import excerpt, with_outputs, write_excerpt
from compiler.tools.verification.nodes import table, verify
from compiler_harness import draw, graph, ints

CHAIN = graph(
    [
        ("MatMul", ["x", "w"], ["m"], {}),
        ("Exp", ["m"], ["e"], {}),
        ("Reshape", ["e", "shape"], ["r"], {}),
        ("Sqrt", ["r"], ["s"], {}),
        ("Add", ["s", "r"], ["y"], {}),
    ],
    {"x": (3, 8)},
    {"w": draw(8, 4, seed=3) / 4, "shape": ints(4, 3)},
)
X = {"x": draw(3, 8)}


def compiled(made: Graph) -> Program:
    return compile_graph(made, "fp16", 2)


def with_wrong(op: str, wrong: str, compile_: Callable[..., Program]) -> Callable[..., Program]:
    """A compiler that takes one operator for another."""

    def compile_wrong(made: Graph, *arguments: Any, **options: Any) -> Program:
        nodes = tuple(replace(node, op=wrong) if node.op == op else node for node in made.nodes)
        return replace(compile_(replace(made, nodes=nodes), *arguments, **options), graph=made)

    return compile_wrong


def test_every_node_is_judged_and_right() -> None:
    found = verify(CHAIN, X, compiled)
    assert found.ok
    assert found.part is found.at is found.wrong is None
    assert [(item.node.op, item.tensor.name) for item in found.checks] == [
        ("MatMul", "m"),
        ("Exp", "e"),
        ("Reshape", "r"),
        ("Sqrt", "s"),
        ("Add", "y"),
    ]
    assert table(found).endswith("5 nodes are right")


def test_errors_add_up_but_are_judged_one_by_one() -> None:
    """The Reshape has no error of its own, but moves values that the two nodes before it have rounded."""
    item = next(item for item in verify(CHAIN, X, compiled).checks if item.node.op == "Reshape")
    assert item.alone.max_abs_error == 0
    assert item.so_far.max_abs_error > 0


@pytest.mark.long
def test_what_is_too_much_for_ddr_is_run_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run has one result and its operands; the last node has two results."""
    import compiler.tools.verification.nodes as module

    whole = verify(CHAIN, X, compiled)
    counted: list[int] = []

    def counting(made: Graph) -> Program:
        counted.append(len(made.outputs))
        return compiled(made)

    monkeypatch.setattr(module, "_SHARE_OF_DDR", 1 << 40)
    found = verify(CHAIN, X, counting)
    assert counted == [1, 1, 2, 2, 2, 3]  # first the unchanged program
    assert found.ok
    assert [item.tensor for item in found.checks] == [item.tensor for item in whole.checks]
    assert not verify(CHAIN, X, with_wrong("Sqrt", "Abs", compiled)).ok


def test_the_first_wrong_node_is_cut_out() -> None:
    found = verify(CHAIN, X, with_wrong("Sqrt", "Abs", compiled))
    assert not found.ok
    assert found.at is not None
    assert (found.at.name, found.at.op) == ("n3", "Sqrt")
    assert [item.node.op for item in found.checks if not item.alone.ok] == ["Sqrt"]
    assert found.part is not None
    assert [node.op for node in found.part.graph.nodes] == ["Sqrt"]
    assert list(found.part.inputs) == ["in0"]
    assert found.part.inputs["in0"].shape == (4, 3)
    assert "1 of 5 nodes differ; the first is node 'n3' (Sqrt)" in table(found)


def test_what_is_wrong_only_together_is_found_by_halving() -> None:
    """A compiler that squares e unless r is an output, as if it had merged nodes wrongly."""

    def merging(made: Graph) -> Program:
        merged = {"e", "r", "s"} <= set(made.tensors) and not {"e", "r"} & {t.name for t in made.outputs}
        renamed = len(made.nodes) >= 3 and made.inputs[0].name == "in0"
        if not merged and not renamed:
            return compiled(made)
        return with_wrong("Exp", "Neg", compiled)(made)

    found = verify(CHAIN, X, merging)
    assert all(item.alone.ok for item in found.checks)
    assert not found.ok
    assert found.at is not None
    assert found.at.name == "n3"
    assert found.part is not None
    assert (found.part.first, found.part.last) == ("n0", "n3")
    assert "computed together with others, node 'n3' (Sqrt) is wrong" in table(found)


def test_a_mistake_that_no_smaller_graph_shows() -> None:
    def whole_only(made: Graph) -> Program:
        if len(made.nodes) < 5 or len(made.outputs) > 1 or made.inputs[0].name == "in0":
            return compiled(made)
        return with_wrong("Exp", "Neg", compiled)(made)

    found = verify(CHAIN, X, whole_only)
    assert not found.ok
    assert found.part is None
    assert found.at is not None
    assert found.at.name == "n4"


def test_the_command_it_prints_shows_the_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(driver, "compile_graph", with_wrong("Sqrt", "Abs", compile_graph))
    description = {
        "opset": 20,
        "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 3]}],
        "outputs": ["y"],
        "nodes": [
            {"op": "Exp", "inputs": ["x"], "outputs": ["a/b"]},
            {"op": "Sqrt", "name": "root", "inputs": ["a/b"], "outputs": ["c d"]},
            {"op": "Neg", "inputs": ["c d"], "outputs": ["y"]},
        ],
    }
    Path("net.json").write_text(json.dumps(description))
    assert main(["net.json", "--verify-nodes", "--dtype", "fp16", "--tiles", "2", "--no-cache", "-q"]) == 3
    lines = capsys.readouterr().out.splitlines()
    assert "FAIL" in lines[2]
    assert lines[-2] == "1 of 3 nodes differ; the first is node 'root' (Sqrt)"
    head, _, command = lines[-1].partition(": ")
    assert head == "to see it alone"
    assert main([*shlex.split(command)[1:], "--no-cache", "-q"]) == 3
    assert "FAIL" in capsys.readouterr().out
    assert load_graph("net/wrong/graph.json").nodes[0].name == "root"


def test_all_right_writes_nothing_and_is_status_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "net"
    cut = excerpt(CHAIN, CHAIN.nodes)
    write_excerpt(folder, cut.graph, {"in0": X["x"]})
    given = f"in0={folder / 'in0.npy'}"
    assert main([str(folder / "graph.json"), "--verify-nodes", "--input", given, "-q"]) == 0
    assert "5 nodes are right" in capsys.readouterr().out
    assert not (folder / "graph" / "wrong").exists()


# --- parts of graphs ----------------------------------------------------------------------


def test_an_excerpt_computes_what_the_whole_graph_computes() -> None:
    values = run_reference(with_outputs(CHAIN, ["m", "e", "r", "s", "y"]), X)
    for first in range(5):
        for last in range(first, 5):
            cut = excerpt(CHAIN, CHAIN.nodes[first : last + 1])
            given = {t.name: (X | values)[cut.origin[t.name]] for t in cut.graph.inputs}
            for name, array in run_reference(cut.graph, given).items():
                assert np.allclose(array, values[cut.origin[name]], rtol=1e-6)


def test_an_excerpt_shows_what_others_read() -> None:
    cut = excerpt(CHAIN, CHAIN.nodes[1:4])
    assert {cut.origin[tensor.name] for tensor in cut.graph.outputs} == {"r", "s"}
    assert [cut.origin[tensor.name] for tensor in cut.graph.inputs] == ["m"]
    assert sorted(cut.origin[name] for name in cut.graph.constants) == ["shape"]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_files_of_an_excerpt_are_the_same_graph(dtype: str, tmp_path: Path) -> None:
    kind = {"bfloat16": np.dtype(ml_dtypes.bfloat16)}.get(dtype) or np.dtype(dtype)
    constant: Array = draw(4, 3, seed=9).astype(kind)
    made = graph(
        [("Add", ["x", "k"], ["h"], {}), ("Softmax", ["h"], ["y"], {"axis": 0})],
        {"x": (4, 3)},
        {"k": constant},
        dtype=dtype,
    )
    cut = excerpt(made, made.nodes).graph
    (path,) = write_excerpt(tmp_path, cut, {"in0": draw(4, 3)})
    assert np.array_equal(np.load(path), draw(4, 3))
    again = load_graph(tmp_path / "graph.json")
    assert (again.inputs, again.outputs, again.nodes) == (cut.inputs, cut.outputs, cut.nodes)
    assert again.constants["const0"].dtype == constant.dtype
    assert again.constants["const0"].tobytes() == constant.tobytes()
