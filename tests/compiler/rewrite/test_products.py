"""Matrix products whose rows are several joined axes, as exporters of linear layers write them."""

from __future__ import annotations

import numpy as np
import pytest

import tx8
from compiler.evaluation.reference import run_reference
from compiler.graph import Array
from compiler.rewrite import rewrite_graph
from compiler_harness import NodeSpec, draw, graph, ints
from rewrite_harness import assert_same, becomes, ops, stays

X = {"x": (2, 5, 6)}
CONSTANTS: dict[str, Array] = {
    "w": draw(6, 7),
    "wt": draw(7, 6),
    "b": draw(7, seed=2),
    "flat": ints(-1, 6),
    "apart": ints(2, 5, 7),
    "heads": ints(2, 5, 7, 1),
}


def linear(product: NodeSpec, apart: str = "apart") -> list[NodeSpec]:
    """A product of the rows of x; the activation after it needs the original axes."""
    return [
        ("Reshape", ["x", "flat"], ["f"], {}),
        product,
        ("Reshape", ["p", apart], ["r"], {}),
        ("Relu", ["r"], ["y"], {}),
    ]


@pytest.mark.parametrize(
    ("product", "wanted"),
    [
        (("MatMul", ["f", "w"], ["p"], {}), ["MatMul", "Relu"]),
        (("Gemm", ["f", "w"], ["p"], {}), ["MatMul", "Relu"]),
        (("Gemm", ["f", "w", "b"], ["p"], {}), ["MatMul", "Add", "Relu"]),
        (("Gemm", ["f", "wt", "b"], ["p"], {"transB": 1}), ["MatMul", "Add", "Relu"]),
    ],
    ids=["product", "gemm", "addend", "transposed"],
)
def test_rows_are_not_counted_together(product: NodeSpec, wanted: list[str]) -> None:
    becomes(linear(product), X, CONSTANTS, wanted)


def test_rows_that_were_others_before() -> None:
    """A product after an attention: its concatenated heads are the channels of the product."""
    nodes = linear(("Gemm", ["f", "w", "b"], ["p"], {}))
    becomes(nodes, {"x": (2, 5, 3, 2)}, CONSTANTS, ["Reshape", "MatMul", "Add", "Relu"])


@pytest.mark.parametrize(
    "attrs", [{"alpha": 2.0}, {"beta": 0.5}, {"alpha": 0.5, "transB": 1}], ids=["alpha", "beta", "both"]
)
def test_products_with_factors_stay(attrs: dict[str, float]) -> None:
    weights = "wt" if "transB" in attrs else "w"
    before = graph(linear(("Gemm", ["f", weights, "b"], ["p"], attrs)), X, CONSTANTS)
    after = rewrite_graph(before)
    assert_same(before, after)
    assert "Gemm" in ops(after)


def test_a_product_that_others_read_stays() -> None:
    nodes = [*linear(("Gemm", ["f", "w"], ["p"], {})), ("Exp", ["p"], ["z"], {})]
    stays(nodes, X, CONSTANTS, outputs=("y", "z"))


def test_columns_that_are_taken_apart_stay() -> None:
    stays(linear(("Gemm", ["f", "w"], ["p"], {}), "heads"), X, CONSTANTS)


def test_weights_that_are_computed_and_transposed_stay() -> None:
    nodes = linear(("Gemm", ["f", "g"], ["p"], {"transB": 1}))
    stays(nodes, {**X, "g": (7, 6)}, {name: CONSTANTS[name] for name in ("flat", "apart")})


TABLE = np.random.default_rng(8).standard_normal((9, 6)).astype(np.float32)


def with_table(weights: Array, *rows: int) -> list[str]:
    """The operators of a product of rows with weights, next to a Gather of rows of the table."""
    build = tx8.GraphBuilder("tied")
    build.output(build.Gather(TABLE, build.input("tokens", "int64", (3,))), "embedded")
    build.output(build.input("x", "float32", (*rows, 6)) @ weights, "logits")
    before = build.build()
    after = rewrite_graph(before)
    x = np.random.default_rng(9).standard_normal((*rows, 6)).astype(np.float32)
    inputs = {"tokens": np.array([4, 0, 8]), "x": x}
    for name, found in run_reference(after, inputs).items():
        np.testing.assert_allclose(found, run_reference(before, inputs)[name])
    return [op for op in ops(after) if op != "Identity"]


@pytest.mark.parametrize("weights", [TABLE.T, TABLE.T.copy()], ids=["view", "copy"])
def test_a_product_with_a_transposed_table_reads_its_rows(weights: Array) -> None:
    assert with_table(weights, 4) == ["Gather", "Gemm"]
    assert with_table(weights, 2, 4) == ["Gather", "Reshape", "Gemm", "Reshape"]


def test_a_product_with_other_weights_than_the_table_stays() -> None:
    other = TABLE.T.copy()
    other[5, 8] += 1
    assert with_table(other, 4) == ["Gather", "MatMul"]
    assert with_table(TABLE.T[:, ::-1], 4) == ["Gather", "MatMul"]
