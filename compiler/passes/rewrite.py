"""Pass ``rewrite``: the graph becomes one of fewer operators, all of which have lowerings.

Operators that exporters write out as several nodes become one node again (``compiler/rewrite``), and
composite operators are expanded. The attribute ``rewrites`` of the subgraph lists what was applied.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from compiler.dialect.attributes import encoded
from compiler.graph import Graph, GraphError, Node
from compiler.lowering import LOWERINGS
from compiler.operators import call_of
from compiler.operators.expansion.expander import expand_graph
from compiler.rewrite import REWRITES, RewrittenGraph

from .base import Context
from .graph_operations import graph_of, is_known, put_graph


class RewritePass:
    """Replaces the operations of the module; GraphError for nodes that cannot be compiled."""

    name = "rewrite"

    def run(self, context: Context, module: ModuleOp) -> None:
        rewritten = RewrittenGraph(graph_of(context, module))
        graph = context.graph = expand_graph(rewritten.run(REWRITES))
        problems = [problem for node in graph.nodes if (problem := _node_problem(graph, node))]
        if problems:
            raise GraphError(problems)
        applied = tuple(f"{name}: {node}" for name, node in rewritten.applied)
        put_graph(context, module, {"rewrites": encoded(applied)} if applied else {})


def _node_problem(graph: Graph, node: Node) -> str | None:
    """Why a node cannot be compiled; None when it can."""
    head = f"unsupported operator {node.op} (node '{node.name}')"
    entry = LOWERINGS.get(node.op)
    if entry is None:
        return head
    computed = [name for at, name in enumerate(node.inputs) if name and not is_known(node, at)]
    for name in (*computed, node.outputs[0]):
        tensor = graph.tensors[name]
        if tensor.dtype not in entry.types:
            allowed = ", ".join(entry.types)
            return f"{head} on {tensor.dtype}: computed are {allowed}; found '{name}'"
        if not tensor.size:
            return f"{head}: tensors without elements are not supported; found '{name}' {list(tensor.shape)}"
    found = entry.check(call_of(graph, node)) if entry.check else None
    return f"{head}: {found}" if found else None
