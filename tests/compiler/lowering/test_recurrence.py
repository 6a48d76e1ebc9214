"""Recurrent layers whose steps are a loop on the chip, against onnxruntime; other layers are written out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

import compiler
from compiler.graph import Array, Graph, GraphError
from compiler.operators.expansion.expander import expand_graph
from compiler.tools import run
from compiler_harness import assert_right, draw, small_machine
from onnx_models import imported, model
from onnx_oracle import onnxruntime

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STATES = {"RNN": ("yh",), "GRU": ("yh",), "LSTM": ("yh", "yc")}
BEFORE = {"RNN": {}, "GRU": {"linear_before_reset": 1}, "LSTM": {}}
TOLERANCES = {"fp32": 1e-5, "fp16": 5e-3, "bf16": 4e-2}


def layer(
    op: str,
    sizes: tuple[int, int, int, int],
    direction: str = "forward",
    bias: bool = True,
    operands: Mapping[str, Array] | None = None,
    **attrs: Any,
) -> Any:
    """A model of one layer; ``sizes``: steps, batch, input, hidden. ``operands`` are constants, too."""
    steps, batch, size, hidden = sizes
    directions, rows = 2 if direction == "bidirectional" else 1, GATES[op] * hidden
    constants = {
        "W": draw(directions, rows, size, seed=1, scale=size**-0.5),
        "R": draw(directions, rows, hidden, seed=2, scale=hidden**-0.5),
        **({"B": draw(directions, 2 * rows, seed=3, scale=0.3)} if bias else {}),
        **(operands or {}),
    }
    order = ("W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P")
    names = ["x", *(name if name in constants else "" for name in order)]
    while not names[-1]:
        names.pop()
    made = helper.make_node(
        op, names, ["y", *STATES[op]], hidden_size=hidden, direction=direction, **{**BEFORE[op], **attrs}
    )
    return model([made], {"x": (steps, batch, size)}, ("y", *STATES[op]), constants, opset=17, ir_version=10)


def parts(graph: Graph) -> list[str]:
    return [node.op for node in expand_graph(graph).nodes]


def expected(made: Any, x: Array) -> dict[str, Array]:
    names = [item.name for item in made.graph.output]
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip(names, session.run(names, {"x": x}), strict=True))


def assert_steps(made: Any, folder: Path, dtype: str = "fp32", tiles: int = 16) -> Graph:
    """The layer is one operator, and the chip's outputs equal onnxruntime's."""
    graph = imported(made, folder)
    assert "Recurrence" in parts(graph)
    x = draw(*graph.inputs[0].shape)
    outputs, _ = run.execute(compiler.compile(graph, dtype, tiles), {"x": x})
    for name, wanted in expected(made, x).items():
        assert outputs[name].shape == wanted.shape
        np.testing.assert_allclose(outputs[name], wanted, atol=TOLERANCES[dtype], rtol=0)
    return graph


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op", GATES)
def test_a_layer(op: str, direction: str, dtype: str, tmp_path: Path) -> None:
    """Units that fill no plane."""
    assert_steps(layer(op, (5, 3, 7, 20), direction), tmp_path, dtype)


@pytest.mark.parametrize(
    ("op", "sizes", "tiles"),
    [
        ("LSTM", (4, 2, 9, 64), 16),  # whole planes
        ("GRU", (3, 1, 5, 130), 4),
        ("LSTM", (3, 19, 6, 16), 16),  # more rows than tiles, with a rest
        ("RNN", (3, 5, 6, 256), 1),  # the most units
        ("GRU", (2, 33, 6, 48), 3),
    ],
)
def test_sizes(op: str, sizes: tuple[int, int, int, int], tiles: int, tmp_path: Path) -> None:
    assert_steps(layer(op, sizes), tmp_path, tiles=tiles)
    assert_steps(layer(op, sizes, bias=False), tmp_path, tiles=tiles)


@pytest.mark.parametrize("op", GATES)
def test_states_to_begin_with(op: str, tmp_path: Path) -> None:
    states = {"initial_h": draw(2, 3, 20, seed=7)} | (
        {"initial_c": draw(2, 3, 20, seed=8)} if op == "LSTM" else {}
    )
    assert_steps(layer(op, (4, 3, 7, 20), "bidirectional", operands=states), tmp_path)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("op", GATES)
def test_a_single_step_with_known_and_computed_states(op: str, dtype: str, tmp_path: Path) -> None:
    """A network that is called step by step has no loop, whose buffers would be alive to its end."""
    assert_steps(layer(op, (1, 1, 128, 128)), tmp_path, dtype)
    made = layer(op, (1, 1, 128, 128))
    states = ["h", "c"] if op == "LSTM" else ["h"]
    made.graph.node[0].input.extend(["", *states])
    for name in states:
        made.graph.input.append(helper.make_tensor_value_info(name, 1, [1, 1, 128]))
    graph = imported(made, tmp_path)
    given = {tensor.name: draw(*tensor.shape, seed=at) for at, tensor in enumerate(graph.inputs)}
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    outputs, _ = run.execute(compiler.compile(graph, dtype), given)
    for item, wanted in zip(made.graph.output, session.run(None, given), strict=True):
        np.testing.assert_allclose(outputs[item.name], wanted, atol=TOLERANCES[dtype], rtol=0)


def test_more_steps_than_are_written_out(tmp_path: Path) -> None:
    assert_steps(layer("GRU", (1100, 1, 3, 16)), tmp_path)


def test_a_small_scratchpad(tmp_path: Path) -> None:
    """Rows in smaller blocks; weights that do not fit give an error that says so."""
    graph = imported(layer("LSTM", (3, 40, 5, 64)), tmp_path)
    assert_right(graph, "fp16", 2, small_machine(0x12000))
    with pytest.raises(GraphError, match="the weights of 64 hidden units do not fit the SPM"):
        compiler.compile(graph, "fp16", 2, small_machine())


@pytest.mark.parametrize(
    ("op", "hidden", "attrs", "operands"),
    [
        ("LSTM", 20, {"clip": 0.5}, {}),
        ("LSTM", 20, {"input_forget": 1}, {}),
        ("LSTM", 20, {"activations": ["HardSigmoid", "Tanh", "Tanh"]}, {}),
        ("RNN", 20, {"activations": ["Relu"]}, {}),
        ("GRU", 20, {"linear_before_reset": 0}, {}),
        ("LSTM", 20, {}, {"P": draw(1, 60, seed=5)}),
        ("LSTM", 20, {}, {"sequence_lens": np.array([3, 1], np.int32)}),
        ("LSTM", 15, {}, {}),
        ("RNN", 257, {}, {}),
    ],
)
def test_other_layers_are_written_out(
    op: str, hidden: int, attrs: Mapping[str, Any], operands: Mapping[str, Array], tmp_path: Path
) -> None:
    graph = imported(layer(op, (3, 2, 4, hidden), operands=operands, **attrs), tmp_path)
    assert "Recurrence" not in parts(graph) and "MatMul" in parts(graph)


def test_weights_that_are_computed_are_written_out(tmp_path: Path) -> None:
    made = layer("RNN", (3, 2, 4, 20))
    doubled = helper.make_node("Mul", ["R", "x_first"], ["R2"])
    first = helper.make_node("ReduceMax", ["x"], ["x_first"], keepdims=0)
    made.graph.node[0].input[2] = "R2"
    made.graph.node.insert(0, doubled)
    made.graph.node.insert(0, first)
    assert "Recurrence" not in parts(imported(made, tmp_path))
