"""The graph of a stage of a pipeline: for each part of the batch its receives, its nodes and its sends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from compiler.graph import Array, AttrValue, Graph, Node, Tensor
from compiler.operators.domains.chips.collectives import COLLECTIVES, RECEIVE, SEND, TAKE
from compiler.operators.domains.chips.stages import CHANNELS
from compiler.operators.record import OPERATORS, resolve
from compiler.search.chips.rules import ChipParts

from .cuts import crossing, stage_nodes

SENT = "chips.sent"
"""The result of a stage that marks the end of all sends; it is not an output of the program."""

_JOIN = ".join"
_INBOXES = 2
"""Inboxes of a sent value: the next part of the batch can arrive while one is still in its inbox."""

Pairs = Sequence[tuple[int, int]]
"""Pairs of a sending chip and a receiving chip of the next stage."""


@dataclass(frozen=True)
class StagePlan:
    """The work of a chip of a stage, from which its graph is written."""

    interface: Graph
    """The inputs, outputs and states of the chip, with all of its part of the batch."""
    parts: Sequence[Graph]
    """All nodes of all stages for each part of the batch, as a chip at its place in them computes them."""
    micro: ChipParts
    """The division of the batch into parts."""
    own: frozenset[str]
    """Constants that differ between parts of the batch."""
    begin: int
    end: int
    """The end of its nodes."""
    before: Pairs
    """The pairs whose receivers are in this stage; empty in the first stage."""
    after: Pairs
    chips: frozenset[int]
    """The chips of the stage, of all pipelines."""


class StageWriter:
    """Writes the graph of a stage."""

    def __init__(self, plan: StagePlan) -> None:
        self.plan, self.micro, self.interface = plan, plan.micro, plan.interface
        whole = plan.parts[0]
        self.nodes = stage_nodes(whole, plan.begin, plan.end)
        self.coming = crossing(whole, plan.begin) if plan.before else []
        self.going = crossing(whole, plan.end) if plan.after else []
        self.inputs = {tensor.name: tensor for tensor in self.interface.inputs}
        made = {name for node in whole.nodes[plan.begin : plan.end] for name in node.outputs}
        self.own = [tensor for tensor in self.interface.outputs if tensor.name in made]
        self.read = dict.fromkeys(name for node in self.nodes for name in node.inputs)
        self.unread, self.passed = ([], []) if plan.begin else _ends_without_nodes(self.interface, whole)
        self.states = [(past, new) for past, new in self.interface.states if new in made]
        self.constants: dict[str, Array] = {}
        self._alone = not any(node.op in COLLECTIVES for node in self.nodes)
        """True if its nodes exchange nothing, so that channels may be busy while they are computed."""
        self._under_way: dict[int, str] = {}
        """The result of the Send whose copy a channel carries, by the number of the channel."""
        self._sent = self._received = self._done = ""
        """The last Send and Receive, and a value that exists when a part of the batch is done."""
        self.made: list[Node] = []
        self.tensors: dict[str, Tensor] = {}

    def graph(self) -> Graph:
        """The whole graph of the stage."""
        used = {*self.read, *self.unread, *self.passed, *(past for past, _ in self.states)}
        inputs = tuple(tensor for name, tensor in self.inputs.items() if name in used)
        self.tensors = {tensor.name: tensor for tensor in inputs}
        for number, part in enumerate(self.plan.parts):
            self._constants_of(part, number)
            for node in self._nodes_of(part, number):
                self._add(node)
            self._done = self._end_of(number)
        for tensor in self.own:
            if tensor.name not in self.tensors:
                self._join(tensor.name)
        sent = [self._sent] if self._sent else []
        results = (*(tensor.name for tensor in self.own), *self.passed, *sent)
        outputs = tuple(self.tensors[name] for name in results)
        return replace(
            self.interface,
            inputs=inputs,
            outputs=outputs,
            constants=self.constants,
            nodes=tuple(self.made),
            tensors=self.tensors,
            states=tuple(self.states),
            precise=self.interface.precise | self._with_ends_as_they_are(),
        )

    def _with_ends_as_they_are(self) -> set[str]:
        """The nodes that take parts of inputs and join outputs in FP32, by name.

        So each part is cast separately: neither the first part nor the end waits for a cast of all. States
        keep their format.
        """
        states = {name for pair in self.states for name in pair}
        ends = [tensor for name, tensor in self.inputs.items() if name in self.micro.axes]
        both = [tensor for tensor in (*ends, *self.own) if tensor.name not in states]
        wide = {tensor.name for tensor in both if tensor.dtype == "float32"}
        return {
            node.name
            for node in self.made
            if (node.op == TAKE and node.inputs[0] in wide)
            or (node.name.endswith(_JOIN) and node.outputs[0] in wide)
        }

    def _constants_of(self, part: Graph, number: int) -> None:
        for name in (name for name in (*self.read, *self.passed) if name in part.constants):
            own = self._named(name, number)
            array = self.constants[own] = part.constants[name]
            self.tensors[own] = Tensor(own, array.dtype.name, array.shape)

    def _named(self, name: str, number: int) -> str:
        """The name of a value in a part of the batch; values common to all parts keep their name.

        In a step of one part, the new value of a state also keeps its name, because it overwrites the old
        value.
        """
        common = name in self.inputs and name not in self.micro.axes
        alike = name in self.plan.parts[0].constants and name not in self.plan.own
        state = len(self.plan.parts) == 1 and any(name == new for _, new in self.states)
        return name if not name or common or alike or state else f"{name}.part{number}"

    def _nodes_of(self, part: Graph, number: int) -> Iterator[Node]:
        for name in [n for n in self.inputs if n in self.read and n in self.micro.axes]:
            yield self._take(name, number)
        for at, name in enumerate(self.coming):
            tensor = part.tensors[name]
            # It has no operands instead of omitted ones, because a node on constants alone would be folded.
            before = (self._received, self._done) if self._received else ()
            self._received = own = self._named(name, number)
            attrs = {**_attrs(self.plan.before), "shape": tensor.shape, "dtype": tensor.dtype}
            again = number + _INBOXES < len(self.plan.parts)
            attrs |= {"inbox": self._inbox(at, number), "again": int(again)}
            yield Node(RECEIVE, f"{own}.receive", before, (own,), attrs)
        for node in self.nodes:
            inputs = tuple(self._named(name, number) for name in node.inputs)
            outputs = tuple(self._named(name, number) for name in node.outputs)
            name, own_attrs = f"{node.name}.part{number}", self._with_own_groups(node.attrs)
            yield replace(node, name=name, inputs=inputs, outputs=outputs, attrs=own_attrs)
        for at, name in enumerate(self.going):
            yield self._send(at, self._named(name, number), number)

    def _inbox(self, at: int, number: int) -> int:
        """The inbox of a value of a part of the batch."""
        return _INBOXES * at + number % _INBOXES

    def _send(self, at: int, own: str, number: int) -> Node:
        """Send a value; the first values of a part of the batch are sent while the next part is computed.

        The last part has none after it.
        """
        channel = min(at, CHANNELS - 1)
        later = self._alone and at < CHANNELS - 1 and number + 1 < len(self.plan.parts)
        before, last = self._under_way.pop(channel, ""), self._sent
        self._sent = f"{SENT}.{own}"
        if later:
            self._under_way[channel] = self._sent
        attrs = {**_attrs(self.plan.after), "inbox": self._inbox(at, number), "channel": channel}
        attrs |= {"full": int(number >= _INBOXES), "background": int(later)}
        return Node(SEND, f"{own}.send", (own, last, before), (self._sent,), attrs)

    def _with_own_groups(self, attrs: Mapping[str, AttrValue]) -> Mapping[str, AttrValue]:
        """The attributes of a node; an exchange has only the groups of this stage."""
        chips = attrs.get("chips")
        if not isinstance(chips, tuple):
            return attrs
        return {**attrs, "chips": tuple(int(chip) for chip in chips if chip in self.plan.chips)}

    def _end_of(self, number: int) -> str:
        """Return a value that is computed last in a part of the batch; empty if there is none."""
        floats = [tensor.name for tensor in self.own if tensor.is_float]
        return self._sent or (self._named(floats[-1], number) if floats else self._done)

    def _take(self, name: str, number: int) -> Node:
        """Take a part of an input, whose batch is the first axis."""
        way = self.micro.division(name)
        assert way is not None
        assert way.axis == 0
        begin, end = self.micro.box(self.inputs[name].shape, way, number).intervals[0]
        own = self._named(name, number)
        return Node(TAKE, f"{own}.take", (name, self._done), (own,), {"begin": begin, "end": end})

    def _join(self, name: str) -> None:
        """Join an output from its parts."""
        parts, way = (
            [self._named(name, number) for number in range(self.micro.count)],
            self.micro.division(name),
        )
        if way is None or len(parts) == 1:
            self._add(Node("Identity", f"{name}{_JOIN}", (parts[0],), (name,), {}))
        else:
            self._add(Node("Concat", f"{name}{_JOIN}", tuple(parts), (name,), {"axis": way.axis}))

    def _add(self, node: Node) -> None:
        record = OPERATORS[node.op]
        call = resolve(node, self.interface.opset, self.tensors, self.constants, len(record.inputs))
        self.tensors |= {tensor.name: tensor for tensor in record.infer(call)}
        self.made.append(node)


def _ends_without_nodes(interface: Graph, whole: Graph) -> tuple[list[str], list[str]]:
    """The inputs that no node reads, and the outputs that no node computes, which belong to the first
    stage."""
    read = {name for node in whole.nodes for name in node.inputs}
    made = {name for node in whole.nodes for name in node.outputs}
    inputs, outputs = ([tensor.name for tensor in each] for each in (interface.inputs, interface.outputs))
    return [name for name in inputs if name not in read], [name for name in outputs if name not in made]


def _attrs(pairs: Pairs) -> dict[str, AttrValue]:
    return {"chips": tuple(chip for pair in pairs for chip in pair), "members": 2}
