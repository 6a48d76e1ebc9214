"""Ten small networks of different kinds, whose programs get mistakes: their proofs take about a second."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import tx8
from compiler.driver import Program, compile_graph
from compiler.graph import Graph
from compiler_harness import draw, graph
from float_nets import mlp, small_cnn
from quantised_nets import byte_mlp
from sharded_nets import Net as TokenNet
from stack_nets import HALVED, PADDED, Net


def rows() -> Graph:
    """A normalization, a product, a bias and a ReLU."""
    return graph(
        [
            ("LayerNormalization", ["x", "s", "h"], ["n"], {"axis": -1}),
            ("MatMul", ["n", "w"], ["m"], {}),
            ("Add", ["m", "b"], ["a"], {}),
            ("Relu", ["a"], ["y"], {}),
        ],
        {"x": (40, 24)},
        {"w": draw(24, 16), "b": draw(16), "s": draw(24), "h": draw(24)},
    )


def shares() -> Graph:
    """A softmax of long rows, and a normalization without a mean."""
    nodes = [("Softmax", ["x"], ["s"], {"axis": -1}), ("RMSNormalization", ["s", "g"], ["y"], {"axis": -1})]
    return graph(nodes, {"x": (40, 130)}, {"g": draw(130)}, opset=23)


def cell(columns: int = 24) -> Graph:
    """A step of an LSTM, written as single nodes: four gates, and the next state."""
    nodes = [
        ("MatMul", ["x", "w"], ["a"], {}),
        ("MatMul", ["h", "r"], ["b"], {}),
        ("Add", ["a", "b"], ["c"], {}),
        ("Add", ["c", "bias"], ["d"], {}),
        ("Split", ["d"], ["i", "f", "g", "o"], {"axis": 1, "num_outputs": 4}),
        *(("Sigmoid", [name], [f"s{name}"], {}) for name in "ifo"),
        ("Tanh", ["g"], ["tg"], {}),
        ("Mul", ["sf", "before"], ["kept"], {}),
        ("Mul", ["si", "tg"], ["added"], {}),
        ("Add", ["kept", "added"], ["state"], {}),
        ("Tanh", ["state"], ["t"], {}),
        ("Mul", ["so", "t"], ["y"], {}),
    ]
    shapes = {"x": (12, 20), "h": (12, columns), "before": (12, columns)}
    weights = {"w": draw(20, 4 * columns) / 4, "r": draw(columns, 4 * columns, seed=6) / 4}
    return graph(nodes, shapes, {**weights, "bias": draw(4 * columns)}, outputs=("y", "state"))


def heads() -> Graph:
    """Attention of four heads to rows that a mask allows."""
    net = TokenNet(16, 64)
    net.attention("x", 4, net.constant(np.triu(np.full((16, 16), -np.inf, np.float32), 1)))
    return net.graph()


def block() -> Graph:
    """A transformer block, whose tiles exchange rows: normalizations before attention and MLP, residuals."""
    net = TokenNet(32, 128)
    mixed = net.attention(net.normalization("x", 128), 4)
    middle = net.node("Add", "x", net.product(mixed, 128, 128))
    inner = net.node("Relu", net.product(net.normalization(middle, 128), 128, 256))
    net.node("Add", middle, net.product(inner, 256, 128))
    return net.graph()


def halves() -> Graph:
    """A convolution of single channels, pools of means and of maxima, and products of channels."""
    net = Net(1, 24, 18, 11)
    net.node("Relu", [net.conv("x", "a", (24, 1, 3, 3), group=24, **PADDED)], "b")
    net.node("AveragePool", ["b"], "c", kernel_shape=(3, 3), **HALVED)
    net.node("Relu", [net.conv("c", "d", (40, 24, 1, 1))], "e")
    net.node("MaxPool", ["e"], "y", kernel_shape=(2, 2), strides=(2, 1))
    return net.graph()


def residual() -> Graph:
    """Convolutions in a stack, whose tiles share borders, and a sum with the input."""
    net = Net(1, 24, 18, 11)
    net.node("Relu", [net.conv("x", "a", (16, 24, 1, 1))], "b")
    net.node("Relu", [net.conv("b", "c", (16, 16, 3, 3), **PADDED)], "d")
    net.node("Relu", [net.conv("d", "e", (16, 16, 3, 3), **PADDED)], "f")
    net.node("Add", [net.conv("f", "g", (24, 16, 1, 1)), "x"], "y")
    return net.graph()


def _bytes() -> Program:
    made = tx8.compile(byte_mlp(1, "uint8", 24, 40)[0], dtype="fp16", integers="exact").compiled
    assert made is not None
    return made


def _compiled(make: Callable[[], Graph]) -> Callable[[], Program]:
    return lambda: compile_graph(make(), "fp16")


NETWORKS: dict[str, Callable[[], Program]] = {
    "rows": _compiled(rows),
    "cnn": _compiled(small_cnn),
    "mlp": _compiled(mlp),
    "attention": _compiled(heads),
    "transformer": _compiled(block),
    "bytes": _bytes,
    "residual": _compiled(residual),
    "cell": _compiled(cell),
    "shares": _compiled(shares),
    "halves": _compiled(halves),
}
"""Programs by the names of their networks, in FP16."""
