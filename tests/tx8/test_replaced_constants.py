"""Constants of compiled programs that sessions replace: results equal those of a program compiled with
them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import tx8

X = np.random.default_rng(1).standard_normal((4, 32)).astype(np.float32)


def network(w: np.ndarray, b: np.ndarray) -> ModelProto:
    """relu(x w + b), and the same constant once more under another name."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"], "m"),
        helper.make_node("Add", ["m", "b"], ["n"], "n"),
        helper.make_node("Relu", ["n"], ["r"], "r"),
        helper.make_node("Add", ["r", "same"], ["s"], "s"),
        helper.make_node("Reshape", ["s", "shape"], ["y"], "y"),
    ]
    constants = {"w": w, "b": b, "same": np.ones(16, np.float32), "shape": np.array([8, 8])}
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [8, 8])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def weights(seed: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    w, b = generator.standard_normal((32, 16)), generator.standard_normal(16)
    return w.astype(np.float32), b.astype(np.float32)


def exact(w: np.ndarray, b: np.ndarray) -> np.ndarray:
    """In binary64."""
    return (np.maximum(X.astype(np.float64) @ w + b, 0) + 1).reshape(8, 8)


@pytest.mark.parametrize("dtype, tolerance", [("fp32", 1e-5), ("fp16", 3e-2), ("bf16", 0.2)])
def test_a_session_computes_with_what_replaces_them(dtype: str, tolerance: float, tmp_path: Path) -> None:
    program = tx8.compile(network(*weights(1)), dtype=dtype, replaceable=["w", "b"])
    assert [buffer.name for buffer in program.inputs] == ["x"]
    assert np.abs(program.run(X)[0] - exact(*weights(1))).max() < tolerance
    session, other = tx8.Session(tx8.load(program.save(tmp_path / "net"))), tx8.Session(program)
    assert session.run(X)["y"].tobytes() == program.run(X)[0].tobytes()
    w, b = weights(2)
    session.replace(w=w, b=b)
    for _ in range(2):
        again = tx8.compile(network(w, b), dtype=dtype, replaceable=["w", "b"]).run(X)[0]
        assert session.run(X)["y"].tobytes() == again.tobytes()
        assert np.abs(session.run(X)["y"] - exact(w, b)).max() < tolerance
        assert other.run(X)["y"].tobytes() == program.run(X)[0].tobytes()


def test_equal_constants_are_replaced_one_by_one() -> None:
    w, _ = weights(1)
    b = np.ones(16, np.float32)  # equal to ``same``
    session = tx8.Session(tx8.compile(network(w, b), replaceable=["b"]))
    session.replace(b=2 * b)
    assert np.abs(session.run(X)["y"] - exact(w, 2 * b)).max() < 1e-5


@pytest.mark.parametrize(
    "names, message",
    [
        (
            ["W"],
            "the graph has no constant 'W' to be replaced; its constants: w, b, same, shape; did you mean",
        ),
        (["shape"], "constant 'shape' cannot be replaced: node 'y' (Reshape) is compiled for its value"),
    ],
)
def test_others_are_refused(names: list[str], message: str) -> None:
    with pytest.raises(tx8.Error) as caught:
        tx8.compile(network(*weights(1)), replaceable=names)
    assert message in str(caught.value)


def test_constants_that_were_not_declared_are_refused() -> None:
    session = tx8.Session(tx8.compile(network(*weights(1)), replaceable=["b"]))
    with pytest.raises(tx8.Error, match="the program has no constant 'w'"):
        session.replace(w=weights(1)[0])
    with pytest.raises(tx8.Error, match="constant 'b' is 4 float32, expected 16 float32"):
        session.replace(b=[1.0] * 4)
