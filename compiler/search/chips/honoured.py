"""An attempt that follows the sharding written in a model, and decides the rest like other attempts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from compiler.graph import Graph, GraphError, Node
from compiler.operators import OPERATORS
from compiler.operators.boxes.forms import elementwise
from compiler.operators.domains.chips.collectives import ALL_GATHER

from .attempt import Attempt, Choices
from .products import ChipGroups, weights_of
from .rules import DividedAxis, NeedsWhole
from .written import Wish

_OF_THE_MODEL = " of the model"
"""Added to the products that divide a value if the model's sharding divides it; no attempt removes it."""


class HonouredAttempt(Attempt):
    """Divides the products of a graph as ``wishes`` say, and others as choices allow."""

    def __init__(self, graph: Graph, groups: ChipGroups, choices: Choices, wishes: Sequence[Wish]) -> None:
        super().__init__(graph, groups, choices)
        makers = {name: node.name for node in graph.nodes for name in node.outputs}
        self._operands = {(part, wish.tensor): wish for wish in wishes for part in wish.node.parts}
        self._results = {wish.tensor: wish for wish in wishes if makers.get(wish.tensor) in wish.node.parts}
        self._fixed = {_OF_THE_MODEL}
        for node in graph.nodes:
            self._choose(node)

    def _choose(self, node: Node) -> None:
        """Decide whether a product is computed in parts, as far as the model determines it."""
        weights = weights_of(self.parts, node)
        if weights is None:
            return
        wish, result = self._operands.get((node.name, weights)), self._results.get(node.outputs[0])
        if wish is not None:
            self._fixed.add(node.name)
            if wish.way is None:
                self.choices.whole.add(node.name)
            elif wish.way.repeat > 1:
                self.choices.repeats[node.name] = wish.way.repeat, str(node)
        elif result is not None and result.way is None:
            gather = self.groups.price(ALL_GATHER, self.graph.tensors[result.tensor].shape)
            if gather >= self.groups.saved(self.graph, node):
                self.choices.whole.add(node.name)

    def _divided_or_whole(self, node: Node) -> list[Node]:
        before, names = [], list(node.inputs)
        for at, name in enumerate(node.inputs):
            wish = self._operands.get((node.name, name)) or self._results.get(name)
            if wish is not None and name not in self.graph.constants:
                more, names[at] = self._as(name, wish.way, wish)
                before += more
        moved = replace(node, inputs=tuple(names))
        for prepare in (self._for_weights, self._for_result):
            more, moved = prepare(moved)
            before += more
        made = super()._divided_or_whole(moved)
        self._check_constants(node, made)
        return [*before, *made]

    def _for_weights(self, node: Node) -> tuple[list[Node], Node]:
        """The product with its first operand in the form that the parts of the weights need."""
        weights = weights_of(self.parts, node)
        wish = None if weights is None else self._operands.get((node.name, weights))
        if wish is None:
            return [], node
        x, last = node.inputs[0], self.parts.graph.tensors[node.inputs[0]].rank - 1
        across = bool(node.attrs.get("transB"))
        if wish.way is None and self.parts.axes.get(x) != last:
            return [], node
        by_rows = wish.way is not None and wish.way.axis == across
        if by_rows and node.attrs.get("transA"):
            raise wish.refusal(f"{node} has transA, so its sums cannot be divided; shard the other axis")
        made, name = self._as(x, DividedAxis(last, wish.way.repeat) if by_rows and wish.way else None, wish)
        return made, replace(node, inputs=(name, *node.inputs[1:]))

    def _for_result(self, node: Node) -> tuple[list[Node], Node]:
        """A node that computes each element separately, with operands in the parts wanted for its result."""
        wish = self._results.get(node.outputs[0])
        divided = any(name in self.parts.axes for name in node.inputs)
        if wish is None or wish.way is None or divided or OPERATORS[node.op].needs is not elementwise:
            return [], node
        tensors, made, names = self.parts.graph.tensors, [], list(node.inputs)
        axis = wish.way.axis - tensors[node.outputs[0]].rank
        for at, name in enumerate(names):
            rank = tensors[name].rank if name else 0
            if rank + axis >= 0 and name not in self.graph.constants and tensors[name].shape[axis] > 1:
                more, names[at] = self._as(name, DividedAxis(rank + axis, wish.way.repeat), wish)
                made += more
        return made, replace(node, inputs=tuple(names))

    def _as(self, name: str, way: DividedAxis | None, wish: Wish) -> tuple[list[Node], str]:
        """Nodes that make a value whole or take a part of it, and the resulting name."""
        have, made = self.parts.division(name), list[Node]()
        if have == way:
            return [], name
        if any(each is not None and each.repeat > 1 for each in (have, way)):
            raise wish.refusal("chips share parts of it, and can neither gather nor take them")
        if not self.parts.graph.tensors[name].is_float:
            raise wish.refusal("chips exchange and take parts of floats only")
        if have is not None:
            made, name = self._whole(name)
        if way is not None:
            part = f"{name}.axis{way.axis}"
            more, name = self._part(name, way.axis, part, f"{part}.take")
            made = [*made, *more]
            self._sources[name] = frozenset({_OF_THE_MODEL})
            if way.axis < self.parts.graph.tensors[name].rank - 1:
                self._rows.add(name)
        return made, name

    def _axis_of_sum(self, node: Node) -> int | None:
        """The axis in which the model wants the result.

        Only rows can be summed in parts; other parts are taken afterwards.
        """
        wish = self._results.get(node.outputs[0])
        if wish is None:
            return super()._axis_of_sum(node)
        rows = self.parts.graph.tensors[node.outputs[0]].rank - 1
        return wish.way.axis if wish.way is not None and wish.way.axis < rows else None

    def _gather_pays(self, node: Node, error: NeedsWhole) -> bool:
        """True for values that the model wants divided; if they are needed whole, they are gathered at any
        cost."""
        sources = self._sources_of(node)
        if sources.isdisjoint(self._fixed):
            return super()._gather_pays(node, error)
        shared = next((name for name in node.inputs if name in self.parts.repeats), None)
        if shared is not None:
            raise GraphError([f"{error}; chips share parts of '{shared}', which they cannot gather"])
        return True

    def _check_constants(self, node: Node, made: Sequence[Node]) -> None:
        """GraphError for a constant that the model wants in other parts than the node needs."""
        names = [name for each in made for name in each.inputs]
        for name in node.inputs:
            wish = self._operands.get((node.name, name))
            if wish is None or wish.way is None or name not in self.graph.constants:
                continue
            found = [way for part, (of, way) in self.parts.constants.items() if of == name and part in names]
            if found != [wish.way]:
                has = f"sharded along axis {found[0].axis}" if found else "whole"
                text = f"{node} needs it {has}; sharded can be weights of products, and what joins a part"
                raise wish.refusal(text)
