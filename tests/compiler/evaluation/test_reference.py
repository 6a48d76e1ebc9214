"""The reference run of whole graphs, rounding to storage formats, and the verdicts on outputs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from compiler.evaluation.infer import build_graph
from compiler.evaluation.reference import run_reference
from compiler.evaluation.tolerance import judge
from compiler.graph import Description, Graph, GraphError, Node, Tensor


def graph_of(
    nodes: list[Node], shape: tuple[int, ...] = (2, 3), dtype: str = "float32", **constants: object
) -> Graph:
    arrays = {name: np.asarray(value) for name, value in constants.items()}
    last = nodes[-1].outputs[0]
    return build_graph(Description("g", "g", 20, (Tensor("x", dtype, shape),), (last,), arrays, tuple(nodes)))


def node(op: str, inputs: str, output: str, **attrs: float) -> Node:
    return Node(op, f"{op}_{output}", tuple(inputs.split()), (output,), attrs)


def test_nothing_is_rounded_between_nodes() -> None:
    graph = graph_of([node("Div", "x three", "a"), node("Mul", "a three", "y")], three=np.float32(3))
    x = np.array([[1, 2, 3], [5, 7, 11]], np.float32)
    got = run_reference(graph, {"x": x})["y"]
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, x, rtol=2.0**-52)


def test_integers_wrap_in_their_own_type() -> None:
    graph = graph_of([node("Add", "x x", "y")], (2,), "int8")
    got = run_reference(graph, {"x": np.array([100, -100], np.int8)})["y"]
    assert got.dtype == np.int8
    assert got.tolist() == [-56, 56]


def test_an_output_may_be_an_input_or_a_constant() -> None:
    graph = build_graph(
        Description("g", "g", 17, (Tensor("x", "float16", (2,)),), ("x", "c"), {"c": np.arange(3)}, ())
    )
    got = run_reference(graph, {"x": np.array([1, 0.1], np.float16)})
    assert got["x"].tolist() == [1.0, float(np.float16(0.1))]
    assert got["c"].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("storage", "expected"),
    [
        (None, 1 + 2.0**-10 + 2.0**-20),
        ("fp32", 1 + 2.0**-10 + 2.0**-20),
        ("tf32", 1 + 2.0**-10),
        ("fp16", 1 + 2.0**-10),
        ("bf16", 1.0),
    ],
)
def test_storage_rounds_inputs_and_constants(storage: str | None, expected: float) -> None:
    value = np.float32(1 + 2.0**-10 + 2.0**-20)
    graph = graph_of([node("Max", "x c", "y")], (), c=value)
    assert run_reference(graph, {"x": np.array(value)}, storage=storage)["y"] == expected
    assert run_reference(graph, {"x": np.zeros((), np.float32)}, storage=storage)["y"] == expected


def test_storage_leaves_integers_alone() -> None:
    graph = graph_of([node("Identity", "x", "y")], (1,), "int32")
    x = np.array([2**31 - 1], np.int32)
    assert run_reference(graph, {"x": x}, storage="bf16")["y"].tolist() == [2**31 - 1]


def test_an_input_in_a_wider_float_is_rounded_to_the_declared_one() -> None:
    graph = graph_of([node("Identity", "x", "y")], (1,), "bfloat16")
    got = run_reference(graph, {"x": np.array([1 + 2.0**-8 + 2.0**-40])})["y"]
    assert got.tolist() == [1 + 2.0**-7]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "input 'x' is missing; it is float32 [2, 3]"),
        ({"x": np.zeros((2, 3), np.float32), "xx": 0}, "graph g has no input 'xx'; did you mean 'x'?"),
        ({"x": np.zeros((3, 2), np.float32)}, "input 'x' has shape [3, 2]; declared is [2, 3]"),
        ({"x": np.zeros((2, 3), np.int32)}, "input 'x' is int32; declared is float32"),
    ],
)
def test_wrong_inputs(inputs: dict[str, object], message: str) -> None:
    graph = graph_of([node("Relu", "x", "y")])
    with pytest.raises(GraphError) as caught:
        run_reference(graph, inputs)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_unknown_storage() -> None:
    graph = graph_of([node("Relu", "x", "y")])
    with pytest.raises(GraphError, match="unknown storage format 'int8'; allowed are fp32, tf32, fp16, bf16"):
        run_reference(graph, {"x": np.zeros((2, 3), np.float32)}, storage="int8")


def test_integer_division_by_zero_names_the_node() -> None:
    graph = graph_of([node("Div", "x x", "y")], (2,), "int32")
    with pytest.raises(GraphError) as caught:
        run_reference(graph, {"x": np.array([1, 0], np.int32)})
    expected = "node 'Div_y' (Div): integer division by zero; the divisor must hold no zero"
    assert str(caught.value) == expected


def test_softmax_of_giants_and_of_masked_values() -> None:
    graph = graph_of([node("Softmax", "x", "y")])
    got = run_reference(graph, {"x": np.array([[60000, 0, 0], [-np.inf, 1, 1]], np.float32)})["y"]
    np.testing.assert_array_equal(got, [[1, 0, 0], [0, 0.5, 0.5]])


def test_layer_normalization_far_from_zero() -> None:
    graph = graph_of([node("LayerNormalization", "x s", "y", epsilon=0.0)], s=np.ones(3, np.float32))
    got = run_reference(graph, {"x": np.array([[1e4, 1e4 + 1, 1e4 + 2], [0, 1, 2]], np.float32)})["y"]
    np.testing.assert_allclose(got, [[-math.sqrt(1.5), 0, math.sqrt(1.5)]] * 2, atol=1e-10)


def test_a_3x3_convolution_is_the_sum_of_its_definition() -> None:
    rng = np.random.default_rng(3)
    x, w = rng.integers(-8, 9, (1, 2, 5, 4)), rng.integers(-8, 9, (3, 2, 3, 3))
    conv = Node("Conv", "c", ("x", "w"), ("y",), {"pads": (1, 1, 1, 1), "strides": (2, 1)})
    graph = graph_of([conv], x.shape, w=w.astype(np.float32))
    got = run_reference(graph, {"x": x.astype(np.float32)})["y"]
    assert got.shape == (1, 3, 3, 4)
    for m, row, column in np.ndindex(3, 3, 4):
        total = 0
        for c, i, j in np.ndindex(2, 3, 3):
            r, s = 2 * row + i - 1, column + j - 1
            if 0 <= r < 5 and 0 <= s < 4:
                total += int(x[0, c, r, s]) * int(w[m, c, i, j])
        assert got[0, m, row, column] == total


# --- verdicts ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "dtype", "relative_error", "ok"),
    [
        ("operator", "fp32", 0.9e-3, True),
        ("operator", "fp32", 1.3e-3, False),
        ("operator", "tf32", 0.9e-2, True),
        ("operator", "tf32", 1.1e-2, False),
        ("operator", "fp16", 1.9e-2, True),
        ("operator", "fp16", 2.1e-2, False),
        ("operator", "bf16", 5.9e-2, False),
        ("operator", "bf16", 4e-2, True),
        ("model", "fp32", 1.9e-3, True),
        ("model", "fp32", 2.1e-3, False),
        ("model", "tf32", 2.9e-2, True),
        ("model", "tf32", 3.1e-2, False),
        ("model", "fp16", 2.9e-2, True),
        ("model", "fp16", 3.1e-2, False),
        ("model", "bf16", 0.14, False),
        ("model", "bf16", 5e-2, True),
        ("movement", "fp32", 0.0, True),
        ("movement", "fp32", 1e-7, False),
    ],
)
def test_limits(kind: str, dtype: str, relative_error: float, ok: bool) -> None:
    """Errors of alternating sign on equal values: the cosine is 1/sqrt(1 + error**2)."""
    expected = np.full(64, 4.0)
    got = expected * (1 + relative_error * np.tile([1, -1], 32))
    verdict = judge(kind, dtype, got, expected, declared="float32")  # type: ignore[arg-type]
    assert verdict.ok is ok, verdict.text
    assert verdict.max_abs_error == pytest.approx(4 * relative_error, abs=1e-12)
    assert verdict.cosine == pytest.approx(1 / math.sqrt(1 + relative_error**2), abs=1e-12)


@pytest.mark.parametrize(
    ("declared", "error", "ok"),
    [
        ("float16", 0.011, True),
        ("float16", 0.013, False),
        ("bfloat16", 0.039, True),
        ("bfloat16", 0.041, False),
    ],
)
def test_half_outputs_under_fp32(declared: str, error: float, ok: bool) -> None:
    expected = np.ones(4)
    assert judge("operator", "fp32", expected + error, expected, declared=declared).ok is ok
    assert judge("model", "fp32", expected + error, expected, declared=declared).ok is ok


def test_nan_and_infinities_must_be_in_place() -> None:
    expected = np.array([np.nan, np.inf, -np.inf, 1.0])
    assert judge("model", "fp16", expected.astype(np.float16), expected).ok
    for wrong in (
        [1.0, np.inf, -np.inf, 1.0],
        [np.nan, -np.inf, -np.inf, 1.0],
        [np.nan, np.inf, -np.inf, np.nan],
    ):
        verdict = judge("model", "fp16", np.array(wrong, np.float16), expected)
        assert not verdict.ok
        assert verdict.text == "NaN or infinities are not where they are expected"


def test_integers_are_equal() -> None:
    expected = np.arange(40, dtype=np.int8)
    off = expected.copy()
    off[:2] += 1
    assert judge("operator", "fp32", expected, expected).ok
    assert not judge("operator", "fp32", off, expected).ok
    assert judge("quantising", "fp32", off, expected).ok
    off[2] += 1
    assert not judge("quantising", "fp32", off, expected).ok
    off = expected.copy()
    off[0] += 2
    verdict = judge("quantising", "fp32", off, expected)
    assert (verdict.ok, verdict.max_abs_error, verdict.text) == (False, 2.0, "1 of 40 values differ")


def test_other_shape_or_dtype() -> None:
    shape = judge("model", "fp32", np.zeros((2, 1)), np.zeros(2))
    assert (shape.ok, shape.text) == (False, "shape [2, 1], expected [2]")
    dtype = judge("model", "fp32", np.zeros(2, np.int32), np.zeros(2, np.int64))
    assert (dtype.ok, dtype.text) == (False, "dtype int32, expected int64")
    assert not judge("model", "fp32", np.zeros(2, np.float32), np.zeros(2, np.int64)).ok


def test_zero_and_empty_outputs() -> None:
    assert judge("model", "fp32", np.zeros(3), np.zeros(3)).ok
    assert judge("model", "fp32", np.zeros((0, 3)), np.zeros((0, 3))).ok
    assert not judge("model", "bf16", np.full(3, 1e-9), np.zeros(3)).ok


def test_cosine_of_extreme_values_does_not_overflow() -> None:
    values = np.array([1e300, -1e300, 1e-300])
    assert judge("model", "fp32", values, values).cosine == pytest.approx(1.0)


def test_unknown_compute_type() -> None:
    with pytest.raises(GraphError, match="unknown compute type 'fp64'; allowed are fp32, tf32, fp16, bf16"):
        judge("model", "fp64", np.zeros(1), np.zeros(1))
