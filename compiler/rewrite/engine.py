"""Rewriting a checked graph: what a rewrite may ask about it, and how what it makes takes a node's place.

A rewrite looks at one node, the last of the pattern it knows, and says with which new nodes its result can
be computed instead. Nodes whose results nobody uses any more are dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from compiler.evaluation.folding import needed
from compiler.graph import Array, Graph, Node, Tensor
from compiler.lowering import LOWERINGS
from compiler.operators.expansion.builder import Builder
from compiler.operators.record import OPERATORS, Call, call_of, resolve

Apply = Callable[["Rewriting", Node], "Replacement | None"]

_MOST_SWEEPS = 50
"""Every rewrite makes the graph smaller or simpler; more sweeps than this mean that two undo each other."""


@dataclass(frozen=True)
class Rewrite:
    """A rewrite of nodes of the operators ``roots``, the last nodes of its pattern."""

    name: str
    roots: tuple[str, ...]
    apply: Apply


@dataclass(frozen=True)
class Replacement:
    """New nodes and the value that replaces a node's first result."""

    nodes: tuple[Node, ...]
    result: str


class Rewriting:
    """A graph while it is rewritten."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.opset = graph.opset
        self.outputs = {tensor.name for tensor in graph.outputs}
        self.nodes = needed(graph.nodes, self.outputs)[0]
        self.tensors = dict(graph.tensors)
        self.constants = dict(graph.constants)
        self.applied: list[tuple[str, str]] = []
        """Rewrites that were applied, with the node each was applied to."""
        self._makers = {name: node for node in self.nodes for name in node.outputs if name}
        self._uses = Counter(name for node in self.nodes for name in node.inputs if name)
        self._uses.update(self.outputs)
        self._replaced: dict[str, str] = {}
        self._made = 0

    # --- what a rewrite asks -----------------------------------------------------------------------------

    def maker(self, name: str, *ops: str) -> Node | None:
        """The node that computes a value, if it is one of these operators."""
        node = self._makers.get(name)
        return node if node is not None and node.op in ops else None

    def sole(self, name: str, *ops: str, uses: int = 1) -> Node | None:
        """As :meth:`maker`, if the value is read ``uses`` times and is no output."""
        node = self.maker(name, *ops)
        return node if node is not None and self.uses(name) == uses and name not in self.outputs else None

    def uses(self, name: str) -> int:
        """How many operands, and outputs of the graph, a value is."""
        return self._uses[name]

    def array(self, name: str) -> Array | None:
        """The data of a constant."""
        return self.constants.get(name)

    def number(self, name: str) -> float | None:
        """The value of a constant of one element."""
        array = self.constants.get(name)
        return float(array.reshape(())) if array is not None and array.size == 1 else None

    def is_number(self, name: str, value: float, relative: float = 1e-4) -> bool:
        """Whether a value is a constant of one element near ``value``; exporters round as they like."""
        number = self.number(name)
        return number is not None and abs(number - value) <= relative * abs(value)

    def shape(self, name: str) -> tuple[int, ...]:
        return self.tensors[name].shape

    def tensor(self, name: str) -> Tensor:
        return self.tensors[name]

    def call(self, node: Node) -> Call:
        return call_of(replace(self.graph, tensors=self.tensors, constants=self.constants), node)

    def with_number(self, node: Node) -> tuple[str, float] | None:
        """The operand of a commutative node whose other operand is a constant of one element, and that.

        None if it is not so, or if the constant gives the result another shape.
        """
        for x, other in (node.inputs, node.inputs[::-1]):
            number = self.number(other)
            if number is not None and self.number(x) is None:
                return (x, number) if self.shape(x) == self.shape(node.outputs[0]) else None
        return None

    # --- what it makes -----------------------------------------------------------------------------------

    def builder(self, node: Node) -> Builder:
        """Makes nodes in the place of ``node``."""
        self._made += 1
        prefix = f"{node.name}.r{self._made}"
        return Builder(prefix, self.graph.opset, self.tensors, self.constants)

    # --- the work ----------------------------------------------------------------------------------------

    def run(self, rewrites: Sequence[Rewrite]) -> Graph:
        """Apply rewrites until none fits any more."""
        roots: dict[str, list[Rewrite]] = {}
        for entry in rewrites:
            for op in entry.roots:
                roots.setdefault(op, []).append(entry)
        for _ in range(_MOST_SWEEPS):
            if not self._sweep(roots):
                break
        else:
            raise RuntimeError(f"rewrites do not come to an end: {self.applied[-4:]}")
        return self._finished()

    def _sweep(self, roots: dict[str, list[Rewrite]]) -> bool:
        """Every node once, in order; whether any was rewritten."""
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
        """The node with the values that stand for its operands now."""
        inputs = tuple(self._current(name) for name in node.inputs)
        current = node if inputs == node.inputs else replace(node, inputs=inputs)
        self._makers |= {name: current for name in node.outputs if name}
        return current

    def _current(self, name: str) -> str:
        while name in self._replaced:
            name = self._replaced[name]
        return name

    def _rewritten(self, node: Node, rewrites: Sequence[Rewrite]) -> list[Node]:
        """What takes the place of a node: itself, if nothing fits."""
        if any(self._uses[name] for name in node.outputs[1:]):
            return [node]
        for entry in rewrites:
            found = entry.apply(self, node)
            if found is not None:
                self.applied.append((entry.name, node.name))
                return self._put(node, found)
        return [node]

    def _put(self, node: Node, found: Replacement) -> list[Node]:
        """The last new node takes the name of the old one; the value it makes that of the old value."""
        old, nodes = node.outputs[0], list(found.nodes)
        if nodes and found.result == nodes[-1].outputs[0]:
            nodes[-1] = replace(nodes[-1], name=node.name, outputs=(old,))
        elif old in self.outputs:
            nodes.append(Node("Identity", node.name, (found.result,), (old,), {}))
        else:
            self._replaced[old] = found.result
            self._uses[found.result] += self._uses.pop(old)
        for new in nodes:
            self._makers |= {name: new for name in new.outputs if name}
            self._uses.update(name for name in new.inputs if name)
        self._release(node)
        return nodes

    def _release(self, node: Node) -> None:
        """A node reads its operands no more; those that nobody reads go the same way."""
        for name in node.inputs:
            if not name:
                continue
            self._uses[name] -= 1
            maker = self._makers.get(name)
            if maker is not None and not self._alive(maker):
                self._release(maker)

    def _finished(self) -> Graph:
        kept = {tensor.name for tensor in self.graph.inputs} | self.outputs
        kept |= {name for node in self.nodes for name in (*node.inputs, *node.outputs) if name}
        return replace(
            self.graph,
            nodes=tuple(self.nodes),
            tensors={name: tensor for name, tensor in self.tensors.items() if name in kept},
            constants={name: array for name, array in self.constants.items() if name in kept},
        )


def can_be_compiled(build: Builder) -> bool:
    """Whether the last node of a builder has a lowering that takes it as it is."""
    node = build.nodes[-1]
    check = LOWERINGS[node.op].check
    call = resolve(node, build.opset, build.tensors, build.constants, len(OPERATORS[node.op].inputs))
    return check is None or check(call) is None


def made(build: Builder, result: str) -> Replacement:
    """The nodes of a builder, the last of which computes ``result``."""
    return Replacement(tuple(build.nodes), result)
