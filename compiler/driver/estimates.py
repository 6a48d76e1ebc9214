"""Prices a graph without making a program, on one chip or several, and finds the degrees of parallelism."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from compiler.codegen import DEFAULT_TILES
from tx8isa.machine.description import Machine, load_machine

if TYPE_CHECKING:
    from compiler.graph import Graph
    from compiler.passes.base import Context
    from compiler.passes.compilation import KnownPrices
    from compiler.search.chips import (
        ChipBounds,
        ChosenDegrees,
        Cost,
        Degrees,
        EstimatedPhase,
        PipelinedGraph,
        Pipelines,
        PipelineTimes,
    )
    from compiler.search.plan import Plan

_OF_A_PART = re.compile(r"\.part\d+\b")
"""The suffix of a phase's name that numbers the part of the batch."""


@dataclass(frozen=True)
class EstimatedProgram:
    """The estimated cycles of a graph on the chips of a machine; nothing was run.

    ``chosen`` is how several chips share the graph, None on one chip; ``bounds`` are the bounds of one chip.
    In a pipeline that is a chip of the busiest stage, whose phases end with its wait for other stages.
    """

    machine: Machine
    phases: list[EstimatedPhase]
    bounds: ChipBounds
    chosen: ChosenDegrees | None = None
    times: PipelineTimes | None = None
    """The times at which the stages of a pipeline are busy; None without stages."""

    @property
    def cycles(self) -> int:
        return sum(phase.cycles for phase in self.phases)

    @property
    def exchanges(self) -> int:
        """Estimated cycles of the exchanges between chips."""
        return sum(phase.cycles for phase in self.phases if phase.exchange)

    @property
    def parts(self) -> int:
        """Number of parts of the batch that go through a pipeline; 1 without stages."""
        return 1 if self.chosen is None else self.chosen.parts


def estimate_graph(
    graph: Graph,
    dtype: str | None = None,
    tiles: int | None = None,
    machine: Machine | None = None,
    patterns: str = "default",
    residency: str = "on",
    parallel: Degrees | None = None,
) -> EstimatedProgram:
    """Price a graph without making a program; the arguments are the ones of ``compile_graph``.

    The machine may have more chips than a program can have (``compiler.search.chips.priced_machine``).
    """
    from compiler.passes.compilation import context_of
    from compiler.search.chips import bounds_of

    machine = load_machine(None) if machine is None else machine
    begin = partial(
        context_of, dtype=dtype, tiles=tiles, machine=machine, patterns=patterns, residency=residency
    )
    prices = _Prices({"": graph}, machine, begin)
    chosen, local = None, graph
    if parallel is not None or machine.chip_count > 1:
        chosen = _chosen(prices, dtype, tiles, parallel)
        if chosen.pipelines:
            return _estimated_pipeline(chosen, prices, _bytes_each(graph, dtype), tiles or DEFAULT_TILES)
        local = chosen.spread.graph_of((0, 0))
    phases = _priced(begin(local, spread=chosen is not None))
    bounds = bounds_of(local, machine, _bytes_each(graph, dtype), tiles or DEFAULT_TILES)
    return EstimatedProgram(machine, phases, bounds, chosen)


def _bytes_each(graph: Graph, dtype: str | None) -> int:
    """Return the bytes of a float in a compute format, by default the graph's."""
    from compiler.evaluation.storage import compute_format, default_dtype

    return compute_format(dtype or default_dtype(graph)).bits // 8


def _estimated_pipeline(
    chosen: ChosenDegrees, prices: _Prices, bytes_each: int, tiles: int
) -> EstimatedProgram:
    from compiler.search.chips import ChipBounds, EstimatedPhase, bounds_of, timeline

    (pipeline,) = chosen.pipelines.values()
    stages = [prices.of_stage(pipeline, number) for number in range(pipeline.stages)]
    times = timeline(stages, prices.machine)
    waits = EstimatedPhase("waiting", times.cycles - times.works[times.longest], exchange=False)
    phases = [*_of_all_parts(stages[times.longest]), waits]
    graphs = map(pipeline.first_graph, range(pipeline.stages))
    each = [bounds_of(graph, prices.machine, bytes_each, tiles) for graph in graphs]
    bounds = ChipBounds(max(bound.ddr for bound in each), max(bound.links for bound in each))
    return EstimatedProgram(prices.machine, phases, bounds, chosen, times)


def _of_all_parts(phases: Sequence[EstimatedPhase]) -> list[EstimatedPhase]:
    """Add up the phases that a stage repeats for each part of the batch."""
    from compiler.search.chips import EstimatedPhase

    found: dict[str, EstimatedPhase] = {}
    for phase in phases:
        name = _OF_A_PART.sub("", phase.name)
        before = found[name].cycles if name in found else 0
        found[name] = EstimatedPhase(name, before + phase.cycles, phase.exchange)
    return [*found.values()]


def _priced(context: Context) -> list[EstimatedPhase]:
    """Return the phases of a graph, with their estimated cycles."""
    from compiler.passes.compilation import run_passes
    from compiler.passes.report import estimated_phases

    return estimated_phases(run_passes(context, {}, None))


def chosen_degrees(
    graphs: Mapping[str, Graph],
    dtype: str | None,
    tiles: int | None,
    machine: Machine,
    parallel: Degrees | None,
    begin: Callable[..., Context],
    plan: Plan | None = None,
) -> ChosenDegrees:
    """Divide graphs over the chips of a machine, by given degrees or by the best ones by estimate.

    The keys are names of entries; a single graph has an empty one, and may have a ``plan``.
    """
    from compiler.search.chips import ChosenDegrees

    if plan is not None:
        parallel = _planned_degrees(plan, parallel)
        if parallel.pp > 1:
            return ChosenDegrees({}, (), {"": _planned_pipeline(graphs[""], machine, parallel, begin, plan)})
    return _chosen(_Prices(graphs, machine, begin), dtype, tiles, parallel)


def check_one_chip(plan: Plan | None) -> None:
    """Raise PlanMisfit for a plan for several chips where there is only one."""
    from compiler.search.plan import PlanMisfit

    if plan is not None and plan.parallel:
        raise PlanMisfit([f"the plan is for chips that share the graph by {plan.parallel}; here is one chip"])


def _planned_degrees(plan: Plan, parallel: Degrees | None) -> Degrees:
    """Return the degrees of a plan; PlanMisfit if it is for one chip, or if other degrees are given."""
    from compiler.search.chips import parsed_degrees
    from compiler.search.plan import PlanMisfit

    if not plan.parallel:
        raise PlanMisfit(["the plan is for one chip; here are several: make one with the same --chips"])
    degrees = parsed_degrees(plan.parallel)
    if parallel is not None and parallel != degrees:
        fix = "give the same, or leave it out"
        raise PlanMisfit([f"--parallel {parallel}: the plan is for {degrees}: {fix}"])
    return degrees


def _planned_pipeline(
    graph: Graph, machine: Machine, degrees: Degrees, begin: Callable[..., Context], plan: Plan
) -> PipelinedGraph:
    """Divide a graph into the stages of a plan; PlanMisfit if the graph cannot be divided so."""
    from compiler.search.chips import uncut_pipeline
    from compiler.search.plan import OTHER, PlanMisfit

    context = begin(graph, spread=True)
    whole = uncut_pipeline(graph, machine, degrees, context.compute.bits // 8, context.tiles)
    cuts, nodes = plan.cuts, len(whole.part_graph((0, 0), 0).nodes)
    counted = len(cuts) == degrees.pp + 1 and len(plan.stages) == degrees.pp
    if not counted or cuts != sorted({0, nodes, *cuts}):
        found = f"the plan's cuts {cuts} with {len(plan.stages)} plans"
        wanted = f"expected {degrees.pp} stages from node 0 to {nodes}, and a plan of each"
        raise PlanMisfit([f"{found}: {wanted}: {OTHER}"])
    return replace(whole, cuts=tuple(cuts))


def _chosen(prices: _Prices, dtype: str | None, tiles: int | None, parallel: Degrees | None) -> ChosenDegrees:
    from compiler.search.chips import choose_degrees

    bytes_each = _bytes_each(next(iter(prices.graphs.values())), dtype)
    return choose_degrees(prices.graphs, prices.machine, parallel, bytes_each, tiles or DEFAULT_TILES, prices)


@dataclass(frozen=True)
class _Prices:
    """The ``Prices`` of ``compiler.search.chips.candidates`` for networks on the chips of a machine."""

    graphs: Mapping[str, Graph]
    machine: Machine
    begin: Callable[..., Context]
    nodes: KnownPrices = field(default_factory=dict)
    stages: dict[tuple[Any, ...], list[EstimatedPhase]] = field(default_factory=dict)
    """The phases of stages, by what equal stages have in common."""

    def of_chip(self, local: Graph) -> Cost:
        return _cost(_priced(self.begin(local, spread=True, search="fast")))

    def in_stages(self, degrees: Degrees) -> Pipelines:
        from compiler.passes.compilation import pipelined_graphs

        return pipelined_graphs(self.graphs, self.machine, degrees, self.begin, self.nodes)

    def of_stage(self, pipeline: PipelinedGraph, number: int) -> list[EstimatedPhase]:
        """Return the phases of a chip of a stage; equal stages are compiled once."""
        from compiler.search.chips import stage_form

        local = pipeline.first_graph(number)
        form = stage_form(local, self.machine)
        if form not in self.stages:
            self.stages[form] = _priced(self.begin(local, spread=True, search="fast"))
        return self.stages[form]

    def of_pipelines(self, pipelines: Pipelines, most: float) -> Cost:
        """Return the cycles of pipelines, and of the exchanges in their stages with most to do.

        A pipeline takes at least as long as each of its stages.
        """
        from compiler.search.chips import Cost, timeline

        cycles, exchanges = 0, 0
        for pipeline in pipelines.values():
            stages: list[list[EstimatedPhase]] = []
            for number in range(pipeline.stages):
                stages.append(self.of_stage(pipeline, number))
                least = cycles + max(_cost(stage).cycles for stage in stages)
                if least >= most:
                    return Cost(least, 0, least=True)
            times = timeline(stages, self.machine)
            cycles, exchanges = cycles + times.cycles, exchanges + _cost(stages[times.longest]).exchanges
        return Cost(cycles, exchanges)


def _cost(phases: Sequence[EstimatedPhase]) -> Cost:
    from compiler.search.chips import Cost

    exchanges = sum(phase.cycles for phase in phases if phase.exchange)
    return Cost(sum(phase.cycles for phase in phases), exchanges)
