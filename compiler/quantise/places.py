"""Finds the nodes of a float graph that can compute with bytes, and their values that become bytes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

from compiler.graph import Array, Graph, Node
from compiler.operators import OPERATORS, call_of
from compiler.operators.boxes.forms import elementwise
from compiler.operators.record import Law, Operator
from compiler.rewrite.affine import per_channel

_CONV_RANK = 4
_MATRIX_RANK = 2


@dataclass(frozen=True)
class KnownFloats:
    """The known operand of a product: its values, and the axis of the output channels."""

    values: Array
    axis: int


class Places:
    """The nodes and values of a graph that can be bytes; ``excluded``: products that no engine computes."""

    def __init__(self, graph: Graph, excluded: Collection[str] = ()) -> None:
        self.graph, self.excluded = graph, frozenset(excluded)
        self.outputs = {tensor.name for tensor in graph.outputs}
        self._producers = {name: node for node in graph.nodes for name in node.outputs if name}
        self._users: dict[str, list[Node]] = defaultdict(list)
        for node in graph.nodes:
            for name in dict.fromkeys(node.inputs):
                self._users[name].append(node)

    @cached_property
    def candidates(self) -> dict[str, Node]:
        """The nodes that can compute with bytes: products with known weights, and sums between them."""
        products = {node.name for node in self.graph.nodes if self.weights(node) is not None}
        joins = {node.name for node in self.graph.nodes if self._joins(node)}
        tails = {node.name for name in products for node in self.tail(self.node(name))}
        joins -= tails
        while True:
            found = products | joins
            wrong = {name for name in joins if not self._between(self.node(name), found)}
            if not wrong:
                break
            joins -= wrong
        return {node.name: node for node in self.graph.nodes if node.name in found}

    @cached_property
    def _by_name(self) -> dict[str, Node]:
        return {node.name: node for node in self.graph.nodes}

    def node(self, name: str) -> Node:
        """Return the node of a name."""
        return self._by_name[name]

    def weights(self, node: Node) -> KnownFloats | None:
        """Return the known weights of a product that can compute with bytes; None for other nodes."""
        record = OPERATORS[node.op]
        if record.product is None or self.graph.tensors[node.outputs[0]].dtype != "float32":
            return None
        values = self.graph.constants.get(node.inputs[1])
        if values is None or node.inputs[0] in self.graph.constants or node.name in self.excluded:
            return None
        if record.window is not None:
            return KnownFloats(values, 0) if values.ndim <= _CONV_RANK else None
        if values.ndim != _MATRIX_RANK or len(self.graph.tensors[node.inputs[0]].shape) < _MATRIX_RANK:
            return None
        return self._columns(node, values, record)

    def _columns(self, node: Node, values: Array, record: Operator) -> KnownFloats | None:
        """Return the weights of a matrix product without factors whose addend is a known vector."""
        call = call_of(self.graph, node)
        factors = {call.number(item.name) for item in record.attributes if item.factor}
        plain = factors <= {1.0} and not call.attrs.get("transA")
        assert record.product is not None
        axis = record.product.columns(call)
        known = not call.has(2) or (call.values[2] is not None and call.shape(2) == (values.shape[axis],))
        return KnownFloats(values, axis) if plain and known else None

    def _joins(self, node: Node) -> bool:
        """Return True for a sum of float32 values that are all computed."""
        is_sum = Law.SUM in OPERATORS[node.op].laws
        if not is_sum or any(name in self.graph.constants for name in node.inputs):
            return False
        shapes = {self.graph.tensors[name].shape for name in (*node.inputs, *node.outputs)}
        is_single = self.graph.tensors[node.outputs[0]].dtype == "float32"
        return is_single and len(node.inputs) > 1 and len(shapes) == 1

    def _between(self, node: Node, found: Collection[str]) -> bool:
        """Return True for a sum of results of nodes in ``found`` that one of them, or a pool, reads."""
        sources = [self.source(name) for name in node.inputs]
        from_bytes = all(source is not None and source.name in found for source in sources)
        return from_bytes and (self._is_averaged(node) or self._is_read(self.result(node), found))

    def _is_averaged(self, node: Node) -> bool:
        """Return True if a pool averages a sum. As bytes, the sum can be a stage of the stack before it."""
        return any(_averages(user) for user in self._users[self.result(node)])

    def _is_read(self, name: str, found: Collection[str]) -> bool:
        """Return True if a node in ``found`` reads a value, or elements of it."""
        for user in self._users[name]:
            if user.name in found and name in self.operands(user):
                return True
            moved = name in self.moved(user) or (OPERATORS[user.op].limits and user.name not in found)
            if moved and self._is_read(user.outputs[0], found):
                return True
        return False

    def source(self, name: str) -> Node | None:
        """Return the product or sum from which a value comes, perhaps limited or moved."""
        node = self._producers.get(name)
        while node is not None and not _computes(node):
            if not OPERATORS[node.op].limits and not self.moved(node):
                return None
            node = self._producers.get(node.inputs[0])
        if node is None or Law.SUM not in OPERATORS[node.op].laws:
            return node
        return self._shifted_product(node) or node

    def _shifted_product(self, node: Node) -> Node | None:
        """Return the matrix product to which a node adds a known vector."""
        for name in node.inputs:
            product = self._producers.get(name)
            if product is not None and node in self.tail(product):
                return product
        return None

    def operands(self, node: Node) -> tuple[str, ...]:
        """Return the values of a candidate that are bytes when it computes with bytes."""
        return (node.inputs[0],) if OPERATORS[node.op].product else tuple(dict.fromkeys(node.inputs))

    def moved(self, node: Node) -> tuple[str, ...]:
        """Return the values whose elements a node moves; none for a node that computes."""
        if len([name for name in node.outputs if name]) != 1 or not node.inputs:
            return ()
        if node.inputs[0] in self.graph.constants:
            return ()
        if node.op == "Concat":
            return () if any(name in self.graph.constants for name in node.inputs) else node.inputs
        return node.inputs[:1] if OPERATORS[node.op].keeps_elements else ()

    def tail(self, node: Node) -> list[Node]:
        """Return the nodes that one phase computes with a candidate: an added vector, then limits."""
        found: list[Node] = []
        value = node.outputs[0]
        while (user := self._sole_user(value)) is not None:
            is_vector = not found and node.op == "MatMul" and self._adds_vector(user, value)
            limits = OPERATORS[user.op].limits and user.inputs[0] == value and not self._computed(user)
            if not is_vector and not limits:
                break
            found.append(user)
            value = user.outputs[0]
        return found

    def vector(self, node: Node) -> Node | None:
        """Return the node that adds a known vector to a matrix product in the same phase."""
        first = self.tail(node)[:1]
        return first[0] if first and first[0].op == "Add" else None

    def result(self, node: Node) -> str:
        """Return the result of the last node that one phase computes with a candidate."""
        return (self.tail(node) or [node])[-1].outputs[0]

    def _sole_user(self, name: str) -> Node | None:
        users = self._users[name]
        return users[0] if len(users) == 1 and name not in self.outputs else None

    def _computed(self, node: Node) -> bool:
        return any(name and name not in self.graph.constants for name in node.inputs[1:])

    def _adds_vector(self, node: Node, value: str) -> bool:
        """Return True if a node adds a known number per column to a value."""
        if node.op != "Add" or set(node.inputs) == {value}:
            return False
        other = self.graph.constants.get(node.inputs[1 if node.inputs[0] == value else 0])
        shape = self.graph.tensors[value].shape
        if other is None or self.graph.tensors[node.outputs[0]].shape != shape:
            return False
        return per_channel(other, len(shape), len(shape) - 1, shape[-1]) is not None

    # --- for a choice of nodes --------------------------------------------------------------------------

    def values(self, chosen: Collection[str]) -> dict[str, str]:
        """Return the values that become bytes when the chosen candidates compute with bytes.

        Each is mapped to the value that defines its scale, because a moved value keeps its scale.
        """
        nodes = [self.candidates[name] for name in chosen]
        found = {name for node in nodes for name in self.operands(node)}
        found |= {self.result(node) for node in nodes if self._joins(node) and self._is_averaged(node)}
        homes = {name: name for name in found}
        for node in reversed(self.graph.nodes):
            if node.outputs[0] in found:
                for name in self.moved(node):
                    found.add(name)
                    homes.setdefault(name, name)
                    homes[_home(homes, name)] = _home(homes, node.outputs[0])
        return {name: _home(homes, name) for name in found}

    def are_bytes(self, values: Collection[str], chosen: Collection[str]) -> set[str]:
        """Return the elements of ``values`` that chosen nodes compute as bytes: their readers get bytes."""
        found = {self.result(self.candidates[name]) for name in chosen}.intersection(values)
        for node in self.graph.nodes:
            moved = self.moved(node)
            if moved and node.outputs[0] in values and found.issuperset(moved):
                found.add(node.outputs[0])
        return found

    def readers(self, name: str) -> Iterator[Node]:
        """Yield the nodes that read a value."""
        return iter(self._users[name])


def _computes(node: Node) -> bool:
    """Return True for a product and a sum."""
    return OPERATORS[node.op].product is not None or Law.SUM in OPERATORS[node.op].laws


def _averages(node: Node) -> bool:
    """Return True for an operator that combines several elements of its operand and keeps their scale, such
    as an average."""
    record = OPERATORS[node.op]
    return record.laws & ~Law.RISING == Law.HOMOGENEOUS and record.needs is not elementwise


def _home(homes: dict[str, str], name: str) -> str:
    while homes[name] != name:
        name = homes[name]
    return name
