"""``tx8cc --check``: how the operators of a model will run, and everything that is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from compiler.cli import main
from compiler.frontend import load
from compiler.graph import GraphError
from compiler.operators import OPERATORS
from onnx_models import model, saved, value
from refused_models import one

CAST = {"op": "Cast", "inputs": ["q"], "outputs": ["f"], "attrs": {"to": 1}}
GRAPH: dict[str, Any] = {
    "name": "mixed",
    "opset": 20,
    "inputs": [{"name": "q", "dtype": "int64", "shape": [4, 8]}],
    "outputs": ["y"],
    "constants": {"w": {"dtype": "float32", "data": [[1.0] * 3] * 8}},
    "nodes": [
        CAST,
        {"op": "MatMul", "inputs": ["f", "w"], "outputs": ["m"]},
        {"op": "Relu", "inputs": ["m"], "outputs": ["r"]},
        {"op": "Exp", "inputs": ["r"], "outputs": ["e"]},
        {"op": "Relu", "inputs": ["e"], "outputs": ["s"]},
        {"op": "Flatten", "inputs": ["s"], "outputs": ["y"]},
    ],
}


def checked(path: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str, str]:
    """Status and output of ``--check``, which writes no file."""
    before = sorted(path.parent.iterdir())
    status = main([str(path), "--check", *more])
    captured = capsys.readouterr()
    assert sorted(path.parent.iterdir()) == before
    return status, captured.out, captured.err


def rows(path: Path, capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, dict[str, Any]]:
    _, out, _ = checked(path, capsys, "--json", *more)
    return {row["operator"]: row for row in json.loads(out)["operators"]}


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    path = tmp_path / "mixed.json"
    path.write_text(json.dumps(GRAPH))
    return path


@pytest.fixture
def refused(tmp_path: Path) -> Path:
    """Three operators that are not supported, one of them twice, and a node that uses a refused one."""
    nodes = [
        one("TopSecret", domain="com.example"),
        helper.make_node("Relu", ["n3"], ["r"], name="relu"),
        helper.make_node("Rleu", ["x"], ["a"], name="typo"),
        helper.make_node("Rleu", ["r"], ["b"], name="again"),
        helper.make_node("MaxPool", ["x"], ["c"], name="pool", kernel_shape=[2]),
        helper.make_node("Exp", ["x"], ["d"], name="exp"),
    ]
    nodes[0].output[0] = "n3"
    return saved(model(nodes, {"x": (3, 3)}, ("a", "b", "c", "d")), tmp_path)


def test_every_operator_has_a_row(mixed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = checked(mixed, capsys)
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        "operator  nodes  runs on",
        "Cast          1  kernel core",
        "Exp           1  vector engine",
        "Flatten       1  no code: the same bytes in another shape",
        "MatMul        1  matrix engine",
        "Relu          2  vector engine",
        f"{mixed}: 6 nodes, 1 with elements computed one by one on the kernel core, all supported",
    ]


def test_parts_that_the_core_computes_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quantised = helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], name="dq")
    product = helper.make_node("MatMulInteger", ["q", "r"], ["p"], name="mm")
    constants = {"s": np.float32(0.5), "z": np.int8(3)}
    made = model([quantised, product], {}, ("y", "p"), constants=constants)
    made.graph.input.extend([value("q", (4, 8), np.int8), value("r", (8, 5), np.int8)])
    path = saved(made, tmp_path)
    assert "kernel core (Cast" in checked(path, capsys)[1]
    found = rows(path, capsys)
    assert (found["DequantizeLinear"]["state"], found["DequantizeLinear"]["engines"]) == (
        "engines",
        ["vector"],
    )
    assert not found["DequantizeLinear"]["kernel_core"]
    assert "Cast" in found["MatMulInteger"]["kernel_core"]


def test_what_is_folded_is_said_to_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"], name="shape"),
        helper.make_node("Reshape", ["x", "s"], ["y"], name="n3"),
    ]
    found = rows(saved(model(nodes, {"x": (3, 4)}), tmp_path), capsys)
    assert found["Shape"]["state"] == "constant"
    assert found["Reshape"]["state"] == "no code"


def test_all_refusals_are_listed(refused: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = checked(refused, capsys)
    assert status == 1
    lines = out.splitlines()
    assert "Exp                        1  vector engine" in lines
    assert "Relu                       1  not examined: an operand comes from a refused node" in lines
    assert "Rleu                       2  refused: not supported ('typo', 'again')" in lines
    assert "com.example.TopSecret      1  refused: not supported ('n3')" in lines
    assert any("refused: X must have rank" in line and "('pool')" in line for line in lines)
    assert lines[-1] == f"{refused}: 6 nodes, 4 refused"


def test_the_same_as_data(refused: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = checked(refused, capsys, "--json")
    found = json.loads(out)
    assert (status, found["supported"], found["problems"]) == (1, False, [])
    by_name = {row["operator"]: row for row in found["operators"]}
    assert by_name["Rleu"] == {
        "operator": "Rleu",
        "state": "refused",
        "engines": [],
        "kernel_core": [],
        "reason": "",
        "nodes": ["typo", "again"],
        "count": 2,
    }
    assert by_name["Exp"]["state"] == "engines"
    assert by_name["Relu"]["state"] == "not examined"


ROW = [
    {"op": "Softmax", "inputs": ["q"], "outputs": ["s"]},
    {"op": "Exp", "inputs": ["s"], "outputs": ["e"]},
    {"op": "ReduceSum", "inputs": ["e"], "outputs": ["t"]},
    {"op": "Sqrt", "inputs": ["t"], "outputs": ["y"]},
]
"""On a single row; a root of a single number is not worth counting."""


def written(path: Path, rows: int) -> Path:
    inputs = [{"name": "q", "dtype": "float32", "shape": [rows, 8]}]
    path.write_text(json.dumps({"opset": 20, "inputs": inputs, "outputs": ["y"], "nodes": ROW}))
    return path


def test_what_cannot_be_divided_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "row.json", 1)
    summary = checked(path, capsys)[1].splitlines()[-1]
    counted = "2 of 4 after expansion not divisible (ReduceSum, Softmax)"
    assert summary == f"{path}: 4 nodes, {counted}, all supported"
    found = json.loads(checked(path, capsys, "--json")[1])
    assert (found["parts"], found["whole"]) == (4, {"ReduceSum": 1, "Softmax": 1})
    several = json.loads(checked(written(path, 2), capsys, "--json")[1])
    assert (several["parts"], several["whole"]) == (4, {"ReduceSum": 1})


def test_an_operator_that_says_nothing_of_parts_is_counted(
    mixed: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert json.loads(checked(mixed, capsys, "--json")[1])["whole"] == {}
    monkeypatch.setitem(OPERATORS, "Relu", replace(OPERATORS["Relu"], needs=None))
    assert "2 of 6 after expansion not divisible (Relu)" in checked(mixed, capsys)[1]


def test_a_compilation_names_all_refusals_too(refused: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(refused)]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(": X must")[0] for line in lines] == [
        "tx8cc: error: unsupported operator com.example.TopSecret (node 'n3')",
        "tx8cc: error: unsupported operator Rleu (node 'typo') (and 1 more node)",
        "tx8cc: error: unsupported operator MaxPool (node 'pool')",
    ]
    assert not refused.with_suffix("").exists()


def test_at_most_twenty_mistakes_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [helper.make_node(f"Op{at}", ["x"], [f"y{at}"], name=f"n{at}") for at in range(25)]
    path = saved(model(nodes, {"x": (3,)}, [f"y{at}" for at in range(25)]), tmp_path)
    assert main([str(path)]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 21
    assert lines[-1] == "tx8cc: error: 5 more mistakes; --check lists all"


def test_inputs_are_judged_beside_the_operators(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An input without a shape hides no operator that is refused whatever its shape is."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="relu"),
        helper.make_node("Rleu", ["r"], ["y"], name="typo"),
    ]
    path = saved(model(nodes, {"x": ("N", 3)}), tmp_path)
    status, out, _ = checked(path, capsys)
    assert status == 1
    assert "input 'x': axis 0 is 'N', checked at 1: bind it with --batch 1, or --dim N=1, or a range" in out
    assert "Rleu          1  refused: not supported ('typo')" in out
    assert "Relu          1  vector engine" in out
    with pytest.raises(GraphError) as caught:
        load(path)
    assert len(caught.value.messages) == 2
    status, out, _ = checked(path, capsys, "--batch", "2")
    assert "Relu          1  vector engine" in out


def test_a_refusal_inside_a_body_names_the_node_around_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    then = helper.make_graph(
        [helper.make_node("Rleu", ["x"], ["t"], name="typo")], "then", [], [value("t", (3,))]
    )
    made = model(
        [helper.make_node("If", ["c"], ["y"], name="choice", then_branch=then, else_branch=then)],
        {"x": (3,)},
        constants={"c": np.array(True)},
    )
    status, out, _ = checked(saved(made, tmp_path), capsys)
    assert status == 1
    assert "If            1  refused: it contains Rleu ('choice')" in out


def test_what_lowerings_refuse_is_listed_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The record of MaxPool allows any image, the chip rows of 4096 positions."""
    pools = [
        {
            "op": "MaxPool",
            "name": f"p{at}",
            "inputs": ["x"],
            "outputs": [out],
            "attrs": {"kernel_shape": [2, 1]},
        }
        for at, out in enumerate("yz")
    ]
    inputs = [{"name": "x", "dtype": "float32", "shape": [1, 1, 2, 4200]}]
    path = tmp_path / "pools.json"
    path.write_text(json.dumps({"opset": 20, "inputs": inputs, "outputs": ["y", "z"], "nodes": pools}))
    status, out, _ = checked(path, capsys)
    assert status == 1
    found = "rows of at most 4096 positions; found 4200 to 4200"
    assert f"MaxPool       2  refused: {found} ('p0', 'p1')" in out
    assert main([str(path)]) == 1
    message = f"unsupported operator MaxPool (node 'p0'): {found} (and 1 more node)"
    assert capsys.readouterr().err == f"tx8cc: error: {message}\n"


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe\x00", b""])
def test_a_file_that_is_no_model_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    status, out, err = checked(path, capsys, "--json")
    assert (status, out) == (1, "")
    assert err.startswith("tx8cc: error: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "option",
    [
        *("--run", "--verify-nodes", "--prove", "--save-plan=p.json", "--print-ir-after=cse", "--pass-times"),
        *(
            "--report=r.json",
            "--dtype=fp16",
            "--search=full",
            "--state=a=b",
            "-S",
            "-v",
            "-o=out",
            "--estimate",
        ),
    ],
)
def test_options_of_a_compilation_are_refused(
    option: str, mixed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, *value = option.split("=", 1)
    with pytest.raises(SystemExit) as stopped:
        checked(mixed, capsys, name, *value)
    shown = {"-v": "--verbose"}.get(name, name)
    said = (
        f"--check compiles nothing, so {shown} has no effect: leave out {shown}, or --check; see tx8cc --help"
    )
    assert (stopped.value.code, capsys.readouterr().err) == (2, f"tx8cc: error: {said}\n")


def test_free_dimensions_are_checked_at_one_and_each_is_told_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [
        helper.make_node("Add", ["a", "b"], ["r"], name="add"),
        helper.make_node("Relu", ["c"], ["q"], name="relu"),
        helper.make_node("Exp", ["r"], ["y"], name="exp"),
    ]
    inputs = {"a": (2, "seq"), "b": (2, "seq"), "c": (1, 3, None, 32)}
    path = saved(model(nodes, inputs, outputs=("y", "q")), tmp_path)
    status, out, _ = checked(path, capsys)
    assert status == 0
    found = [line for line in out.splitlines() if line.startswith("input ")]
    assert found == [
        "input 'a': axis 1 is 'seq', checked at 1: bind it with --dim seq=1, or a range with "
        '--dim seq=1:8:64 (in Python: dims={"seq": 1})',
        "input 'c': axis 2 is unknown, checked at 1: bind it with --shape c=1x3x1x32 (in Python: shapes=)",
    ]
    assert "not examined" not in out and "all supported" in out
    given = ["--dim", "seq=1", "--shape", "c=1x3x1x32"]
    status, out, _ = checked(path, capsys, *given)
    assert status == 0 and "input " not in out
    with pytest.raises(GraphError) as caught:
        load(path)
    assert len(caught.value.messages) == 2
    assert main([str(path), "-q", "-S", "-o", str(tmp_path / "out"), *given]) == 0
