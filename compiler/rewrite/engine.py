"""Rewrites a checked graph: what rewrites can ask about it, and how new nodes replace a node.

A rewrite looks at one node, the last of the pattern it knows, and returns new nodes that compute the same
result. Nodes whose results are no longer used are dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from compiler.evaluation.folding import needed
from compiler.graph import Array, Graph, Node, Tensor
from compiler.lowering import LOWERINGS
from compiler.operators.expansion.builder import Builder, budget_of
from compiler.operators.record import OPERATORS, Call, call_of, resolve

RESHAPES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")
"""Operators that give the same elements another shape."""

Apply = Callable[["RewrittenGraph", Node], "Replacement | None"]

_MOST_SWEEPS = 50
"""The most sweeps. Every rewrite simplifies the graph, so more sweeps mean that two rewrites undo each
other."""


@dataclass(frozen=True)
class Rewrite:
    """A rewrite of nodes of the operators ``roots``, the last nodes of its pattern."""

    name: str
    roots: tuple[str, ...]
    apply: Apply


@dataclass(frozen=True)
class Replacement:
    """New nodes and the value that replaces a node's first result.

    ``precise``: the nodes are computed in FP32, whatever format the graph is computed in.
    """

    nodes: tuple[Node, ...]
    result: str
    precise: bool = False


class RewrittenGraph:
    """A graph that rewrites are applied to."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.opset = graph.opset
        self.outputs = {tensor.name for tensor in graph.outputs}
        self.nodes = needed(graph.nodes, self.outputs)[0]
        self.tensors = dict(graph.tensors)
        self.constants = dict(graph.constants)
        self.applied: list[tuple[str, str]] = []
        """Names of the rewrites that were applied, and of the nodes they were applied to."""
        self._producers = {name: node for node in self.nodes for name in node.outputs if name}
        self._uses = Counter(name for node in self.nodes for name in node.inputs if name)
        self._uses.update(self.outputs)
        self._replaced: dict[str, str] = {}
        self._precise = set(graph.precise)
        self._builders = 0
        self.budget = budget_of(self.constants)

    # --- questions of a rewrite ----------------------------------------------------------------------------

    def producer(self, name: str, *ops: str) -> Node | None:
        """Return the node that computes a value, if it has one of these operators; without them any node."""
        node = self._producers.get(name)
        return node if node is not None and (not ops or node.op in ops) else None

    def sole_producer(self, name: str, *ops: str, uses: int = 1) -> Node | None:
        """Return the node of :meth:`producer` if the value has ``uses`` uses and is not a graph output."""
        node = self.producer(name, *ops)
        return node if node is not None and self.uses(name) == uses and name not in self.outputs else None

    def uses(self, name: str) -> int:
        """Return the number of operands that use a value; a graph output counts as one use."""
        return self._uses[name]

    def array(self, name: str) -> Array | None:
        """Return the data of a constant."""
        return self.constants.get(name)

    def tables(self) -> tuple[str, ...]:
        """The constants whose rows a Gather takes."""
        found = (node.inputs[0] for node in self.nodes if node.op == "Gather" and not node.attrs.get("axis"))
        return tuple(dict.fromkeys(name for name in found if name in self.constants))

    def number(self, name: str) -> float | None:
        """Return the value of a constant of one element."""
        array = self.constants.get(name)
        return float(array.reshape(())) if array is not None and array.size == 1 else None

    def is_number(self, name: str, value: float, relative: float = 1e-4) -> bool:
        """Return True for a constant of one element near ``value``: exporters round constants."""
        number = self.number(name)
        return number is not None and abs(number - value) <= relative * abs(value)

    def shape(self, name: str) -> tuple[int, ...]:
        return self.tensors[name].shape

    def tensor(self, name: str) -> Tensor:
        return self.tensors[name]

    def call(self, node: Node) -> Call:
        return call_of(replace(self.graph, tensors=self.tensors, constants=self.constants), node)

    def with_number(self, node: Node) -> tuple[str, float] | None:
        """Return one operand of a commutative node and the number that is the other operand.

        None if neither operand is a constant of one element, or if it gives the result another shape.
        """
        for x, other in (node.inputs, node.inputs[::-1]):
            number = self.number(other)
            if number is not None and self.number(x) is None:
                return (x, number) if self.shape(x) == self.shape(node.outputs[0]) else None
        return None

    # --- nodes that a rewrite makes ------------------------------------------------------------------------

    def builder(self, node: Node) -> Builder:
        """Return a builder of nodes that replace ``node``."""
        self._builders += 1
        prefix = f"{node.name}.r{self._builders}"
        return Builder(prefix, self.graph.opset, self.tensors, self.constants, budget=self.budget)

    # --- applying rewrites ------------------------------------------------------------------------------

    def run(self, rewrites: Sequence[Rewrite]) -> Graph:
        """Apply rewrites until none matches any more."""
        roots: dict[str, list[Rewrite]] = {}
        for entry in rewrites:
            for op in entry.roots:
                roots.setdefault(op, []).append(entry)
        for _ in range(_MOST_SWEEPS):
            if not self._sweep(roots):
                break
        else:
            raise RuntimeError(f"rewrites do not terminate: {self.applied[-4:]}")
        return self._finished()

    def _sweep(self, roots: dict[str, list[Rewrite]]) -> bool:
        """Try the rewrites at every node once, in order; return True if any node was rewritten."""
        before = len(self.applied)
        kept: list[Node] = []
        for node in self.nodes:
            if self._alive(node):
                current = self._reading(node)
                kept += self._rewritten(current, roots.get(node.op, ()))
        self.nodes = [self._reading(node) for node in kept if self._alive(node)]
        return len(self.applied) > before

    def _alive(self, node: Node) -> bool:
        return any(self._uses[name] for name in node.outputs if name)

    def _reading(self, node: Node) -> Node:
        """Return the node with its replaced operands renamed."""
        inputs = tuple(self._current(name) for name in node.inputs)
        current = node if inputs == node.inputs else replace(node, inputs=inputs)
        self._producers |= {name: current for name in node.outputs if name}
        return current

    def _current(self, name: str) -> str:
        while name in self._replaced:
            name = self._replaced[name]
        return name

    def _rewritten(self, node: Node, rewrites: Sequence[Rewrite]) -> list[Node]:
        """Return the nodes that replace a node: itself, if no rewrite matches."""
        if any(self._uses[name] for name in node.outputs[1:]):
            return [node]
        for entry in rewrites:
            found = entry.apply(self, node)
            if found is not None:
                self.applied.append((entry.name, node.name))
                return self._replace(node, found)
        return [node]

    def _replace(self, node: Node, found: Replacement) -> list[Node]:
        """Return the new nodes; the last one gets the old node's name and the name of its result."""
        old, nodes = node.outputs[0], list(found.nodes)
        if nodes and found.result == nodes[-1].outputs[0]:
            nodes[-1] = replace(nodes[-1], name=node.name, outputs=(old,))
        elif old in self.outputs:
            nodes.append(Node("Identity", node.name, (found.result,), (old,), {}))
        else:
            self._replaced[old] = found.result
            self._uses[found.result] += self._uses.pop(old)
        if found.precise:
            self._precise.update(new.name for new in nodes)
        for new in nodes:
            self._producers |= {name: new for name in new.outputs if name}
            self._uses.update(name for name in new.inputs if name)
        self._release(node)
        return nodes

    def _release(self, node: Node) -> None:
        """Count the operands of a node as unused; release nodes whose results become unused."""
        for name in node.inputs:
            if not name:
                continue
            self._uses[name] -= 1
            producer = self._producers.get(name)
            if producer is not None and not self._alive(producer):
                self._release(producer)

    def _finished(self) -> Graph:
        kept = {tensor.name for tensor in self.graph.inputs} | self.outputs
        kept |= {name for node in self.nodes for name in (*node.inputs, *node.outputs) if name}
        return replace(
            self.graph,
            nodes=tuple(self.nodes),
            tensors={name: tensor for name, tensor in self.tensors.items() if name in kept},
            constants={name: array for name, array in self.constants.items() if name in kept},
            precise=frozenset(self._precise),
        )


def can_be_compiled(build: Builder) -> bool:
    """Return True if the last node of a builder has a lowering that accepts it unchanged."""
    node = build.nodes[-1]
    check = LOWERINGS[node.op].check
    call = resolve(node, build.opset, build.tensors, build.constants, len(OPERATORS[node.op].inputs))
    return check is None or check(call) is None


def replacement(build: Builder, result: str) -> Replacement:
    """Make a replacement of the nodes of a builder, whose last node computes ``result``."""
    return Replacement(tuple(build.nodes), result)
