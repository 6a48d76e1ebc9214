"""Functions that JAX writes out become operators again: sigmoids, means, and functions of them."""

from __future__ import annotations

import numpy as np
import pytest

from compiler_harness import NodeSpec
from rewrite_harness import becomes, number, stays

SIGMOID: list[NodeSpec] = [
    ("Neg", ["x"], ["n"], {}),
    ("Exp", ["n"], ["e"], {}),
    ("Add", ["e", "one"], ["s"], {}),
    ("Div", ["one", "s"], ["y"], {}),
]
X = {"x": (3, 8)}


@pytest.mark.parametrize("operands", [["e", "one"], ["one", "e"]])
def test_a_sigmoid_written_out(operands: list[str]) -> None:
    nodes = [*SIGMOID[:2], ("Add", operands, ["s"], {}), SIGMOID[3]]
    becomes(nodes, X, {"one": number(1)}, ["Sigmoid"])


def test_the_product_with_its_operand_is_a_swish() -> None:
    nodes = [*SIGMOID[:3], ("Div", ["one", "s"], ["g"], {}), ("Mul", ["x", "g"], ["y"], {})]
    becomes(nodes, X, {"one": number(1)}, ["Swish"])


@pytest.mark.parametrize(
    ("change", "constants"),
    [
        ({}, {"one": number(2)}),
        ({3: ("Div", ["s", "one"], ["y"], {})}, {"one": number(0.5)}),
        ({0: ("Abs", ["x"], ["n"], {})}, {"one": number(1)}),
        ({1: ("Tanh", ["n"], ["e"], {})}, {"one": number(1)}),
    ],
)
def test_what_is_no_sigmoid(change: dict[int, NodeSpec], constants: dict[str, np.ndarray]) -> None:
    stays([change.get(at, node) for at, node in enumerate(SIGMOID)], X, constants)


def test_a_sigmoid_whose_parts_are_used_stays() -> None:
    stays(SIGMOID, X, {"one": number(1)}, outputs=("y", "e"))


def mean(
    count: float, axes: tuple[int, ...], keepdims: int = 1
) -> tuple[list[NodeSpec], dict[str, np.ndarray]]:
    """A sum over axes divided by a number."""
    nodes: list[NodeSpec] = [
        ("ReduceSum", ["x", "axes"], ["s"], {"keepdims": keepdims}),
        ("Div", ["s", "count"], ["y"], {}),
    ]
    return nodes, {"axes": np.array(axes, np.int64), "count": number(count)}


@pytest.mark.parametrize(("count", "axes"), [(8, (1,)), (3, (0,)), (24, (0, 1)), (8, (-1,))])
def test_a_sum_over_its_count_is_a_mean(count: float, axes: tuple[int, ...]) -> None:
    nodes, constants = mean(count, axes)
    becomes(nodes, X, constants, ["ReduceMean"])


@pytest.mark.parametrize("keepdims", [0, 1])
def test_a_sum_times_one_over_its_count_is_a_mean(keepdims: int) -> None:
    nodes, constants = mean(1 / 8, (1,), keepdims)
    nodes[1] = ("Mul", ["count", "s"], ["y"], {})
    after = becomes(nodes, X, constants, ["ReduceMean"])
    assert after.nodes[0].attrs["keepdims"] == keepdims


def test_other_quotients_of_sums_stay() -> None:
    for nodes, constants in (mean(7, (1,)), mean(3, (1,)), mean(7, (1,), keepdims=0)):
        stays(nodes, X, constants)
    nodes, constants = mean(8, (1,))
    stays(nodes, X, constants, outputs=("y", "s"))


def test_a_normalization_of_sums() -> None:
    nodes: list[NodeSpec] = [
        ("ReduceSum", ["x", "axes"], ["s"], {}),
        ("Div", ["s", "count"], ["m"], {}),
        ("Sub", ["x", "m"], ["c"], {}),
        ("Mul", ["c", "c"], ["q"], {}),
        ("ReduceSum", ["q", "axes"], ["t"], {}),
        ("Div", ["t", "count"], ["v"], {}),
        ("Add", ["v", "epsilon"], ["w"], {}),
        ("Sqrt", ["w"], ["r"], {}),
        ("Reciprocal", ["r"], ["i"], {}),
        ("Mul", ["c", "i"], ["y"], {}),
    ]
    constants = {"axes": np.array([-1], np.int64), "count": number(8), "epsilon": number(1e-5)}
    becomes(nodes, X, constants, ["LayerNormalization"])
