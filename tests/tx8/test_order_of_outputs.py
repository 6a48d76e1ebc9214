"""Outputs by position: every interface gives them in the order of the model; NumPy is the oracle."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import compiler.cli
import tx8
from emulator.cli.command import main

RNG = np.random.default_rng(3)
X, K = (RNG.standard_normal((4, 8)).astype(np.float32) for _ in range(2))
W = RNG.standard_normal((8, 8)).astype(np.float32)
NEXT = K + X.astype(np.float64)
VALUES = {"product": NEXT @ W, "relu": np.maximum(NEXT @ W, 0), "next": NEXT, "x": X, "w": W}
"""The value of each output, by NumPy."""

ORDER = ("relu", "next", "product")
"""No order in which a program would write them by itself."""


def model(outputs: Iterable[str] = ORDER, inputs: Iterable[str] = ("x", "k"), rows: Any = 4) -> bytes:
    """An ONNX model of a sum, its product with weights, and the Relu of that."""
    nodes = [
        helper.make_node("Add", ["k", "x"], ["next"]),
        helper.make_node("MatMul", ["next", "w"], ["product"]),
        helper.make_node("Relu", ["product"], ["relu"]),
    ]
    shapes = {"w": [8, 8]}
    infos = [
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, shapes.get(n, [rows, 8])) for n in names]
        for names in (inputs, outputs)
    ]
    graph = helper.make_graph(nodes, "order", *infos, [numpy_helper.from_array(W, "w")])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(made)
    return bytes(made.SerializeToString())


def assert_right(found: Mapping[str, Any], names: Iterable[str], error: float = 1e-4) -> None:
    """Assert the names and arrays of the outputs, by position."""
    assert [*found] == [*names]
    for array, name in zip(found.values(), names, strict=True):
        np.testing.assert_allclose(array, VALUES[name], rtol=0, atol=error, err_msg=name)


@pytest.mark.parametrize(
    "names", [*permutations(ORDER), ("x", "relu", "product"), ("relu", "x")], ids=",".join
)
def test_runs_and_images(names: tuple[str, ...], tmp_path: Path) -> None:
    program = tx8.compile(model(names))
    assert [buffer.name for buffer in program.outputs] == [*names]
    run = program.run(X, K)
    assert_right(run.outputs, names)
    assert [each is array for each, array in zip(run, run.outputs.values(), strict=True)] == [True] * len(
        names
    )
    assert [run[at] is run[name] for at, name in enumerate(names)] == [True] * len(names)
    assert run[np.int64(-1)] is run[names[-1]]
    assert all(each is array for each, array in zip(run.result, run, strict=True))
    assert_right(tx8.load(program.save(tmp_path)).run(X, K, timed=False).outputs, names)


def test_an_output_that_is_listed_again_is_there_again() -> None:
    run = tx8.compile(model(["relu", "x", "relu", "product", "relu"])).run(X, K)
    assert [*run.outputs] == ["relu", "x", "relu.2", "product", "relu.4"]
    for array, name in zip(run, ("relu", "x", "relu", "product", "relu"), strict=True):
        np.testing.assert_allclose(array, VALUES[name], rtol=0, atol=1e-4)


def test_a_position_that_is_not_there() -> None:
    run = tx8.compile(model(["relu"])).run(X, K)
    assert run.result is run[0]
    with pytest.raises(IndexError):
        run[1]
    with pytest.raises(KeyError, match="no output 'relx'; the outputs: relu"):
        run["relx"]


@pytest.mark.parametrize(
    "names", [ORDER, pytest.param(("next", "product", "relu"), marks=pytest.mark.long)], ids=",".join
)
def test_states_entries_and_sessions(names: tuple[str, ...]) -> None:
    """A state is an output of a run, and none of a step of a session."""
    rest = [name for name in names if name != "next"]
    program = tx8.compile(model(names, ("k", "x")), state={"k": "next"})
    assert_right(program.run(K, X).outputs, names)
    with tx8.Session(program, state={"k": K}) as session:
        assert_right(session.run(X), rest)
        session.reset()
        assert_right(session.submit(X).result(), rest)
    both = {"one": model(names), "other": model(reversed(names), ("k", "x"))}
    entries = tx8.compile_entries(both, state={"k": "next"})
    for name, own in (("one", names), ("other", names[::-1])):
        assert_right(entries.entry(name).run(x=X, k=K).outputs, own)
        with tx8.Session(entries, state={"k": K}) as session:
            assert_right(session.run(X, entry=name), [each for each in own if each != "next"])


def test_ranges_of_sizes_and_replaceable_constants() -> None:
    ranged = tx8.compile(model(rows="n"), dims={"n": (1, 3, 6)})
    assert_right(ranged.run(X, K).outputs, ORDER)
    with tx8.Session(ranged) as session:
        assert_right(session.run(X, K), ORDER)
    replaceable = tx8.compile(model(), replaceable=["w"])
    assert [buffer.name for buffer in replaceable.inputs] == ["x", "k"]
    assert_right(replaceable.run(X, K).outputs, ORDER)


@pytest.mark.parametrize("dtype", ["int8", pytest.param("auto", marks=pytest.mark.long)])
def test_quantised_networks(dtype: str) -> None:
    samples = {"x": np.stack([X, X / 2]), "k": np.stack([K, K / 2])}
    assert_right(tx8.compile(model(), dtype=dtype, calibrate=samples).run(X, K).outputs, ORDER, 0.3)


def test_branches_and_loops() -> None:
    """Results of control flow; another node reads the second result."""
    infos = {
        name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 8]) for name in ("x", *"abcdefgh")
    }
    branches = [
        helper.make_graph(
            [helper.make_node(op, ["x"], [name]) for op, name in zip(ops, names, strict=True)],
            "branch",
            [],
            [infos[name] for name in names],
        )
        for ops, names in ((("Relu", "Neg"), "ab"), (("Abs", "Exp"), "cd"))
    ]
    nodes = [
        helper.make_node("If", ["on"], ["e", "f"], then_branch=branches[0], else_branch=branches[1]),
        helper.make_node("Neg", ["f"], ["g"]),
    ]
    inputs = [helper.make_tensor_value_info("on", TensorProto.BOOL, []), infos["x"]]
    graph = helper.make_graph(nodes, "if", inputs, [infos[name] for name in "gfe"])
    program = tx8.compile(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    )
    for on, relu, neg in ((True, np.maximum(X, 0), -X), (False, np.abs(X), np.exp(X))):
        for found, want in zip(program.run(np.array(on), X), (-neg, neg, relu), strict=True):
            np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("degrees", "names"),
    [
        ("pp=2", ("product", "w", "x", "relu")),
        ("tp=2", ("w", "relu", "product")),
        pytest.param("dp=2", ("product", "w", "x", "relu"), marks=pytest.mark.long),
        pytest.param("tp=2", ORDER, marks=pytest.mark.long),
        pytest.param("pp=2", ORDER, marks=pytest.mark.long),
    ],
)
def test_several_chips(degrees: str, names: tuple[str, ...]) -> None:
    """So has an input that nothing reads, and an output that is an input or a constant."""
    program = tx8.compile(model(names, ("u", "k", "x")), chips=(2, 1), parallel=degrees)
    assert [buffer.name for buffer in program.inputs] == ["u", "k", "x"]
    assert [buffer.name for buffer in program.outputs] == [*names]
    assert_right(program.run(X, K, X, timed=False).outputs, names)
    with tx8.Session(program) as session:
        assert_right(session.run(X, K, X), names)


def test_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second compilation comes from the cache of programs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TX8_CACHE_DIR", str(tmp_path / "cache"))
    Path("order.onnx").write_bytes(model())
    np.save("x.npy", X)
    np.save("k.npy", K)
    given = ["--input", "x=x.npy", "--input", "k=k.npy"]
    for _ in range(2):
        assert compiler.cli.main(["order.onnx", "-o", "order", "--run", "--json", *given]) == 0
        assert [each["name"] for each in json.loads(capsys.readouterr().out)["outputs"]] == [*ORDER]
    assert compiler.cli.main(["order.onnx", "-o", "order", "--run", "-q", *given]) == 0
    rows = [line.split()[0] for line in capsys.readouterr().out.splitlines() if "pass" in line]
    assert rows == [*ORDER]
    assert main(["order/prog.bin", *given, "--json", "-q"]) == 0
    assert [each["name"] for each in json.loads(capsys.readouterr().out)["outputs"]] == [*ORDER]
