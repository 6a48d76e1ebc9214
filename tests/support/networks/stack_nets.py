"""Small networks of convolutions and pools that become one stack."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compiler.graph import Array, Graph
from compiler_harness import NodeSpec, draw, graph

PADDED = {"pads": (1, 1, 1, 1)}
HALVED = {**PADDED, "strides": (2, 2)}


class Net:
    """A graph under construction; every convolution has separate weights, and a bias unless told not to."""

    def __init__(self, *shape: int) -> None:
        self.shape, self.nodes = shape, list[NodeSpec]()
        self.constants: dict[str, Array] = {}

    def conv(self, x: str, y: str, weights: Sequence[int], bias: bool = True, **attrs: object) -> str:
        seed, fan = len(self.nodes), int(np.prod(weights[1:]))
        self.constants[f"w{seed}"] = draw(*weights, seed=seed, scale=fan**-0.5)
        operands = [x, f"w{seed}"]
        if bias:
            self.constants[f"b{seed}"] = draw(weights[0], seed=seed + 50)
            operands.append(f"b{seed}")
        return self.node("Conv", [*operands], y, **attrs)

    def node(self, op: str, operands: Sequence[str], y: str, **attrs: object) -> str:
        self.nodes.append((op, operands, [y], attrs))
        return y

    def graph(self) -> Graph:
        return graph(self.nodes, {"x": self.shape}, self.constants)


def bottleneck(channels: int = 80, bias: bool = True) -> Graph:
    net = Net(1, channels, 11, 7)
    net.node("Relu", [net.conv("x", "a", (32, channels, 1, 1))], "b")
    net.node("Relu", [net.conv("b", "c", (48, 32, 3, 3), **PADDED)], "d")
    net.node("Add", [net.conv("d", "e", (channels, 48, 1, 1), bias), "x"], "f")
    net.node("Relu", ["f"], "y")
    return net.graph()


def fire(pool: bool = False, expanded: int = 72) -> Graph:
    """Squeeze, two expansions, join; with ``pool`` the join is inside.

    ``expanded``: channels of the second expansion.
    """
    net = Net(1, 96, 13, 9)
    net.node("Relu", [net.conv("x", "a", (16, 96, 1, 1))], "b")
    net.node("Sigmoid", [net.conv("b", "c", (64, 16, 1, 1))], "d")
    net.node("Relu", [net.conv("b", "e", (expanded, 16, 3, 3), **PADDED)], "f")
    net.node("Concat", ["d", "f"], "g" if pool else "y", axis=1)
    if pool:
        net.node("MaxPool", ["g"], "h", kernel_shape=(3, 3), strides=(2, 2))
        net.conv("h", "y", (24, 64 + expanded, 1, 1))
    return net.graph()


def fires(squeezed: int = 24, expanded: int = 72, rows: int = 13, last: str = "Relu") -> Graph:
    """Two modules as ``fire``, each piece of a join with a ReLU, a pool of maxima, and a squeeze after it.

    ``last``: the operator after the second expansion of the second module.
    """
    net, x = Net(1, 96, rows, 9), "x"
    for number, after in enumerate(("Relu", last)):
        a = net.node(
            "Relu",
            [net.conv(x, f"squeeze{number}", (squeezed, 96 if x == "x" else 64 + expanded, 1, 1))],
            f"s{number}",
        )
        net.node("Relu", [net.conv(a, f"c{number}", (64, squeezed, 1, 1))], f"d{number}")
        net.node(after, [net.conv(a, f"e{number}", (expanded, squeezed, 3, 3), **PADDED)], f"f{number}")
        x = net.node("Concat", [f"d{number}", f"f{number}"], f"g{number}", axis=1)
    net.node("MaxPool", [x], "h", kernel_shape=(3, 3), strides=(2, 2))
    net.node("Relu", [net.conv("h", "i", (24, 64 + expanded, 1, 1))], "y")
    return net.graph()


def stem(maps: int = 80) -> Graph:
    """Strides, pools, and a shortcut that reads the same value as the other branch; ``maps`` channels at the
    end."""
    net = Net(1, 20, 30, 21)
    net.node("Relu", [net.conv("x", "a", (64, 20, 5, 5), strides=(2, 2), pads=(2, 2, 2, 2))], "b")
    net.node("AveragePool", ["b"], "c", kernel_shape=(2, 2), strides=(2, 1))
    net.node("Relu", [net.conv("c", "d", (maps, 64, 3, 3), bias=False, **HALVED)], "e")
    net.node("Add", [net.conv("c", "s", (maps, 64, 1, 1), strides=(2, 2)), "e"], "y")
    return net.graph()
