"""Replaces every node of a graph that has an expansion, so that no composite operators remain."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace

from compiler.graph import Graph, GraphError, Node, RefusedNode, joined
from compiler.operators.record import OPERATORS, Expansion, call_of

from .builder import Builder, budget_of, computed


def expand_graph(
    graph: Graph,
    only: Container[str] | None = None,
    instead: Mapping[str, Expansion] | None = None,
    ranged: bool = False,
) -> Graph:
    """Expand a graph into operators that have lowerings; GraphError for calls that cannot be expanded.

    Nodes whose operands are all constants become constants. The nodes of the expansion of node ``n`` are
    named ``n.1``, ``n.2`` and so on. With ``only``, nodes of other operators stay unexpanded, in expansions
    too. ``instead`` has expansions by names of nodes, which replace the expansions of their operators.
    ``ranged``: sizes are dynamic, so only expansions that are equal at all sizes are used.
    """
    expander = Expander(graph, only, instead, ranged)
    refusals: list[GraphError] = []
    for node in graph.nodes:
        if only is not None and node.op not in only:
            expander.nodes.append(node)
            continue
        try:
            expander.node(node, node.name in graph.precise)
        except GraphError as error:
            refusals.append(error)
    if refusals:
        raise joined(refusals)
    return replace(
        graph,
        nodes=tuple(expander.nodes),
        tensors=expander.tensors,
        constants=expander.constants,
        precise=graph.precise | expander.precise,
    )


class Expander:
    """Expands nodes one after another: ``nodes``, ``tensors`` and ``constants`` grow."""

    def __init__(
        self,
        graph: Graph,
        only: Container[str] | None = None,
        instead: Mapping[str, Expansion] | None = None,
        ranged: bool = False,
    ) -> None:
        self.graph = graph
        self.only = only
        self.instead = instead or {}
        self.ranged = ranged
        self.nodes: list[Node] = []
        self.tensors = dict(graph.tensors)
        self.constants = dict(graph.constants)
        self.precise: set[str] = set()
        self.budget = budget_of(self.constants)

    def state(self) -> Graph:
        """The graph with the values that are known so far; its nodes are those before the expansion."""
        return replace(self.graph, tensors=self.tensors, constants=self.constants)

    def node(self, node: Node, precise: bool = False) -> None:
        """Add a node or its expansion; ``precise`` computes it, with all its parts, in FP32.

        If the call cannot be expanded, raises GraphError and adds nothing.
        """
        before = len(self.nodes)
        try:
            self._add(node, precise)
        except GraphError:
            del self.nodes[before:]
            raise

    def _add(self, node: Node, precise: bool) -> None:
        record = OPERATORS[node.op]
        call = call_of(self.state(), node)
        known = all(not name or name in self.constants for name in node.inputs)
        if node.inputs and known and not record.at_run and not node.bodies:
            try:
                self.constants |= computed(node, call, self.constants, self.budget)
            except GraphError as error:
                raise RefusedNode(node.op, node.name, error.messages[0]) from None
            return
        outputs = [self.tensors[name] for name in node.outputs if name]
        if all(tensor.size == 0 for tensor in outputs):
            self.constants |= {t.name: t.zeros for t in outputs}
            return
        build = Builder(node.name, self.graph.opset, self.tensors, self.constants, budget=self.budget)
        try:
            usual = (self.ranged and record.ranged_expansion) or record.expansion
            expansion = self.instead.get(node.name, usual)
            results = expansion(build, call) if expansion else None
        except GraphError as error:
            raise joined([RefusedNode(node.op, node.name, text) for text in error.messages]) from None
        if results is None:
            self._keep(node, precise or record.precise)
            return
        precise = precise or record.precise or build.precise
        for part in build.nodes:
            if self.only is None or part.op in self.only:
                self._add(part, precise)
            else:
                self._keep(part, precise)
        for name, result in zip(node.outputs, results, strict=False):
            if name and result in self.constants:
                self.constants[name] = self.constants[result]
            elif name:
                self._keep(Node("Identity", f"{node.name}/{name}", (result,), (name,), {}), precise)

    def _keep(self, node: Node, precise: bool) -> None:
        """Add a node. Arithmetic on single numbers is precise too, because shorter formats would save
        nothing."""
        self.nodes.append(node)
        floats = [self.tensors[n] for n in (*node.inputs, *node.outputs) if n and self.tensors[n].is_float]
        if precise or all(tensor.size == 1 for tensor in floats):
            self.precise.add(node.name)
