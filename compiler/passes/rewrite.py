"""Pass ``rewrite``: the graph is expressed in fewer operators, each of which has a lowering.

Operators that exporters write out as several nodes become one node again (``compiler/rewrite``), and
composite operators are expanded. The attribute ``rewrites`` of the subgraph lists the applied rewrites.
"""

from __future__ import annotations

from dataclasses import replace

from xdsl.dialects.builtin import ModuleOp

from compiler.dialect.attributes import encoded
from compiler.evaluation.folding import needed
from compiler.evaluation.remarks import wide_or_none
from compiler.graph import Graph, GraphError, Node, RefusedNode, joined
from compiler.lowering import LOWERINGS
from compiler.operators import OPERATORS, call_of, is_known
from compiler.operators.expansion.expander import expand_graph
from compiler.rewrite import LAST, REWRITES, RewrittenGraph
from compiler.rewrite.norms import large_numbers, small_numbers, statistics
from compiler.rewrite.quantised import PACKED, QUANTISED, TABLES, between_bytes

from .base import Context, RangedContext
from .graph_operations import graph_of, put_graph


class RewritePass:
    """Replaces the operations of the module; GraphError for nodes that cannot be compiled."""

    name = "rewrite"

    def run(self, context: Context, module: ModuleOp) -> None:
        applied: list[tuple[str, str]] = []
        graph = simplified(graph_of(context, module), applied)
        graph = _without_dead_nodes(expand_graph(graph, ranged=isinstance(context, RangedContext)))
        large = large_numbers(graph, context.compute)
        wide = statistics(graph) | small_numbers(graph, context.compute) | large.nodes
        context.wide = wide_or_none(large.values)
        executing = {node.name for node in graph.nodes if node.bodies}  # their graphs have the compute format
        graph = context.graph = replace(graph, precise=(graph.precise | wide) - executing)
        if context.twin is not None:
            graph = context.graph = context.twin(graph)
        problems = [problem for node in graph.nodes if (problem := refusal_of(graph, node))]
        if problems:
            raise joined(problems)
        names = tuple(f"{name}: {node}" for name, node in applied)
        put_graph(context, module, {"rewrites": encoded(names)} if names else {})


def _without_dead_nodes(graph: Graph) -> Graph:
    """The graph without nodes that no output needs, such as unwanted parts of an expansion."""
    nodes, _ = needed(graph.nodes, (tensor.name for tensor in graph.outputs))
    return replace(graph, nodes=tuple(nodes))


def simplified(graph: Graph, applied: list[tuple[str, str]] | None = None) -> Graph:
    """The graph after the rewrites; ``applied`` gets their names and the nodes they were applied to."""
    applied = [] if applied is None else applied
    gone = {name for name, record in OPERATORS.items() if record.written_out}
    if any(node.op in gone for node in graph.nodes):
        graph = expand_graph(graph, gone)
    if any(node.op in QUANTISED for node in graph.nodes):
        graph = _of_bytes(graph, applied)
    for table in (REWRITES, LAST):
        rewritten = RewrittenGraph(graph)
        graph = rewritten.run(table)
        applied += rewritten.applied
    return graph


def _of_bytes(graph: Graph, applied: list[tuple[str, str]]) -> Graph:
    """The graph with operators on bytes.

    Other DequantizeLinear nodes are expanded, including those of constants.
    """
    for table in (*TABLES, PACKED):
        rewritten = RewrittenGraph(graph)
        graph = rewritten.run(table)
        applied += rewritten.applied
    graph = _near(replace(graph, precise=graph.precise | between_bytes(graph)))
    return expand_graph(graph, ("DequantizeLinear",))


def _near(graph: Graph) -> Graph:
    """The graph, if it permits neighbouring bytes, with that permission in the operators that gain by it."""
    if not graph.near:
        return graph

    def allowed(node: Node) -> Node:
        asks = any(item.name == "exact" for item in OPERATORS[node.op].attributes)
        return replace(node, attrs={**node.attrs, "exact": 0}) if asks else node

    return replace(graph, nodes=tuple(allowed(node) for node in graph.nodes))


def refusal_of(graph: Graph, node: Node) -> GraphError | None:
    """The reason why a node without an expansion cannot be compiled; None if it can."""
    entry = LOWERINGS.get(node.op)
    if entry is None:
        return RefusedNode(node.op, node.name)
    computed = [name for at, name in enumerate(node.inputs) if name and not is_known(node, at)]
    for name in (*computed, node.outputs[0]):
        tensor = graph.tensors[name]
        if tensor.dtype not in entry.types:
            allowed = ", ".join(entry.types)
            return RefusedNode(node.op, node.name, f"computed are {allowed}; '{name}' is {tensor.dtype}")
        if not tensor.size:
            found = f"'{name}' {list(tensor.shape)}"
            return RefusedNode(
                node.op, node.name, f"tensors without elements are not supported; found {found}"
            )
    problem = entry.check(call_of(graph, node)) if entry.check else None
    return RefusedNode(node.op, node.name, problem) if problem else None
