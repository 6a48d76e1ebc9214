"""Small mixtures of experts as exporters write them: a dense routing, experts in one product or several."""

from __future__ import annotations

import numpy as np

from compiler.graph import Graph
from compiler_harness import draw, ints
from sharded_nets import Net


def routing(net: Net, x: str, experts: int, chosen: int = 2) -> str:
    """Weights ``[1, rows, experts]`` of the experts, zero except for the best ones of each row."""
    scores = net.node("Softmax", net.product(x, net.columns, experts, bias=False), axis=-1)
    net.values += 1
    best, places = f"v{net.values}", f"places{net.values}"
    net.nodes.append(("TopK", (scores, net.constant(ints(chosen))), [best, places], {"axis": -1}))
    least = net.node("ReduceMin", best, net.constant(ints(-1)))
    kept = net.node("Where", net.node("Less", scores, least), net.constant(np.array(0, np.float32)), scores)
    return net.node("Div", kept, net.node("ReduceSum", kept, net.constant(ints(-1))))


def batched(
    experts: int = 4, rows: int = 16, columns: int = 64, inner: int = 96, repeated: bool = False
) -> Graph:
    """Experts as the leading axis of weights, ``[experts, columns, inner]``; a residual around them."""
    net = Net(rows, columns)
    normal = net.normalization("x", columns, "RMSNormalization")
    weights = net.node(
        "Unsqueeze",
        net.node("Transpose", routing(net, normal, experts), perm=(2, 0, 1)),
        net.constant(ints(3)),
    )
    if repeated:
        apart = net.constant(ints(experts, 1, rows, columns))
        normal = net.node("Expand", net.node("Unsqueeze", normal, net.constant(ints(0))), apart)
    up = net.constant(draw(experts, 1, columns, inner, seed=70, scale=columns**-0.5))
    bias = net.constant(draw(experts, 1, 1, inner, seed=71))
    down = net.constant(draw(experts, 1, inner, columns, seed=72, scale=inner**-0.5))
    hidden = net.node("Swish", net.node("Add", net.node("MatMul", normal, up), bias))
    each = net.node("Mul", net.node("MatMul", hidden, down), weights)
    net.node("Add", "x", net.node("ReduceSum", each, net.constant(ints(0)), keepdims=0))
    return net.graph()


def one_by_one(
    experts: int = 4, rows: int = 16, columns: int = 64, inner: int = 96, way: str = "Split"
) -> Graph:
    """Gated experts with separate weights, weighted by columns of the routing; a residual around them.

    ``way``: the operator that selects a column, or Equal, which compares with the number of the expert.
    """
    net = Net(rows, columns)
    normal = net.normalization("x", columns, "RMSNormalization")
    weights = routing(net, normal, experts)
    if way == "Split":
        names = [f"piece{at}" for at in range(experts)]
        net.nodes.append(("Split", (weights,), names, {"axis": 2, "num_outputs": experts}))
    elif way == "Slice":
        bounds = [net.constant(ints(at)) for at in range(experts + 1)]
        names = [
            net.node("Slice", weights, *bounds[at : at + 2], net.constant(ints(2))) for at in range(experts)
        ]
    elif way == "Gather":
        names = [net.node("Gather", weights, net.constant(ints(at)), axis=2) for at in range(experts)]
    else:
        best = net.node("ArgMax", weights, axis=-1, keepdims=1)
        numbers = [net.constant(np.array(at, np.int64)) for at in range(experts)]
        names = [net.node("Cast", net.node("Equal", best, number), to=1) for number in numbers]
    total = "x"
    for name in names:
        gate = net.node("Swish", net.product(normal, columns, inner, bias=False))
        both = net.node("Mul", net.product(normal, columns, inner, bias=False), gate)
        own = net.node("Mul", net.product(both, inner, columns), name)
        total = net.node("Add", total, own)
    return net.graph()
