"""Rewrites of products, of movements, and the engine that applies them; near misses are left alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from compiler.graph import Array
from compiler.rewrite import LAST, REWRITES, rewrite_graph
from compiler.rewrite.engine import Replacement, Rewrite, RewrittenGraph, replacement
from compiler_harness import NodeSpec, draw, graph, ints
from rewrite_harness import HALF, becomes, ops, stays

# --- affine ----------------------------------------------------------------------------------------------


def normalization(channels: int) -> dict[str, Array]:
    drawn = {name: draw(channels, seed=at) for at, name in enumerate(("s", "b", "m"))}
    return {**drawn, "v": np.abs(draw(channels, seed=9)) + 0.1}


BN: NodeSpec = ("BatchNormalization", ["c", "s", "b", "m", "v"], ["y"], {"epsilon": 1e-3})


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("op", ["Conv", "ConvTranspose"])
def test_batch_normalization_behind_a_convolution(op: str, group: int, bias: bool) -> None:
    weights = draw(6, 4 // group, 3, 3) if op == "Conv" else draw(4, 6 // group, 3, 3)
    constants = {"w": weights, "k": draw(6, seed=2), **normalization(6)}
    operands = ["x", "w", "k"] if bias else ["x", "w"]
    nodes = [(op, operands, ["c"], {"group": group}), BN]
    after = becomes(nodes, {"x": (2, 4, 5, 5)}, constants, [op])
    assert after.nodes[0].name == "n1" and after.nodes[0].outputs == ("y",)


def test_batch_normalization_of_the_rows_of_a_product() -> None:
    """A linear layer on tokens [B, N, C] whose normalization sees them as rows."""
    nodes: list[NodeSpec] = [("MatMul", ["x", "w"], ["p"], {}), ("Reshape", ["p", "rows"], ["c"], {}), BN]
    constants = {"w": draw(5, 6, seed=1), "rows": np.array([-1, 6]), **normalization(6)}
    tokens: dict[str, tuple[int, ...]] = {"x": (2, 4, 5)}
    becomes(nodes, tokens, constants, ["Reshape", "Gemm"])
    stays(nodes, tokens, constants, outputs=("y", "p"))
    stays(nodes, tokens, {**constants, "rows": np.array([4, 12]), **normalization(12)})
    stays(nodes, tokens, {**constants, "rows": np.array([4, 2, 6]), **normalization(2)})
    infinite = {**constants, "b": np.full(6, np.inf, np.float32)}
    assert ops(rewrite_graph(graph(nodes, tokens, infinite))) == [spec[0] for spec in nodes]


@pytest.mark.parametrize("turned", [0, 1])
def test_batch_normalization_behind_a_gemm(turned: int) -> None:
    constants = {"w": draw(6, 4) if turned else draw(4, 6), "k": draw(6, seed=2), **normalization(6)}
    attrs = {"transB": turned, "alpha": 0.5, "beta": 3.0}
    becomes([("Gemm", ["x", "w", "k"], ["c"], attrs), BN], {"x": (5, 4)}, constants, ["Gemm"])
    becomes([("MatMul", ["x", "t"], ["c"], {}), BN], {"x": (5, 4)}, {"t": draw(4, 6), **constants}, ["Gemm"])


@pytest.mark.parametrize("op", ["Mul", "Div", "Add", "Sub"])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("shape", [(), (1,), (6, 1, 1), (1, 6, 1, 1)])
def test_constants_behind_a_convolution(op: str, first: bool, shape: tuple[int, ...]) -> None:
    constants = {"w": draw(6, 4, 1, 1), "k": np.asarray(np.abs(draw(*shape, seed=3)) + 0.5, np.float32)}
    operands = ["k", "c"] if first else ["c", "k"]
    nodes: list[NodeSpec] = [("Conv", ["x", "w"], ["c"], {}), (op, operands, ["y"], {})]
    becomes(nodes, {"x": (2, 4, 3, 3)}, constants, ["Conv", "Div"] if op == "Div" and first else ["Conv"])


def test_scale_and_shift_of_products_of_matrices() -> None:
    constants = {"w": draw(4, 6), "s": draw(6, seed=2), "b": draw(6, seed=3)}
    nodes: list[NodeSpec] = [
        ("MatMul", ["x", "w"], ["p"], {}),
        ("Mul", ["p", "s"], ["q"], {}),
        ("Add", ["q", "b"], ["y"], {}),
    ]
    becomes(nodes, {"x": (5, 4)}, constants, ["Gemm"])
    becomes(nodes, {"x": (2, 5, 4)}, constants, ["MatMul", "Add"])


@pytest.mark.parametrize(
    "extra",
    [
        [("Relu", ["c"], ["z"], {})],  # the sum before the normalization is wanted elsewhere
        [("Relu", ["y"], ["z"], {})],
    ],
)
def test_a_convolution_with_other_users_keeps_its_weights(extra: list[NodeSpec]) -> None:
    constants = {"w": draw(6, 4, 1, 1), **normalization(6)}
    nodes = [("Conv", ["x", "w"], ["c"], {}), BN, *extra]
    wanted = ["Conv", "BatchNormalization", "Relu"] if extra[0][1] == ["c"] else ["Conv", "Relu"]
    becomes(nodes, {"x": (1, 4, 3, 3)}, constants, wanted, outputs=("y", "z"))


def test_what_is_not_folded_into_a_convolution() -> None:
    constants = {"w": draw(6, 4, 1, 1), "row": draw(3), "grid": draw(6, 3, 3), **normalization(6)}
    conv: NodeSpec = ("Conv", ["x", "w"], ["c"], {})
    shapes: dict[str, tuple[int, ...]] = {"x": (1, 4, 3, 3), "s": (6,)}
    stays([conv, ("Mul", ["c", "row"], ["y"], {})], {"x": (1, 4, 3, 3)}, constants)
    stays([conv, ("Add", ["c", "grid"], ["y"], {})], {"x": (1, 4, 3, 3)}, constants)
    computed = {name: array for name, array in constants.items() if name != "s"}
    stays([conv, BN], shapes, computed)
    computed = {name: array for name, array in constants.items() if name != "w"}
    stays([conv, BN], {"x": (1, 4, 3, 3), "w": (6, 4, 1, 1)}, computed)
    stays(
        [conv, ("Mul", ["c", "big"], ["y"], {})], {"x": (1, 4, 3, 3)}, {**constants, "big": draw(2, 6, 1, 1)}
    )


def test_a_factor_that_is_infinite_is_not_folded() -> None:
    constants = {"w": draw(6, 4, 1, 1), **normalization(6), "v": np.zeros(6, np.float32)}
    nodes: list[NodeSpec] = [("Conv", ["x", "w"], ["c"], {}), (*BN[:3], {"epsilon": 0.0})]
    before = graph(nodes, {"x": (1, 4, 3, 3)}, constants)
    assert ops(rewrite_graph(before)) == ["Conv", "BatchNormalization"]


CONV: NodeSpec = ("Conv", ["p", "w"], ["y"], {"pads": (1, 0, 0, 0)})


def test_zeros_around_an_image() -> None:
    constants = {"w": draw(6, 4, 3, 3), "n": ints(0, 0, 1, 2, 0, 0, 0, 1), "zero": np.array(0, np.float32)}
    pad: NodeSpec = ("Pad", ["x", "n", "zero"], ["p"], {})
    after = becomes([pad, CONV], {"x": (1, 4, 6, 6)}, constants, ["Conv"])
    assert after.nodes[0].attrs["pads"] == (2, 2, 0, 1)
    valid: NodeSpec = (*CONV[:3], {"auto_pad": "VALID"})
    becomes([(pad[0], ["x", "n"], *pad[2:]), valid], {"x": (1, 4, 6, 6)}, constants, ["Conv"])


@pytest.mark.parametrize(
    ("widths", "value", "attrs"),
    [
        ((0, 0, 1, 1, 0, 0, 1, 1), 1.0, {}),
        ((0, 0, 1, 1, 0, 0, 1, 1), 0.0, {"mode": "reflect"}),
        ((0, 0, -1, 1, 0, 0, 1, 1), 0.0, {}),
        ((0, 0, 4, 1, 0, 0, 1, 1), 0.0, {}),  # more than the lowering of Conv supports
        ((1, 0, 1, 1, 0, 0, 1, 1), 0.0, {}),
    ],
)
def test_what_is_not_padded_by_the_convolution(widths: Sequence[int], value: float, attrs: Any) -> None:
    constants = {"w": draw(6, 4, 3, 3), "n": ints(*widths), "value": np.array(value, np.float32)}
    stays([("Pad", ["x", "n", "value"], ["p"], attrs), CONV], {"x": (1, 4, 6, 6)}, constants)


def test_a_padded_image_that_others_read() -> None:
    constants = {"w": draw(6, 4, 3, 3), "n": ints(0, 0, 1, 1, 0, 0, 1, 1)}
    stays([("Pad", ["x", "n"], ["p"], {}), CONV], {"x": (1, 4, 6, 6)}, constants, outputs=("p", "y"))


# --- movement and products -------------------------------------------------------------------------------


def test_transposes_in_a_row() -> None:
    shapes = {"x": (2, 3, 4)}
    turn: NodeSpec = ("Transpose", ["x"], ["t"], {"perm": (2, 0, 1)})
    back: list[NodeSpec] = [("Transpose", ["t"], ["u"], {"perm": (1, 2, 0)}), ("Relu", ["u"], ["y"], {})]
    becomes([turn, *back], shapes, {}, ["Relu"])
    becomes([turn, back[0]], shapes, {}, ["Identity"], outputs=("u",))
    on: NodeSpec = ("Transpose", ["t"], ["y"], {"perm": (0, 2, 1)})
    after = becomes([turn, on], shapes, {}, ["Transpose"])
    assert after.nodes[0].attrs["perm"] == (2, 1, 0)
    stays([turn, ("Relu", ["t"], ["y"], {})], shapes, {})
    becomes([turn, on], shapes, {}, ["Transpose", "Transpose"], outputs=("t", "y"))
    becomes([("Transpose", ["x"], ["y"], {"perm": (1, 0, 2)})], {"x": (2, 1, 4)}, {}, ["Reshape"])


def test_shapes_of_shapes_and_copies() -> None:
    sizes = {
        "a": np.array([4, 6], np.int64),
        "b": np.array([2, -1], np.int64),
        "c": np.array([2, 3, 4], np.int64),
    }
    nodes: list[NodeSpec] = [
        ("Reshape", ["x", "a"], ["p"], {}),
        ("Reshape", ["p", "b"], ["q"], {}),
        ("Relu", ["q"], ["y"], {}),
    ]
    becomes(nodes, {"x": (2, 3, 4)}, sizes, ["Reshape", "Relu"])
    nodes[1] = ("Reshape", ["p", "c"], ["q"], {})
    becomes(nodes, {"x": (2, 3, 4)}, sizes, ["Relu"])
    nodes = [
        ("Identity", ["x"], ["p"], {}),
        ("Dropout", ["p"], ["q"], {}),
        ("Cast", ["q"], ["r"], {"to": 1}),
        ("Relu", ["r"], ["y"], {}),
    ]
    becomes(nodes, {"x": (2, 3)}, {}, ["Relu"])
    becomes([("Identity", ["x"], ["y"], {})], {"x": (2, 3)}, {}, ["Identity"])
    stays([("Cast", ["x"], ["p"], {"to": 10}), ("Cast", ["p"], ["y"], {"to": 1})], {"x": (2, 3)}, {})


def test_neutral_numbers() -> None:
    nodes: list[NodeSpec] = [
        ("Mul", ["one", "x"], ["a"], {}),
        ("Add", ["a", "zero"], ["b"], {}),
        ("Div", ["b", "one"], ["c"], {}),
        ("Relu", ["c"], ["y"], {}),
    ]
    becomes(nodes, {"x": (2, 3)}, HALF, ["Relu"])
    stays([("Sub", ["zero", "x"], ["y"], {})], {"x": (2, 3)}, HALF)
    stays([("Div", ["one", "x"], ["y"], {})], {"x": (2, 3)}, HALF)
    stays([("Mul", ["x", "ones"], ["y"], {})], {"x": (2, 3)}, {"ones": np.ones((4, 1, 1), np.float32)})


@pytest.mark.parametrize("window", [(4, 1), (1, 5)])
def test_channels_of_an_image_of_one_row_or_column_come_last_while_it_is_an_image(
    window: tuple[int, int],
) -> None:
    pool: NodeSpec = ("MaxPool", ["x"], ["p"], {"kernel_shape": window, "strides": window})
    nodes: list[NodeSpec] = [
        pool,
        ("Reshape", ["p", "line"], ["l"], {}),
        ("Transpose", ["l"], ["y"], {"perm": (0, 2, 1)}),
    ]
    constants = {"line": np.array([2, 3, 20 // (window[0] * window[1])])}
    after = becomes(nodes, {"x": (2, 3, 4, 5)}, constants, ["MaxPool", "Transpose", "Reshape"])
    assert after.nodes[1].attrs["perm"] == (0, 2, 3, 1)
    turned = [*nodes[:2], ("Transpose", ["l"], ["y"], {"perm": (2, 0, 1)})]
    stays(turned, {"x": (2, 3, 4, 5)}, constants)
    whole = {"line": np.array([2, 3, 20])}
    stays([("MaxPool", ["x"], ["p"], {"kernel_shape": (1, 1)}), *nodes[1:]], {"x": (2, 3, 4, 5)}, whole)


def test_transposes_in_products_of_matrices() -> None:
    shapes = {"x": (5, 4), "z": (6, 4)}
    turn: NodeSpec = ("Transpose", ["z"], ["t"], {"perm": (1, 0)})
    after = becomes([turn, ("MatMul", ["x", "t"], ["y"], {})], shapes, {}, ["Gemm"])
    assert (after.nodes[0].attrs["transA"], after.nodes[0].attrs["transB"]) == (0, 1)
    after = becomes([turn, ("Gemm", ["t", "x"], ["y"], {"transA": 1, "transB": 1})], shapes, {}, ["Gemm"])
    assert (after.nodes[0].attrs["transA"], after.nodes[0].attrs["transB"]) == (0, 1)
    batched: NodeSpec = ("Transpose", ["z"], ["t"], {"perm": (0, 2, 1)})
    stays([batched, ("MatMul", ["x", "t"], ["y"], {})], {"x": (2, 5, 4), "z": (2, 6, 4)}, {})


def test_a_vector_added_to_a_product_of_matrices() -> None:
    shapes = {"x": (5, 4), "w": (4, 6), "b": (6,), "full": (5, 6), "column": (5, 1)}
    product: NodeSpec = ("MatMul", ["x", "w"], ["p"], {})
    becomes([product, ("Add", ["b", "p"], ["y"], {})], shapes, {}, ["Gemm"])
    for other in ("full", "column"):
        stays([product, ("Add", ["p", other], ["y"], {})], shapes, {})
    stays([product, ("Add", ["p", "b"], ["y"], {})], {"x": (2, 5, 4), "w": (4, 6), "b": (6,)}, {})
    stays([product, ("Add", ["p", "b"], ["y"], {})], shapes, {}, outputs=("p", "y"))


# --- the engine ------------------------------------------------------------------------------------------


def test_every_rewrite_has_a_name_of_its_own() -> None:
    names = [entry.name for entry in dict.fromkeys((*REWRITES, *LAST))]
    assert len(set(names)) == len(names)


def test_nothing_is_lost_where_nothing_fits() -> None:
    before = graph([("Relu", ["x"], ["y"], {})], {"x": (2, 3), "unused": (4,)}, {"k": draw(3)})
    after = rewrite_graph(before)
    assert (after.inputs, after.outputs, after.nodes) == (before.inputs, before.outputs, before.nodes)


def test_rewrites_that_undo_each_other_are_noticed() -> None:
    def turn(op: str) -> Any:
        def apply(rewritten: RewrittenGraph, node: Any) -> Replacement:
            build = rewritten.builder(node)
            return replacement(build, build(op, node.inputs[0]))

        return apply

    pair = [Rewrite("a", ("Sin",), turn("Cos")), Rewrite("b", ("Cos",), turn("Sin"))]
    with pytest.raises(RuntimeError, match="do not terminate"):
        RewrittenGraph(graph([("Sin", ["x"], ["y"], {})], {"x": (3,)})).run(pair)
