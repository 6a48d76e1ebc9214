"""The nodes that compute with bytes, the values that become bytes, and the values that share a scale."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compiler.graph import Array, Graph
from compiler.quantise.places import Places
from float_nets import float_graph, mlp, small_cnn

Nodes = list[tuple[str, str, list[str], str, dict[str, Any]]]


def test_products_and_the_sum_between_them_are_candidates() -> None:
    assert list(Places(small_cnn()).candidates) == ["c0", "c1", "sum", "c2", "c3", "fc"]


def test_a_sum_that_floats_read_is_none() -> None:
    assert list(Places(mlp()).candidates) == ["up", "down"]


def averaged(reader: str) -> Graph:
    """Two convolutions, their sum with a Relu, and its reader."""
    constants = {f"w{at}": np.full((4, 4, 1, 1), 0.5, np.float32) for at in range(2)}
    nodes: Nodes = [
        ("Conv", "c0", ["x", "w0"], "a", {}),
        ("Conv", "c1", ["x", "w1"], "b", {}),
        ("Add", "sum", ["a", "b"], "s", {}),
        ("Relu", "relu", ["s"], "r", {}),
        (reader, "reader", ["r"], "y", {"kernel_shape": (2, 2)} if reader == "AveragePool" else {}),
    ]
    return float_graph(nodes, {"x": (1, 4, 6, 6)}, constants)


@pytest.mark.parametrize("reader", ["GlobalAveragePool", "AveragePool"])
def test_a_sum_whose_mean_is_taken_is_one_of_bytes(reader: str) -> None:
    """So it can be a stage of the stack of its operands; the pool reads the numbers that the bytes
    represent."""
    places = Places(averaged(reader))
    chosen = list(places.candidates)
    assert chosen == ["c0", "c1", "sum"]
    values = places.values(chosen)
    assert set(values) == {"x", "a", "b", "r"}
    assert places.are_bytes(values, chosen) == {"a", "b", "r"}
    assert "r" not in places.values(["c0", "c1"])


@pytest.mark.parametrize("reader", ["Softmax", "Exp"])
def test_a_sum_that_other_operators_read_is_none(reader: str) -> None:
    assert list(Places(averaged(reader)).candidates) == ["c0", "c1"]


def test_what_is_moved_or_joined_shares_a_scale() -> None:
    places = Places(small_cnn())
    homes = places.values(places.candidates)
    assert set(homes) == {"x", "r0", "p", "c1", "r1", "m", "f"}
    assert homes["r0"] == homes["p"] and homes["m"] == homes["f"]
    assert len(set(homes.values())) == 5


def test_bytes_of_products_are_read_by_everyone() -> None:
    places = Places(small_cnn())
    chosen = list(places.candidates)
    assert places.are_bytes(places.values(chosen), chosen) == {"r0", "p", "c1", "r1"}
    assert places.are_bytes(places.values(["fc"]), ["fc"]) == set()


def test_without_one_of_them_its_operands_stay_floats() -> None:
    places = Places(small_cnn())
    assert set(places.values(["c0", "c2"])) == {"x", "r1"}
    assert set(places.values(["sum"])) == {"c1", "p", "r0"}


def test_a_vector_and_limits_belong_to_a_product() -> None:
    places = Places(mlp())
    assert [node.name for node in places.tail(places.node("up"))] == ["shifted", "relu"]
    assert places.result(places.node("up")) == "r"
    assert places.vector(places.node("down")) is None


SHAPE = (2, 6, 8)


def one(
    op: str, inputs: list[str], constants: dict[str, Array], x: tuple[int, ...] = SHAPE, **attrs: Any
) -> Graph:
    return float_graph([(op, "n", inputs, "y", attrs)], {"x": x}, constants)


def ones(*shape: int) -> Array:
    return np.ones(shape, np.float32)


@pytest.mark.parametrize(
    "graph",
    [
        one("MatMul", ["x", "x"], {}, (4, 4)),
        one("MatMul", ["w", "x"], {"w": ones(3, 6)}),
        one("MatMul", ["x", "w"], {"w": ones(2, 8, 3)}),
        one("Gemm", ["x", "w"], {"w": ones(8, 3)}, (6, 8), alpha=2.0),
        one("Gemm", ["x", "w"], {"w": ones(6, 3)}, (6, 8), transA=1),
        one("Gemm", ["x", "w", "c"], {"w": ones(8, 3), "c": ones(6, 3)}, (6, 8)),
        one("Conv", ["x", "w"], {"w": ones(2, 3, 1, 1, 1)}, (1, 3, 4, 4, 4)),
        one("Relu", ["x"], {}),
        one("Add", ["x", "w"], {"w": ones(8)}),
    ],
    ids=[
        "computed",
        "left",
        "stack",
        "alpha",
        "transA",
        "matrix addend",
        "volume",
        "no product",
        "no product 2",
    ],
)
def test_other_products_are_no_candidates(graph: Graph) -> None:
    assert list(Places(graph).candidates) == []


def test_excluded_products_take_their_sums_with_them() -> None:
    assert list(Places(small_cnn(), {"c0"}).candidates) == ["c1", "c2", "c3", "fc"]
