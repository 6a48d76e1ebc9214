"""Small networks of products, normalizations and attention that become one sharded sequence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compiler.graph import Array, Graph
from compiler_harness import NodeSpec, draw, graph, ints


class Net:
    """A graph under construction; every product and normalization has separate constants. Values are
    matrices."""

    def __init__(self, rows: int, columns: int) -> None:
        self.rows, self.columns = rows, columns
        self.nodes: list[NodeSpec] = []
        self.constants: dict[str, Array] = {}
        self.inputs: dict[str, tuple[int, ...]] = {"x": (1, rows, columns)}
        self.values = 0

    def node(self, op: str, *operands: str, **attrs: object) -> str:
        self.values += 1
        self.nodes.append((op, operands, [f"v{self.values}"], attrs))
        return f"v{self.values}"

    def constant(self, value: Array) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name

    def product(self, x: str, inner: int, columns: int, bias: bool = True) -> str:
        seed = len(self.constants)
        weights = self.constant(draw(inner, columns, seed=seed, scale=inner**-0.5))
        made = self.node("MatMul", x, weights)
        return self.node("Add", made, self.constant(draw(columns, seed=seed + 50))) if bias else made

    def normalization(self, x: str, columns: int, op: str = "LayerNormalization") -> str:
        seed = len(self.constants)
        operands = [self.constant(1 + draw(columns, seed=seed, scale=0.1))]
        if op == "LayerNormalization":
            operands.append(self.constant(draw(columns, seed=seed + 50)))
        return self.node(op, x, *operands, axis=-1)

    def attention(self, x: str, heads: int, mask: str | None = None, operator: bool = False) -> str:
        """Attention with heads as adjacent columns of queries, keys and values of ``x``; adds ``mask``.

        With ``operator`` it is a single node, which gives 0 where a mask hides all keys.
        """
        width, depth = self.columns, self.columns // heads
        split = self.constant(ints(1, self.rows, heads, depth))

        def part(order: Sequence[int]) -> str:
            return self.node(
                "Transpose", self.node("Reshape", self.product(x, width, width), split), perm=order
            )

        whole = self.constant(ints(1, self.rows, width))
        if operator:
            operands = [part((0, 2, 1, 3)) for _ in range(3)] + ([] if mask is None else [mask])
            mixed = self.node("Attention", *operands)
            return self.node("Reshape", self.node("Transpose", mixed, perm=(0, 2, 1, 3)), whole)
        scores = self.node("MatMul", part((0, 2, 1, 3)), part((0, 2, 3, 1)))
        scaled = self.node("Mul", scores, self.constant(np.float32(depth**-0.5)))
        if mask is not None:
            scaled = self.node("Add", scaled, mask)
        mixed = self.node("MatMul", self.node("Softmax", scaled, axis=-1), part((0, 2, 1, 3)))
        return self.node("Reshape", self.node("Transpose", mixed, perm=(0, 2, 1, 3)), whole)

    def graph(self, *others: str) -> Graph:
        """The last node makes the output ``y``; ``others`` are outputs too."""
        op, operands, _, attrs = self.nodes[-1]
        self.nodes[-1] = (op, operands, ["y"], attrs)
        return graph(self.nodes, self.inputs, self.constants, (*others, "y"), opset=24)


def mlp(rows: int = 64, columns: int = 256, bias: bool = True, activation: str = "Relu") -> Graph:
    """Two products with an activation between them."""
    net = Net(rows, columns)
    inner = net.node(activation, net.product("x", columns, 2 * columns, bias))
    net.product(inner, 2 * columns, columns, bias)
    return net.graph()


def normalized_first(rows: int = 64, columns: int = 256, heads: int = 8) -> Graph:
    """A transformer block: normalizations before attention and MLP, residuals around both."""
    net = Net(rows, columns)
    mixed = net.attention(net.normalization("x", columns), heads)
    middle = net.node("Add", "x", net.product(mixed, columns, columns))
    inner = net.node("Gelu", net.product(net.normalization(middle, columns), columns, 2 * columns))
    net.node("Add", middle, net.product(inner, 2 * columns, columns))
    return net.graph()


def normalized_last(rows: int = 64, columns: int = 256, heads: int = 4) -> Graph:
    """A block like BERT's: residuals of normalized values; products of computed steps."""
    net = Net(rows, columns)
    first = net.normalization(
        net.node("Add", "x", net.product(net.attention("x", heads), columns, columns)), columns
    )
    inner = net.node("Tanh", net.product(first, columns, 4 * columns))
    net.normalization(net.node("Add", net.product(inner, 4 * columns, columns), first), columns)
    return net.graph()


def gated(rows: int = 32, columns: int = 128) -> Graph:
    """An MLP like Llama's: the product of two branches, after a normalization without mean."""
    net = Net(rows, columns)
    normal = net.normalization("x", columns, "RMSNormalization")
    gate = net.node("Swish", net.product(normal, columns, 512, bias=False))
    both = net.node("Mul", net.product(normal, columns, 512, bias=False), gate)
    net.node("Add", "x", net.product(both, 512, columns, bias=False))
    return net.graph()
