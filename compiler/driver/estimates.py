"""Prices a graph without making a program, on one chip or several, and finds the degrees of parallelism."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from compiler.codegen import DEFAULT_TILES
from tx8isa.machine.description import Machine, load_machine

if TYPE_CHECKING:
    from compiler.graph import Graph
    from compiler.passes.base import Context
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

_OF_A_PART = re.compile(r"\.part\d+\b")
"""What the name of a phase says about the part of the batch."""


@dataclass(frozen=True)
class EstimatedProgram:
    """What a graph takes on the chips of a machine, in estimated cycles; nothing was run.

    ``chosen`` is how several chips share it, None on one; ``bounds`` are those of one of the chips. In a
    pipeline that is a chip of the stage with most to do, whose phases end with the one in which it waits.
    """

    machine: Machine
    phases: list[EstimatedPhase]
    bounds: ChipBounds
    chosen: ChosenDegrees | None = None
    times: PipelineTimes | None = None
    """When the stages of a pipeline are busy; None without stages."""

    @property
    def cycles(self) -> int:
        return sum(phase.cycles for phase in self.phases)

    @property
    def exchanges(self) -> int:
        """Cycles of exchanges between chips."""
        return sum(phase.cycles for phase in self.phases if phase.exchange)

    @property
    def parts(self) -> int:
        """Parts of the batch that go through a pipeline; 1 without stages."""
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
    """Price a graph without making a program; the arguments are those of ``compile_graph``.

    The machine may have more chips than programs can have (``compiler.search.chips.priced_machine``).
    """
    from compiler.passes.compilation import compute_format, context_of, default_dtype
    from compiler.search.chips import bounds_of

    machine = load_machine(None) if machine is None else machine
    begin = partial(
        context_of, dtype=dtype, tiles=tiles, machine=machine, patterns=patterns, residency=residency
    )
    bytes_each = compute_format(dtype or default_dtype(graph)).bits // 8
    chosen, local = None, graph
    if parallel is not None or machine.chip_count > 1:
        chosen = chosen_degrees({"": graph}, dtype, tiles, machine, parallel, begin)
        if chosen.pipelines:
            return _estimated_pipeline(chosen, machine, begin, bytes_each, tiles or DEFAULT_TILES)
        local = chosen.spread.graph_of((0, 0))
    phases = _priced(begin(local, spread=chosen is not None))
    bounds = bounds_of(local, machine, bytes_each, tiles or DEFAULT_TILES)
    return EstimatedProgram(machine, phases, bounds, chosen)


def _estimated_pipeline(
    chosen: ChosenDegrees, machine: Machine, begin: Callable[..., Context], bytes_each: int, tiles: int
) -> EstimatedProgram:
    from compiler.search.chips import ChipBounds, EstimatedPhase, bounds_of

    (pipeline,) = chosen.pipelines.values()
    priced = _PricedPipeline.of(pipeline, machine, begin)
    times = priced.times
    waits = EstimatedPhase("waiting", times.cycles - times.works[times.longest], exchange=False)
    phases = [*_of_all_parts(priced.stages[times.longest]), waits]
    each = [bounds_of(pipeline.first_graph(n), machine, bytes_each, tiles) for n in range(pipeline.stages)]
    return EstimatedProgram(machine, phases, ChipBounds(*map(max, zip(*each, strict=True))), chosen, times)


def _of_all_parts(phases: Sequence[EstimatedPhase]) -> list[EstimatedPhase]:
    """The phases of a stage, those that are repeated for each part of the batch as one."""
    from compiler.search.chips import EstimatedPhase

    found: dict[str, EstimatedPhase] = {}
    for phase in phases:
        name = _OF_A_PART.sub("", phase.name)
        before = found[name].cycles if name in found else 0
        found[name] = EstimatedPhase(name, before + phase.cycles, phase.exchange)
    return [*found.values()]


@dataclass(frozen=True)
class _PricedPipeline:
    """The phases of a chip of each stage of a pipeline, and when the stages are busy."""

    stages: Sequence[Sequence[EstimatedPhase]]
    times: PipelineTimes

    @classmethod
    def of(cls, pipeline: PipelinedGraph, machine: Machine, begin: Callable[..., Context]) -> _PricedPipeline:
        from compiler.search.chips import timeline

        stages = [
            _priced(begin(pipeline.first_graph(number), spread=True, search="fast"))
            for number in range(pipeline.stages)
        ]
        return cls(stages, timeline(stages, machine))


def _priced(context: Context) -> list[EstimatedPhase]:
    """The phases of a graph, with their estimated cycles."""
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
) -> ChosenDegrees:
    """Graphs divided over the chips of a machine, by given degrees or by those that are estimated best.

    The keys are names of entries; a single graph has an empty one.
    """
    from compiler.passes.compilation import compute_format, default_dtype
    from compiler.search.chips import choose_degrees

    first = next(iter(graphs.values()))
    bytes_each = compute_format(dtype or default_dtype(first)).bits // 8
    prices = _Prices(graphs, machine, begin)
    return choose_degrees(graphs, machine, parallel, bytes_each, tiles or DEFAULT_TILES, prices)


@dataclass(frozen=True)
class _Prices:
    """The ``Prices`` of ``compiler.search.chips.candidates`` for networks on the chips of a machine."""

    graphs: Mapping[str, Graph]
    machine: Machine
    begin: Callable[..., Context]

    def of_chip(self, local: Graph) -> Cost:
        return _cost(_priced(self.begin(local, spread=True, search="fast")))

    def in_stages(self, degrees: Degrees) -> Pipelines:
        from compiler.passes.compilation import pipelined_graphs

        return pipelined_graphs(self.graphs, self.machine, degrees, self.begin)


def _cost(phases: Sequence[EstimatedPhase]) -> Cost:
    from compiler.search.chips import Cost

    exchanges = sum(phase.cycles for phase in phases if phase.exchange)
    return Cost(sum(phase.cycles for phase in phases), exchanges)
