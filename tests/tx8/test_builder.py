"""Graphs built in Python: results of operators, and mistakes reported at the line that makes them."""

from __future__ import annotations

import numpy as np
import pytest

import tx8
from compiler.evaluation.reference import run_reference
from compiler.graph import GraphError

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


def test_arithmetic_is_that_of_arrays() -> None:
    graph = tx8.GraphBuilder("arithmetic")
    x = graph.input("x", "float32", (3, 4))
    row = np.arange(1, 5, dtype=np.float32)
    graph.output(1 - (x + row) * 2 / row - -x, "y")
    expected = 1 - (X + row) * 2 / row - -X
    np.testing.assert_allclose(run_reference(graph.build(), {"x": X})["y"], expected, rtol=1e-6)


def test_arrays_on_the_left() -> None:
    graph = tx8.GraphBuilder("left")
    x = graph.input("x", "float32", (3, 4))
    row, matrix = np.arange(4, dtype=np.float32) + 1, np.eye(3, dtype=np.float32) * 2
    y = graph.output(row / (matrix @ (row + x)), "y")
    assert (y.dtype, y.shape) == ("float32", (3, 4))
    np.testing.assert_allclose(run_reference(graph.build(), {"x": X})["y"], row / (2 * (row + X)), rtol=1e-6)


def test_attributes_and_several_results() -> None:
    graph = tx8.GraphBuilder("split")
    x = graph.input("x", "float32", (3, 4))
    left, right = graph.Split(x, outputs=2, axis=1, num_outputs=2)
    assert left.shape == right.shape == (3, 2)
    graph.output(graph.Transpose(graph.Concat(right, left, axis=1), perm=[1, 0]), "y")
    swapped = np.concatenate([X[:, 2:], X[:, :2]], axis=1).T
    np.testing.assert_array_equal(run_reference(graph.build(), {"x": X})["y"], swapped)


def test_numbers_have_the_type_of_what_they_meet() -> None:
    graph = tx8.GraphBuilder("numbers")
    x = graph.input("x", "float16", (4,))
    n = graph.input("n", "int32", (4,))
    assert (x * 2).dtype == "float16"
    assert (n + 1).dtype == "int32"
    assert graph.constant(1.5).dtype == "float32"
    assert graph.constant([1, 2], dtype="int64").dtype == "int64"


def test_optional_operands_are_omitted_by_none() -> None:
    graph = tx8.GraphBuilder("clip")
    x = graph.input("x", "float32", (3, 4))
    graph.output(graph.Clip(x, None, 1.0), "y")
    np.testing.assert_array_equal(run_reference(graph.build(), {"x": X})["y"], np.minimum(X, 1))


def test_a_value_describes_itself() -> None:
    graph = tx8.GraphBuilder("text")
    assert repr(graph.input("x", "float32", (3, 4))) == "<tx8.Value x: float32 3x4>"
    assert repr(graph) == "<tx8.GraphBuilder text: 0 nodes>"


def other() -> tx8.Value:
    return tx8.GraphBuilder("other").input("z", "float32", (3, 4))


@pytest.mark.parametrize(
    ("mistake", "text"),
    [
        (lambda g, x: g.Reluu(x), "unsupported operator Reluu; did you mean 'Relu'?"),
        (lambda g, x: g.Relu(x, x), "(Relu): takes 1 input"),
        (lambda g, x: g.Softmax(x, axes=1), "(Softmax): "),
        (lambda g, x: x @ x, "(MatMul): "),
        (lambda g, x: x + np.zeros(5, np.float32), "(Add): "),
        (lambda g, x: x + other(), "value 'z' belongs to graph 'other'"),
        (lambda g, x: g.input("x", "float32", (1,)), "a tensor 'x' exists already"),
        (lambda g, x: g.input("y", "float23", (1,)), "unknown dtype 'float23'; allowed are"),
        (lambda g, x: g.constant(["a"]), "is not supported"),
        (lambda g, x: g.constant(np.zeros(2, complex)), "dtype complex128 is not supported"),
    ],
)
def test_a_mistake_is_one_line_where_it_is_made(mistake: object, text: str) -> None:
    graph = tx8.GraphBuilder("wrong")
    x = graph.input("x", "float32", (3, 4))
    with pytest.raises(GraphError) as caught:
        mistake(graph, x)  # type: ignore[operator]
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_only_operators_are_attributes() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'relu'"):
        tx8.GraphBuilder().relu  # noqa: B018
