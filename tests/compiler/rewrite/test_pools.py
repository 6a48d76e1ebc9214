"""Reductions over the positions of convolutions become pools; other ones, and parts of other patterns, do
not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compiler_harness import NodeSpec, assert_right, draw, graph, ints
from rewrite_harness import becomes, number, stays

W = {"w": draw(8, 4, 3, 3, scale=0.3)}
X = {"x": (2, 4, 7, 6)}
CONV: NodeSpec = ("Conv", ["x", "w"], ["c"], {})


def reduced(op: str, axes: tuple[int, ...], keep: int) -> tuple[NodeSpec, dict[str, Any]]:
    return (op, ["c", "axes"], ["y"], {"keepdims": keep}), {**W, "axes": ints(*axes)}


@pytest.mark.parametrize(
    ("op", "pool"), [("ReduceMean", "GlobalAveragePool"), ("ReduceMax", "LargestPosition")]
)
@pytest.mark.parametrize("axes", [(2, 3), (-1, -2)])
def test_all_positions_of_a_convolution(op: str, pool: str, axes: tuple[int, ...]) -> None:
    for keep, wanted in ((1, [pool]), (0, [pool, "Reshape"])):
        node, constants = reduced(op, axes, keep)
        becomes([CONV, node], X, constants, ["Conv", *wanted])


def test_the_largest_position_by_its_own_operator() -> None:
    nodes: list[NodeSpec] = [CONV, ("GlobalMaxPool", ["c"], ["y"], {})]
    becomes(nodes, X, W, ["Conv", "LargestPosition"])
    stays([("GlobalMaxPool", ["x"], ["y"], {})], X, {})


def test_behind_pointwise_operators() -> None:
    nodes: list[NodeSpec] = [
        CONV,
        ("Sigmoid", ["c"], ["g"], {}),
        ("Mul", ["half", "g"], ["m"], {}),
        ("ReduceMean", ["m", "axes"], ["y"], {}),
    ]
    constants = {**W, "half": number(0.5), "axes": ints(2, 3)}
    becomes(nodes, X, constants, ["Conv", "Sigmoid", "Mul", "GlobalAveragePool"])


@pytest.mark.parametrize("keep", [0, 1])
def test_of_an_image_with_channels_last(keep: int) -> None:
    """Programs of JAX have this form; the change of order then disappears."""
    nodes: list[NodeSpec] = [
        CONV,
        ("Transpose", ["c"], ["t"], {"perm": (0, 2, 3, 1)}),
        ("ReduceMean", ["t", "axes"], ["y"], {"keepdims": keep}),
    ]
    found = becomes(nodes, X, {**W, "axes": ints(1, 2)}, ["Conv", "GlobalAveragePool", "Reshape"])
    assert found.outputs[0].shape == ((2, 1, 1, 8) if keep else (2, 8))
    assert_right(graph(nodes, X, {**W, "axes": ints(1, 2)}), "fp16")


@pytest.mark.parametrize("axes", [(1,), (1, 2, 3), (0, 2, 3), (3,), (1, 2)])
def test_other_axes_stay(axes: tuple[int, ...]) -> None:
    node, constants = reduced("ReduceMean", axes, 1)
    stays([CONV, node], X, constants)


def test_channels_and_images_in_another_order_stay() -> None:
    nodes: list[NodeSpec] = [
        CONV,
        ("Transpose", ["c"], ["t"], {"perm": (1, 0, 2, 3)}),
        ("ReduceMean", ["t", "axes"], ["y"], {}),
    ]
    stays(nodes, X, {**W, "axes": ints(2, 3)})


def test_what_is_not_in_planes_stays() -> None:
    """An input of the graph, and the result of a product, already have rows in the order of the reduction."""
    stays([("ReduceMean", ["x", "axes"], ["y"], {})], X, {"axes": ints(2, 3)})
    product: list[NodeSpec] = [("MatMul", ["x", "m"], ["c"], {}), ("ReduceMax", ["c", "axes"], ["y"], {})]
    stays(product, X, {"m": draw(6, 5), "axes": ints(2, 3)})


def test_integers_stay() -> None:
    nodes: list[NodeSpec] = [("MaxPool", ["x"], ["c"], {"kernel_shape": (2, 2)})]
    nodes.append(("ReduceMax", ["c", "axes"], ["y"], {}))
    made = graph(nodes, X, {"axes": ints(2, 3)}, dtype="int8")
    data = np.random.default_rng(3).integers(-128, 128, (2, 4, 7, 6)).astype(np.int8)
    assert_right(made, "fp16", inputs={"x": data})


def test_normalizations_of_positions_are_found_first() -> None:
    """Their means are means of positions too."""
    nodes: list[NodeSpec] = [
        CONV,
        ("ReduceMean", ["c", "axes"], ["m"], {}),
        ("Sub", ["c", "m"], ["d"], {}),
        ("Mul", ["d", "d"], ["q"], {}),
        ("ReduceMean", ["q", "axes"], ["v"], {}),
        ("Add", ["v", "eps"], ["e"], {}),
        ("Sqrt", ["e"], ["r"], {}),
        ("Div", ["d", "r"], ["y"], {}),
    ]
    constants = {**W, "axes": ints(2, 3), "eps": number(1e-5)}
    becomes(nodes, X, constants, ["Conv", "LayerNormalization"])
