"""Log(ReduceSum(Exp(x))) as ReduceLogSumExp(x), which exponentiates no number above 0.

Written out, the sum overflows in short formats.
"""

from __future__ import annotations

from compiler.graph import Node

from .engine import Replacement, Rewrite, RewrittenGraph, replacement

_SINCE = 18
"""The first operator set in which both reductions have their axes as an operand."""


def _log_sum_exp(graph: RewrittenGraph, node: Node) -> Replacement | None:
    total = graph.sole_producer(node.inputs[0], "ReduceSum")
    powers = graph.sole_producer(total.inputs[0], "Exp") if total is not None else None
    if total is None or powers is None or graph.opset < _SINCE:
        return None
    build = graph.builder(node)
    operands = (powers.inputs[0], *total.inputs[1:])
    return replacement(build, build("ReduceLogSumExp", *operands, **dict(total.attrs)))


REWRITES = (Rewrite("log-sum-exp", ("Log",), _log_sum_exp),)
