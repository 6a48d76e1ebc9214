"""Quantised networks: results by onnxruntime and on the emulated chip, and their distance from floats."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import compiler
from compiler.evaluation.host_run import HostRun
from compiler.graph import Array, Graph, GraphError
from compiler.quantise import Goal, Quantised, Settings, quantise, samples_of
from compiler.tools import run
from float_nets import by_onnxruntime, cosine, float_graph, mlp, samples, small_cnn

NETS = {"cnn": small_cnn, "mlp": mlp, "mlp without bias": lambda: mlp(bias=False)}


def quantised(graph: Graph, settings: Settings | None = None, goal: Goal | None = None) -> Quantised:
    given = samples_of(samples(graph), graph)
    return quantise(graph, given, settings or Settings(), goal or Goal())


def inputs_of(graph: Graph, seed: int = 99) -> dict[str, Array]:
    return {name: array[0] for name, array in samples(graph, 1, seed).items()}


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("method", ["minmax", "percentile", "entropy", "mse"])
def test_onnxruntime_gives_nearly_what_floats_give(net: str, method: str) -> None:
    graph = NETS[net]()
    made = quantised(graph, Settings(method))
    inputs = inputs_of(graph)
    want = by_onnxruntime(graph, inputs)["y"]
    found = by_onnxruntime(made.graph, inputs)["y"]
    assert cosine(found, want) > (0.98 if method == "entropy" else 0.998)
    assert (found != want).any()


@pytest.mark.parametrize("net", NETS)
def test_the_host_computes_a_quantised_graph_as_onnxruntime(net: str) -> None:
    """Sums in another order may be rounded to the next byte."""
    made = quantised(NETS[net]()).graph
    inputs = inputs_of(made)
    np.testing.assert_allclose(HostRun(made).run(inputs)["y"], by_onnxruntime(made, inputs)["y"], atol=0.02)


@pytest.mark.parametrize("net", NETS)
def test_the_chip_computes_what_onnxruntime_computes(net: str) -> None:
    made = quantised(NETS[net]())
    inputs = inputs_of(made.graph)
    program = compiler.compile(made.graph, made.dtype)
    found = run.execute(program, inputs)[0]["y"]
    assert cosine(found, by_onnxruntime(made.graph, inputs)["y"]) > 0.9998
    assert run.check(program, inputs).ok
    assert program.report is not None
    assert [phase.name for phase in program.report.phases if phase.kernel_core] == []


def test_no_product_of_floats_is_left() -> None:
    made = quantised(small_cnn())
    program = compiler.compile(made.graph, made.dtype)
    assert program.report is not None
    operators = Counter(member.operator for phase in program.report.phases for member in phase.members)
    assert operators["Int8Conv"] == 4 and operators["Int8MatMul"] == 1
    assert not {"Conv", "MatMul", "Gemm"} & set(operators)
    others = "1 Concat, 1 GlobalAveragePool, 1 Relu, 1 Softmax"
    assert made.table.summary() == f"int8: 6 of 6 products and sums; in fp16: {others}"


def test_a_vector_behind_a_product_of_bytes_is_its_bias() -> None:
    program = compiler.compile(quantised(mlp()).graph, "fp16", residency="off")
    assert program.report is not None
    members = [[member.operator for member in phase.members] for phase in program.report.phases]
    assert ["Int8MatMul"] in members
    added = sum(operators.count("Add") for operators in members)
    assert added == 2  # the residual, and the operators after the product that stays a float


def test_correcting_biases_takes_the_mean_error_away() -> None:
    """A product of constant inputs has no other error."""
    rng = np.random.default_rng(8)
    w, b = rng.standard_normal((64, 16)).astype(np.float32), rng.standard_normal(16).astype(np.float32)
    graph = float_graph([("Gemm", "n", ["x", "w", "b"], "y", {})], {"x": (4, 64)}, {"w": w, "b": b})
    x = np.broadcast_to(rng.uniform(1, 2, 64).astype(np.float32), (8, 4, 64))
    errors = {}
    for correct in (True, False):
        made = quantise(graph, samples_of({"x": x}, graph), Settings("minmax", correct), Goal()).graph
        inputs = {"x": x[0]}
        errors[correct] = np.abs(
            by_onnxruntime(made, inputs)["y"] - by_onnxruntime(graph, inputs)["y"]
        ).mean()
    assert errors[True] < 0.7 * errors[False]


@pytest.mark.parametrize(
    "settings", [Settings(equalise=True), Settings(smooth=0.5), Settings(equalise=True, smooth=0.3)]
)
@pytest.mark.parametrize("net", NETS)
def test_scaled_channels_stay_near(net: str, settings: Settings) -> None:
    graph = NETS[net]()
    made, inputs = quantised(graph, settings), inputs_of(graph)
    assert cosine(by_onnxruntime(made.graph, inputs)["y"], by_onnxruntime(graph, inputs)["y"]) > 0.998


def spread(seed: int = 3) -> Graph:
    """A normalization whose channels differ by a factor of a thousand, and a product that compensates for
    it."""
    rng = np.random.default_rng(seed)
    scale = np.geomspace(0.02, 20, 64).astype(np.float32)
    w = (rng.standard_normal((64, 32)) / scale[:, None]).astype(np.float32)
    constants = {"scale": scale, "shift": np.zeros(64, np.float32), "w": w}
    nodes = [
        ("LayerNormalization", "norm", ["x", "scale", "shift"], "n", {"axis": -1}),
        ("MatMul", "n0", ["n", "w"], "y", {}),
    ]
    return float_graph(nodes, {"x": (16, 64)}, constants)


def test_smoothing_saves_a_network_with_outlying_channels() -> None:
    graph = spread()
    inputs = inputs_of(graph)
    want = by_onnxruntime(graph, inputs)["y"]
    lost = {
        share: 1 - cosine(by_onnxruntime(quantised(graph, Settings(smooth=share)).graph, inputs)["y"], want)
        for share in (None, 0.5)
    }
    assert lost[0.5] < 1e-3 < 0.1 < lost[None]


def test_equal_samples_give_equal_graphs() -> None:
    graph = small_cnn()
    first, second = (quantised(graph).graph for _ in range(2))
    assert first.nodes == second.nodes
    for name, array in first.constants.items():
        np.testing.assert_array_equal(array, second.constants[name])


def test_the_order_of_samples_does_not_matter() -> None:
    graph, given = small_cnn(), samples(small_cnn())["x"]
    made = [
        quantise(graph, samples_of({"x": array}, graph), Settings(correct_bias=False), Goal()).graph
        for array in (given, given[::-1])
    ]
    for name, array in made[0].constants.items():
        np.testing.assert_array_equal(array, made[1].constants[name])


def test_outputs_of_the_graph_stay_floats() -> None:
    """A value that is also an output is given unchanged, and its bytes are read."""
    rng = np.random.default_rng(1)
    constants = {name: rng.standard_normal((4, 4, 1, 1)).astype(np.float32) for name in ("v", "w")}
    nodes = [("Conv", "first", ["x", "v"], "y", {}), ("Conv", "second", ["y", "w"], "z", {})]
    graph = float_graph([*nodes], {"x": (1, 4, 5, 5)}, constants)  # type: ignore[list-item]
    made = quantised(graph)
    assert [tensor.dtype for tensor in made.graph.outputs] == ["float32"]
    found = by_onnxruntime(made.graph, inputs_of(graph))["y"]
    assert len(np.unique(found)) > 60


def test_nodes_without_some_of_their_operands() -> None:
    """A recurrent layer without lengths of sequences and a limit without its lower end stay in floats."""
    rng = np.random.default_rng(2)
    shapes = {
        "w": (1, 32, 8),
        "r": (1, 32, 8),
        "b": (1, 64),
        "v": (8, 6),
        "u": (8, 8),
        "high": (),
        "start": (1, 1, 8),
    }
    constants = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    constants["squeezed"] = np.array([1], np.int64)
    nodes = [
        ("MatMul", "first", ["x", "u"], "a", {}),
        ("Clip", "limited", ["a", "", "high"], "c", {}),
        ("LSTM", "steps", ["c", "w", "r", "b", "", "start"], "h", {"hidden_size": 8}),
        ("Squeeze", "flat", ["h", "squeezed"], "f", {}),
        ("MatMul", "last", ["f", "v"], "y", {}),
    ]
    graph = float_graph(nodes, {"x": (5, 1, 8)}, constants)
    made = quantised(graph)
    assert Counter(node.op for node in made.graph.nodes)["QuantizeLinear"] >= 2
    found, want = (by_onnxruntime(each, inputs_of(graph))["y"] for each in (made.graph, graph))
    assert cosine(found, want) > 0.99


def refused(graph: Graph, given: dict[str, Array] | None = None) -> str:
    with pytest.raises(GraphError) as caught:
        quantise(graph, samples_of(given or samples(graph), graph), Settings(), Goal())
    return str(caught.value)


def test_a_quantised_graph_is_not_quantised_again() -> None:
    made = quantised(small_cnn()).graph
    assert refused(made).startswith("net is quantised already: node 'x.int8.")


def test_a_graph_without_products_is_refused() -> None:
    graph = float_graph([("Relu", "n", ["x"], "y", {})], {"x": (8, 8)}, {})
    wanted = "a convolution or matrix product of float32 with known weights"
    assert refused(graph) == f"net has nothing to quantise: no node is {wanted}"


def test_values_that_overflow_are_refused() -> None:
    graph = float_graph(
        [("Mul", "n", ["x", "x"], "s", {}), ("MatMul", "m", ["s", "w"], "y", {})],
        {"x": (8, 8)},
        {"w": np.ones((8, 8), np.float32)},
    )
    text = refused(graph, {"x": np.full((8, 8, 8), 1e30, np.float32)})
    assert text == "'s' becomes NaN or infinite in binary32 on the calibration data"
