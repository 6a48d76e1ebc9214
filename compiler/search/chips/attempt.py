"""One attempt to share the products of a graph among chips, with the findings of earlier attempts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from compiler.graph import Graph, GraphError, Node, Tensor
from compiler.operators import OPERATORS
from compiler.operators.boxes.forms import elementwise
from compiler.operators.domains.chips.collectives import ALL_GATHER

from .products import ChipGroups, added_up, both_sum_over, by_columns, by_rows, sums_over, weights_of
from .rules import ChipParts, DividedAxis, NeedsWhole, StateToDivide, UnevenHeads, divided
from .stage import ChipDivision


@dataclass
class Choices:
    """The findings of earlier attempts, which guide the next one."""

    whole: set[str] = field(default_factory=set)
    """Products that every chip computes whole."""
    repeats: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Products whose columns several neighbours share: the number of these, and the heads that need it."""
    states: dict[str, tuple[DividedAxis, frozenset[str]]] = field(default_factory=dict)
    """States that chips have in parts, and the products that cause this."""


class Attempt:
    """Divides the products of a graph as the ``choices`` allow."""

    def __init__(self, graph: Graph, groups: ChipGroups, choices: Choices) -> None:
        self.graph, self.groups, self.choices = graph, groups, choices
        self.parts = ChipParts(replace(graph, tensors=dict(graph.tensors)), groups.members)
        self._sources: dict[str, frozenset[str]] = {}
        """By divided value: the products that have divided it."""
        self._rows: set[str] = set()
        """Values that chips have by rows, since a sum."""
        for name, (way, sources) in choices.states.items():
            self.parts.divide(name, way)
            self._sources[name] = sources

    def run(self) -> ChipDivision | Exception:
        """Return the divided graph, or the error that prevented it, after which the choices have changed.

        GraphError for heads that the chips cannot share.
        """
        nodes: list[Node] = []
        for node in self.graph.nodes:
            try:
                nodes += self._divided_or_whole(node)
            except StateToDivide as error:
                self.choices.states[error.name] = error.way, self._sources_of(node)
                return error
            except NeedsWhole as error:
                self._blame(self._sources_of(node), error)
                return error
        problem = self._unlike_state()
        return problem or ChipDivision(self.parts, tuple(self._gathered(nodes)))

    def _divided_or_whole(self, node: Node) -> list[Node]:
        """A node in parts, or with gathered whole operands if that pays; NeedsWhole if it does not."""
        try:
            return self._divided(node)
        except NeedsWhole as error:
            if not self._gather_pays(node, error):
                raise
        gathers, whole = self._with_whole_operands(node)
        return [*gathers, *self._divided(whole)]

    def _unlike_state(self) -> NeedsWhole | None:
        """The reason if chips divide the new value of a state differently from the old one."""
        for past, present in self.graph.states:
            old, new = self.parts.division(past), self.parts.division(present)
            if old != new and (old is not None or (new is not None and new.repeat > 1)):
                error = NeedsWhole(f"state {past}={present} is divided in another way after a step")
                self._blame(
                    self._sources.get(past, frozenset()) | self._sources.get(present, frozenset()), error
                )
                return error
        return None

    def _blame(self, products: frozenset[str], error: Exception) -> None:
        """Let the next attempt leave some products whole.

        GraphError if uneven heads demand their division.
        """
        choices, members = self.choices, self.groups.members
        if isinstance(error, UnevenHeads):
            new = products.isdisjoint(choices.repeats) and members % error.heads == 0
            if not new:
                raise GraphError([f"tp={members}: {error}"])
            choices.repeats |= dict.fromkeys(products, (members // error.heads, str(error)))
            return
        uneven = next(
            (choices.repeats[name][1] for name in sorted(products) if name in choices.repeats), None
        )
        if uneven is not None or products <= choices.whole:
            raise GraphError([f"tp={members}: {uneven or error}"])
        choices.whole |= products
        choices.states.clear()

    def _divided(self, node: Node) -> list[Node]:
        parts = self.parts
        if not any(name in parts.axes for name in node.inputs):
            column = None
            if weights_of(parts, node) is not None and node.name not in self.choices.whole:
                column = by_columns(parts, node, self.choices.repeats.get(node.name, (1, ""))[0])
            if column is not None:
                self._sources[node.outputs[0]] = frozenset({node.name})
            return [column or node]
        if sums_over(parts, node):
            made = by_rows(parts, node, self.groups, self._axis_of_sum(node))
            self._rows |= {node.outputs[0]} & parts.axes.keys()
            return made
        if weights_of(parts, node) is not None and node.inputs[0] in self._rows:
            gathers, whole = self._with_whole_operands(node)
            return [*gathers, *self._divided(whole)]
        if both_sum_over(parts, node):
            return added_up(parts, node, self.groups)
        taken, node = self._with_parts(node)
        found = divided(parts, node)
        self._sources |= dict.fromkeys((name for name in node.outputs if name), self._sources_of(node))
        if self._rows.intersection(node.inputs):
            self._rows |= set(node.outputs)
        return [*taken, found]

    def _axis_of_sum(self, node: Node) -> int | None:
        """The axis along which chips have parts of a sum; None if each has all of it."""
        return self.groups.axis_of_rows(self.parts.graph.tensors[node.outputs[0]].shape)

    def _with_parts(self, node: Node) -> tuple[list[Node], Node]:
        """Return a node that computes only some rows, element by element, and nodes that take these rows of
        its operands."""
        parts, rows = self.parts, [name for name in node.inputs if name in self._rows]
        if not rows or OPERATORS[node.op].needs is not elementwise:
            return [], node
        tensors, names = parts.graph.tensors, list(node.inputs)
        taken: list[Node] = []
        from_end = parts.axes[rows[0]] - tensors[rows[0]].rank
        for at, name in enumerate(names):
            axis = from_end + tensors[name].rank if name else -1
            if (
                axis < 0
                or name in parts.axes
                or name in parts.graph.constants
                or tensors[name].shape[axis] == 1
            ):
                continue
            more, names[at] = self._part(name, axis, f"{name}.rows", f"{name}.part")
            taken += more
            self._rows.add(names[at])
        return taken, replace(node, inputs=tuple(names))

    def _part(self, name: str, axis: int, part: str, node: str) -> tuple[list[Node], str]:
        """A node that takes a chip's ``part`` of a whole value, unless there is one already, and the part's
        name."""
        tensors = self.parts.graph.tensors
        assert isinstance(tensors, dict)
        if part in tensors:
            return [], part
        tensors[part] = replace(tensors[name], name=part)
        self.parts.axes[part] = axis
        return [self.groups.part(node, tensors[name], axis, part)], part

    def _sources_of(self, node: Node) -> frozenset[str]:
        return frozenset().union(*(self._sources.get(name, frozenset()) for name in node.inputs))

    def _gather_pays(self, node: Node, error: NeedsWhole) -> bool:
        """True if gathering the divided operands takes less time than computing their products on every chip.

        Rows of sums are always gathered, because any other division needs that too. Heads are not, nor are
        parts that several chips have.
        """
        if self._rows.intersection(node.inputs):
            return True
        operands = self._divided_operands(node)
        if isinstance(error, UnevenHeads) or any(name in self.parts.repeats for name in operands):
            return False
        shapes = [self.parts.graph.tensors[name].shape for name in operands]
        gathers = sum(self.groups.price(ALL_GATHER, shape) for shape in shapes)
        blamed = self._sources_of(node)
        products = [each for each in self.graph.nodes if each.name in blamed]
        return gathers < sum(self.groups.saved(self.graph, product) for product in products)

    def _divided_operands(self, node: Node) -> list[str]:
        return [name for name in dict.fromkeys(node.inputs) if name in self.parts.axes]

    def _with_whole_operands(self, node: Node) -> tuple[list[Node], Node]:
        """Gathers of the divided operands, and the node with whole ones."""
        gathers, names = [], {}
        for name in self._divided_operands(node):
            more, names[name] = self._whole(name)
            gathers += more
        return gathers, replace(node, inputs=tuple(names.get(name, name) for name in node.inputs))

    def _whole(self, name: str) -> tuple[list[Node], str]:
        """A gather of a divided value, unless an earlier node gathers it, and the name of the whole value."""
        tensors, whole = self.parts.graph.tensors, f"{name}.whole"
        assert isinstance(tensors, dict)
        if whole in tensors:
            return [], whole
        tensors[whole] = replace(tensors[name], name=whole)
        axis = self.parts.axes[name]
        return [self.groups.all_gather(f"{name}.all_gather", tensors[name], axis, whole)], whole

    def _gathered(self, nodes: list[Node]) -> list[Node]:
        """The nodes, with a gather for every output that is divided; states that were divided stay so."""
        kept = {present for past, present in self.graph.states if past in self.parts.axes}
        for tensor in self.graph.outputs:
            axis = None if tensor.name in kept else self.parts.axes.pop(tensor.name, None)
            if axis is not None:
                nodes = self._with_whole_output(nodes, tensor, axis)
        return nodes

    def _with_whole_output(self, nodes: list[Node], tensor: Tensor, axis: int) -> list[Node]:
        """The nodes with a gather for an output, unless another node has it already."""
        part, whole = f"{tensor.name}.part", f"{tensor.name}.whole"
        nodes = [_renamed(node, {tensor.name: part, whole: tensor.name}.get) for node in nodes]
        if whole not in self.parts.graph.tensors:
            named = replace(tensor, name=part)
            nodes.append(self.groups.all_gather(f"{tensor.name}.all_gather", named, axis, tensor.name))
        return nodes


def _renamed(node: Node, name_of: Callable[[str, str], str]) -> Node:
    inputs = tuple(name_of(name, name) for name in node.inputs)
    return replace(node, inputs=inputs, outputs=tuple(name_of(name, name) for name in node.outputs))
