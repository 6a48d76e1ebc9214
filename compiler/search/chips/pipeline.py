"""Pipeline parallelism: layers on one chip after another, and a batch in parts that follow each other.

Each chip is a stage. It receives a part of the batch from the one before, computes its layers and sends the
result on; while it does, the one before computes the next part. A value that a later stage needs passes
through all stages between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from compiler.graph import Array, AttrValue, Graph, GraphError, Node, Tensor
from compiler.operators.domains.chips.collectives import RECEIVE, SEND, TAKE
from compiler.operators.record import OPERATORS, resolve
from tx8isa.cost.instructions import chip_link_rate
from tx8isa.machine.description import Machine

from .cuts import balanced_cuts, crossing, in_stages, stage_cuts
from .degrees import Degrees, places_in
from .rules import ChipParts
from .spread import SpreadGraph, batch_dealt
from .stage import ChipDivision
from .written import arrangement, wishes_of

SENT = "chips.sent"
"""The result of a stage that says that all is sent; it is no output of the program."""
_PARTS = 2
"""Parts of the batch for each stage, at most: then a chip waits a third of the time or less."""

Prices = Callable[[Graph], Mapping[str, float]]
"""Cycles by the names of nodes."""


@dataclass(frozen=True)
class PipelinedGraph:
    """A graph on several chips, each of which is a stage of a pipeline."""

    spread: SpreadGraph
    """How the batch is dealt to pipelines, and the places of chips: the pipeline and the stage."""
    micro: ChipDivision
    """The parts of the batch of a pipeline."""
    cuts: tuple[int, ...]
    """The first node of each stage, and the end."""
    pairs: tuple[tuple[tuple[int, int], ...], ...]
    """By stage: which chips send something to which ones of the next."""

    @property
    def graph(self) -> Graph:
        return self.spread.graph

    @property
    def degrees(self) -> Degrees:
        return self.spread.degrees

    @property
    def stages(self) -> int:
        return self.degrees.pp

    @cached_property
    def parts(self) -> list[dict[tuple[int, ...], int]]:
        """By stage: chips that have the same constants, and the pipeline of one of them."""
        alike = all(each.alike for each in self.spread.divisions.values())
        found: list[dict[int, list[int]]] = [{} for _ in range(self.stages)]
        for chip, (batch, stage) in enumerate(self.spread.places):
            found[stage].setdefault(0 if alike else batch, []).append(chip)
        return [{tuple(chips): batch for batch, chips in each.items()} for each in found]

    def stage_graph(self, stage: int, batch: int) -> Graph:
        """What a stage of a pipeline computes."""
        spread = self.spread
        return _Stage(self, spread.graph_of((batch, 0)), stage).graph()

    def dealt(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """As of ``SpreadGraph``: all stages get what the pipeline does."""
        return self.spread.dealt(inputs)

    def views(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """As of ``SpreadGraph``."""
        return self.spread.views(arrays)

    def joined(self, outputs: Mapping[str, Array], names: Iterable[str] | None = None) -> dict[str, Array]:
        """As of ``SpreadGraph``; an output is that of the stage that computes it."""
        found = {}
        for name in [tensor.name for tensor in self.graph.outputs] if names is None else names:
            stage = self._stage_of(name)
            chips = sorted(
                (batch, chip) for chip, (batch, at) in enumerate(self.spread.places) if at == stage
            )
            each = [outputs[f"chip{chip}.{name}"] for _, chip in chips]
            ways = [way for _, way in self.spread.ways_of(name)]
            found[name] = np.concatenate(each, ways[0].axis) if ways else each[0]
        return found

    def _stage_of(self, output: str) -> int:
        made = (number for number, node in enumerate(self.micro.nodes) if output in node.outputs)
        at = next(made, 0)
        return next(stage for stage in range(self.stages) if at < self.cuts[stage + 1])


SharedGraph = SpreadGraph | PipelinedGraph
"""A graph that several chips compute."""


class _Stage:
    """Writes the graph of a stage: for each part of the batch what comes, the nodes, and what goes."""

    def __init__(self, pipeline: PipelinedGraph, local: Graph, stage: int) -> None:
        self.pipeline, self.local, self.stage = pipeline, local, stage
        self.parts: ChipParts = pipeline.micro.parts
        begin, end = pipeline.cuts[stage : stage + 2]
        whole = replace(local, nodes=pipeline.micro.nodes)
        self.nodes = pipeline.micro.nodes[begin:end]
        self.coming = crossing(whole, begin) if begin else []
        self.going = crossing(whole, end) if stage + 1 < pipeline.stages else []
        self.inputs = {tensor.name: tensor for tensor in local.inputs}
        made = {name for node in self.nodes for name in node.outputs}
        self.own = [tensor.name for tensor in local.outputs if tensor.name in made]
        self.constants: dict[str, Array] = {}
        self._sent = self._received = self._done = ""
        """The last that was sent and received, and a value that is there when a part of the batch is done."""
        self.made: list[Node] = []
        self.tensors: dict[str, Tensor] = {}

    def graph(self) -> Graph:
        """The whole graph of the stage."""
        used = {name for node in self.nodes for name in node.inputs}
        inputs = tuple(tensor for name, tensor in self.inputs.items() if name in used)
        self.tensors = {tensor.name: tensor for tensor in inputs}
        for number in range(self.parts.count):
            part = self.pipeline.micro.graph_of(self.local, number)
            self._constants_of(part, number)
            for node in self._nodes_of(part, number):
                self._add(node)
            self._done = self._end_of(number)
        for name in self.own:
            self._join(name)
        sent = [self._sent] if self._sent else []
        outputs = tuple(self.tensors[name] for name in (*self.own, *sent))
        return replace(
            self.local,
            inputs=inputs,
            outputs=outputs,
            constants=self.constants,
            nodes=tuple(self.made),
            tensors=self.tensors,
        )

    def _constants_of(self, part: Graph, number: int) -> None:
        used = dict.fromkeys(name for node in self.nodes for name in node.inputs)
        for name in (name for name in used if name in part.constants):
            own = self._named(name, number)
            array = self.constants[own] = part.constants[name]
            self.tensors[own] = Tensor(own, array.dtype.name, array.shape)

    def _named(self, name: str, number: int) -> str:
        """The name of a value of a part of the batch; values of all parts keep theirs."""
        common = name in self.inputs and name not in self.parts.axes
        alike = name in self.local.constants or name in self.parts.literals
        return name if not name or common or alike else f"{name}.part{number}"

    def _nodes_of(self, part: Graph, number: int) -> Iterator[Node]:
        for name in [n for n in self.tensors if n in self.inputs and n in self.parts.axes]:
            yield self._take(name, number)
        for name in self.coming:
            tensor = part.tensors[name]
            # Without any operand, rather than with omitted ones: a node on constants would become one.
            before = (self._received, self._done) if self._received else ()
            self._received = own = self._named(name, number)
            attrs = {**self._attrs(self.stage - 1), "shape": tensor.shape, "dtype": tensor.dtype}
            yield Node(RECEIVE, f"{own}.receive", before, (own,), attrs)
        for node in self.nodes:
            inputs = tuple(self._named(name, number) for name in node.inputs)
            outputs = tuple(self._named(name, number) for name in node.outputs)
            yield replace(node, name=f"{node.name}.part{number}", inputs=inputs, outputs=outputs)
        for name in self.going:
            own, last = self._named(name, number), self._sent
            self._sent = f"{SENT}.{own}"
            yield Node(SEND, f"{own}.send", (own, last), (self._sent,), self._attrs(self.stage))

    def _end_of(self, number: int) -> str:
        """A value that is there when all of a part of the batch is computed, as far as there is one."""
        floats = [name for name in self.own if self.local.tensors[name].is_float]
        return self._sent or (self._named(floats[-1], number) if floats else self._done)

    def _attrs(self, stage: int) -> dict[str, AttrValue]:
        pairs = self.pipeline.pairs[stage]
        return {"chips": tuple(chip for pair in pairs for chip in pair), "members": 2}

    def _take(self, name: str, number: int) -> Node:
        """The part of an input; its batch is the first axis."""
        way = self.parts.division(name)
        assert way is not None
        assert way.axis == 0
        begin, end = self.parts.box(self.inputs[name].shape, way, number).intervals[0]
        own = self._named(name, number)
        return Node(TAKE, f"{own}.take", (name, self._done), (own,), {"begin": begin, "end": end})

    def _join(self, name: str) -> None:
        """An output from its parts."""
        parts, way = (
            [self._named(name, number) for number in range(self.parts.count)],
            self.parts.division(name),
        )
        if way is None or len(parts) == 1:
            self._add(Node("Identity", f"{name}.join", (parts[0],), (name,), {}))
        else:
            self._add(Node("Concat", f"{name}.join", tuple(parts), (name,), {"axis": way.axis}))

    def _add(self, node: Node) -> None:
        record = OPERATORS[node.op]
        call = resolve(node, self.local.opset, self.tensors, self.constants, len(record.inputs))
        self.tensors |= {tensor.name: tensor for tensor in record.infer(call)}
        self.made.append(node)


def pipelined_graph(
    graph: Graph, machine: Machine, degrees: Degrees, bytes_each: int, prices: Prices
) -> PipelinedGraph:
    """The graph as stages on the chips of a machine; GraphError for one that has not so many.

    Floats have ``bytes_each`` bytes. ``prices`` of nodes decide where stages begin, unless the model of the
    graph says it.
    """
    arranged = arrangement(graph, machine, degrees)
    if graph.states or graph.replaceable:
        raise GraphError([f"{degrees}: stages have no states and no replaceable constants; try tp or dp"])
    flow = next((node for node in graph.nodes if node.bodies), None)
    if flow is not None:
        raise GraphError([f"--parallel: {flow} is decided by the program, which is for one chip"])
    stages = arranged.stages
    graph = in_stages(graph, stages) if stages else graph
    divisions = {"dp": batch_dealt(graph, degrees.dp, arranged.common)} if degrees.dp > 1 else {}
    wishes_of(arranged, graph, divisions.get("dp"))  # refuses what stages have not
    spread = SpreadGraph(graph, degrees, places_in(arranged.rings), divisions, graph)
    local = spread.graph_of((0, 0))
    micro = _in_parts(local, _PARTS * degrees.pp)
    if stages:
        cuts = stage_cuts(graph, stages)
    else:
        part = micro.graph_of(local, 0)
        cuts = balanced_cuts(part, prices(part), bytes_each / chip_link_rate(machine), degrees.pp)
    pairs = tuple(tuple((ring[at], ring[at + 1]) for ring in arranged.rings) for at in range(degrees.pp - 1))
    return PipelinedGraph(spread, micro, tuple(cuts), pairs)


def _in_parts(graph: Graph, most: int) -> ChipDivision:
    """The batch in as many parts as can be, up to ``most``; one if it cannot be divided."""
    for count in range(most, 1, -1):
        try:
            return batch_dealt(graph, count)
        except GraphError:
            continue
    return ChipDivision(ChipParts(graph, 1), graph.nodes)
