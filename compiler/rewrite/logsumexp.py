"""Log(ReduceSum(Exp(x))) as ReduceLogSumExp(x), which exponentiates no number above 0.

Written out, the sum overflows in short formats.
"""

from __future__ import annotations

from compiler.graph import Node

from .engine import Replacement, Rewrite, Rewriting, made

_SINCE = 18
"""The operator set from which on both reductions have their axes as an operand."""


def _log_sum_exp(graph: Rewriting, node: Node) -> Replacement | None:
    total = graph.sole(node.inputs[0], "ReduceSum")
    powers = graph.sole(total.inputs[0], "Exp") if total is not None else None
    if total is None or powers is None or graph.opset < _SINCE:
        return None
    build = graph.builder(node)
    operands = (powers.inputs[0], *total.inputs[1:])
    return made(build, build("ReduceLogSumExp", *operands, **dict(total.attrs)))


REWRITES = (Rewrite("log-sum-exp", ("Log",), _log_sum_exp),)
