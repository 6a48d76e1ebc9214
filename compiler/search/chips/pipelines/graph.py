"""Pipeline parallelism: each stage of layers has its chips, and parts of the batch pass through the stages.

Each chip, or each group of chips that share products, rows or experts, is a stage. It receives a part of the
batch from the previous stage, computes its layers and sends the result on. Meanwhile the previous stage
computes the next part. A value that a later stage needs passes through all stages between. A state belongs to
one stage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from compiler.graph import Array, Graph, GraphError
from compiler.search.chips.degrees import EXCHANGING, Degrees
from compiler.search.chips.rules import ChipParts
from compiler.search.chips.spread import SpreadGraph, batch_dealt, spread_arranged
from compiler.search.chips.stage import ChipDivision
from compiler.search.chips.written import Arrangement, arrangement
from tx8isa.cost.rates import chip_link_rate
from tx8isa.machine.description import Machine

from .cuts import balanced_cuts, in_stages, stage_cuts, stage_of_states
from .stages import StagePlan, StageWriter

_PARTS = 2
"""Most parts of the batch for each stage; with this many, a chip waits at most a third of the time."""

Prices = Callable[[Graph], Mapping[str, float]]
"""Cycles by the names of nodes."""


@dataclass(frozen=True)
class PipelinedGraph:
    """A pipeline: a graph on several chips, each of which belongs to a stage."""

    spread: SpreadGraph
    """The division of the batch over pipelines, the sharing in a stage, and the places of chips: the
    pipeline, and the place in it, one stage after another.
    """
    micro: ChipDivision
    """The parts of the batch of a pipeline."""
    cuts: tuple[int, ...]
    """The first node of each stage, and the end."""

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
    def pairs(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """By stage: the pairs of a sending chip and a receiving chip of the next stage."""
        chips, each = {place: chip for chip, place in enumerate(self.spread.places)}, self._each
        return tuple(
            tuple(
                (chips[batch, at], chips[batch, at + each])
                for batch in range(self.degrees.dp)
                for at in range(stage * each, (stage + 1) * each)
            )
            for stage in range(self.stages - 1)
        )

    @property
    def _each(self) -> int:
        """Chips of a stage of a pipeline."""
        return self.degrees.group // self.stages

    def stage_at(self, place: tuple[int, int]) -> int:
        """The stage of a chip with a place."""
        return place[1] // self._each

    @cached_property
    def parts(self) -> list[dict[tuple[int, ...], tuple[int, int]]]:
        """For each stage: groups of chips with the same constants, and the place that represents each
        group."""
        found: list[dict[tuple[int, ...], list[int]]] = [{} for _ in range(self.stages)]
        for chip, place in enumerate(self.spread.places):
            alike = self.spread.constants_at(place)
            found[self.stage_at(place)].setdefault(alike, []).append(chip)
        return [{tuple(chips): self.spread.places[chips[0]] for chips in each.values()} for each in found]

    @cached_property
    def states(self) -> dict[str, int]:
        """The stage of each state."""
        return stage_of_states(self.part_graph((0, 0), 0), self.cuts)

    def part_graph(self, place: tuple[int, int], number: int) -> Graph:
        """The graph of all stages, as chips with a place in each compute it for a part of the batch."""
        dealt = self.spread.divided(self.spread.split, place, ("dp",))
        return self.spread.divided(self.micro.graph_of(dealt, number), place, EXCHANGING)

    def first_graph(self, stage: int) -> Graph:
        """The graph of the first chip of a stage."""
        return self.stage_graph(next(iter(self.parts[stage].values())))

    def stage_graph(self, place: tuple[int, int]) -> Graph:
        """The graph of a chip with a place."""
        stage = self.stage_at(place)
        begin, end = self.cuts[stage : stage + 2]
        before, after = ((), *self.pairs, ())[stage : stage + 2]
        parts = [self.part_graph(place, number) for number in range(self.micro.parts.count)]
        chips = (chip for chip, other in enumerate(self.spread.places) if self.stage_at(other) == stage)
        own = {name for name in parts[0].constants if self._is_of_a_part(name)}
        plan = StagePlan(
            self._interface(),
            parts,
            self.micro.parts,
            frozenset(own),
            begin,
            end,
            before,
            after,
            frozenset(chips),
        )
        return StageWriter(plan).graph()

    def _interface(self) -> Graph:
        """The whole graph with the inputs and outputs of one chip."""
        graph = self.graph
        shapes = {tensor.name: tensor.shape for tensor in (*graph.inputs, *graph.outputs)}
        for name in shapes:
            for parts, way in self.spread.ways_of(name):
                shapes[name] = parts.shape_of(shapes[name], way)
        inputs, outputs = (
            tuple(replace(tensor, shape=shapes[tensor.name]) for tensor in each)
            for each in (graph.inputs, graph.outputs)
        )
        return replace(graph, inputs=inputs, outputs=outputs)

    def _is_of_a_part(self, name: str) -> bool:
        """True if a constant differs between the parts of the batch."""
        for kind in reversed(EXCHANGING):
            division = self.spread.divisions.get(kind)
            if division is not None and name in division.parts.constants:
                name = division.parts.constants[name][0]
            elif division is not None and name in division.parts.chosen:
                name = division.parts.chosen[name][0]
        return name in self.micro.parts.constants

    def dealt(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """As in ``SpreadGraph``; all stages get the inputs of the pipeline."""
        return self.spread.dealt(inputs)

    def views(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """As of ``SpreadGraph``."""
        return self.spread.views(arrays)

    def joined(self, outputs: Mapping[str, Array], names: Iterable[str] | None = None) -> dict[str, Array]:
        """As in ``SpreadGraph``; an output or a state comes from the stage that computes it."""
        return {
            name: self.spread.joined(self._of_stage(name, outputs), [name])[name]
            for name in ([tensor.name for tensor in self.graph.outputs] if names is None else names)
        }

    def _of_stage(self, name: str, outputs: Mapping[str, Array]) -> dict[str, Array]:
        """A value as if every chip had it, from the chip at the same place in the value's own stage."""
        stage, chips = self._stage_of(name), {place: chip for chip, place in enumerate(self.spread.places)}
        return {
            f"chip{chip}.{name}": outputs[f"chip{chips[batch, stage * self._each + at % self._each]}.{name}"]
            for (batch, at), chip in chips.items()
        }

    def _stage_of(self, name: str) -> int:
        if name in self.states:
            return self.states[name]
        made = (at for at, node in enumerate(self.part_graph((0, 0), 0).nodes) if name in node.outputs)
        at = next(made, 0)
        return next(stage for stage in range(self.stages) if at < self.cuts[stage + 1])


SharedGraph = SpreadGraph | PipelinedGraph
"""A graph that several chips compute."""


def pipelined_graph(
    graph: Graph,
    machine: Machine,
    degrees: Degrees,
    bytes_each: int,
    tiles: int,
    prices: Prices,
    owners: Mapping[str, int] | None = None,
) -> PipelinedGraph:
    """The graph as stages on the chips of a machine; GraphError if it cannot have so many stages.

    Floats have ``bytes_each`` bytes. ``prices`` of nodes decide where stages begin, unless the model gives
    the stages. ``owners`` are the stages that have some states.
    """
    stages = arrangement(graph, machine, degrees).stages
    whole = uncut_pipeline(graph, machine, degrees, bytes_each, tiles)
    graph, part = whole.graph, whole.part_graph((0, 0), 0)
    if stages:
        cuts = stage_cuts(graph, stages)
        stage_of_states(part, cuts)  # refuses states that several stages need
    else:
        rate = chip_link_rate(machine)
        background = degrees.group == degrees.pp and whole.micro.parts.count > 1
        cuts = balanced_cuts(part, prices(part), bytes_each / rate, degrees.pp, owners, background)
    return replace(whole, cuts=tuple(cuts))


def uncut_pipeline(
    graph: Graph, machine: Machine, degrees: Degrees, bytes_each: int, tiles: int
) -> PipelinedGraph:
    """The graph on the chips of a machine with its batch in parts, before it is cut into stages.

    The arguments are the same as for ``pipelined_graph``. GraphError for a graph that cannot be divided so.
    """
    arranged = arrangement(graph, machine, degrees)
    graph = in_stages(graph, arranged.stages) if arranged.stages else graph
    return PipelinedGraph(*_in_parts(graph, machine, arranged, bytes_each, tiles), ())


def _in_parts(
    graph: Graph, machine: Machine, arranged: Arrangement, bytes_each: int, tiles: int
) -> tuple[SpreadGraph, ChipDivision]:
    """The graph on its chips, and the batch in as many parts as possible.

    One if chips divide the batch too.
    """
    for most in (_PARTS * arranged.degrees.pp, 1):
        micro: list[ChipDivision] = []

        def part_of(local: Graph, most: int = most, micro: list[ChipDivision] = micro) -> Graph:
            micro.append(_batch_in_parts(local, most))
            return micro[0].graph_of(local, 0)

        spread = spread_arranged(graph, machine, arranged, bytes_each, tiles, part_of)
        parts = micro[0].parts
        each = [own.parts for kind, own in spread.divisions.items() if kind != "dp"]
        names = [tensor.name for tensor in (*graph.inputs, *graph.outputs)]
        if not any(parts.axes.get(name, -1) == own.axes.get(name) for own in each for name in names):
            break
    return spread, micro[0]


def _batch_in_parts(graph: Graph, most: int) -> ChipDivision:
    """Divide the batch into as many parts as possible, up to ``most``; one if it, or a state, cannot be
    divided."""
    for count in range(most, 1, -1):
        try:
            found = batch_dealt(graph, count)
        except GraphError:
            continue
        if all(past in found.parts.axes for past, _ in graph.states):
            return found
    return ChipDivision(ChipParts(graph, 1), graph.nodes)
