"""Tries degrees of parallelism when only the number of chips is given, with their estimated cycles."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

import msgspec
from msgspec import UNSET

from compiler.graph import Graph, GraphError
from tx8isa.machine.chips import Chips
from tx8isa.machine.description import Machine

from .dealing import has_experts
from .degrees import MOST_SHARING, Degrees
from .pipelines import PipelinedGraph, SharedGraph, uncut_pipeline
from .spread import SpreadGraph, spread_graph
from .written import said_degrees


class TriedDegrees(msgspec.Struct, frozen=True):
    """Degrees that were tried. ``cycles`` is None if they do not fit; ``problem`` then has the reason.

    ``exchanges`` are the cycles of exchanges among them.
    """

    degrees: str
    cycles: int | None
    exchanges: int
    problem: str

    def __str__(self) -> str:
        if self.cycles is None:
            return f"{self.degrees}: {self.problem}"
        return f"{self.degrees}: {self.cycles:,} cycles, {self.exchanges:,} of them exchanges"


SpreadGraphs = Mapping[str, SpreadGraph]
"""The networks of a program on several chips, by the names of its entries; a single one has an empty name."""
Pipelines = Mapping[str, PipelinedGraph]
"""The networks as stages of pipelines, by the names of entries."""


@dataclass(frozen=True)
class ChosenDegrees:
    """The networks divided by the degrees with the fewest cycles, and all tried degrees.

    Either ``spreads`` or ``pipelines`` has them.
    """

    spreads: SpreadGraphs
    tried: tuple[TriedDegrees, ...]
    pipelines: Pipelines = field(default_factory=dict)

    @property
    def shared(self) -> Mapping[str, SharedGraph]:
        """The networks, as stages or not."""
        return self.pipelines or self.spreads

    @property
    def spread(self) -> SpreadGraph:
        """The first network, which has no stages."""
        return next(iter(self.spreads.values()))

    @property
    def degrees(self) -> Degrees:
        return next(iter(self.shared.values())).degrees

    @property
    def parts(self) -> int:
        """Number of parts of the batch of the first network that stages compute one after another; 1 without
        stages."""
        first = next(iter(self.shared.values()))
        return first.micro.parts.count if isinstance(first, PipelinedGraph) else 1

    def graphs_at(self, places: Mapping[str, tuple[int, int]]) -> dict[str, Graph]:
        """The graphs of chips with a place in each network."""
        return {name: self.spreads[name].graph_of(place) for name, place in places.items()}

    @property
    def places(self) -> dict[tuple[int, ...], dict[str, tuple[int, int]]]:
        """The chips with the same constants in all networks; a place in each network represents them."""
        own = {
            name: {chip: place for place, chips in spread.parts.items() for chip in chips}
            for name, spread in self.spreads.items()
        }
        found: dict[tuple[tuple[int, int], ...], list[int]] = {}
        for chip in range(len(self.spread.places)):
            found.setdefault(tuple(places[chip] for places in own.values()), []).append(chip)
        return {tuple(chips): dict(zip(own, places, strict=True)) for places, chips in found.items()}


class Cost(NamedTuple):
    """Estimated cycles of chips, including the cycles of exchanges."""

    cycles: int
    exchanges: int
    least: bool = False
    """True if the cycles are a lower bound, because it was not priced to the end."""


class Prices(Protocol):
    """Prices of divided networks, by compiling the parts of their chips."""

    def of_chip(self, local: Graph) -> Cost:
        """The cost of a graph on one chip."""

    def in_stages(self, degrees: Degrees) -> Pipelines:
        """The networks cut into stages of about equal time."""

    def of_pipelines(self, pipelines: Pipelines, most: float) -> Cost:
        """The cost of all stages of the networks together; pricing may stop at ``most`` cycles."""


def possible_degrees(chips: Chips, kinds: Sequence[str]) -> list[Degrees]:
    """Yield the batch divided over all chips, or over fewer with one of the other ``kinds``, smallest degrees
    first. Then yield stages of a pipeline, which are single chips or groups that share products.
    """
    shared = [count for count in range(2, min(chips.count, MOST_SHARING) + 1) if chips.count % count == 0]
    both = [Degrees(**{"dp": chips.count // count, kind: count}) for kind in kinds for count in shared]
    staged = [
        Degrees(dp=chips.count // (pp * tp), tp=tp, pp=pp)
        for pp in shared
        for tp in (1, *shared)
        if chips.count % (pp * tp) == 0
    ]
    return [Degrees(chips.count), *both, *staged]


def checked_states(spreads: SpreadGraphs) -> SpreadGraphs:
    """Return the networks; GraphError for a state that their chips divide in different ways."""
    first: dict[str, tuple[str, str]] = {}
    for entry, spread in spreads.items():
        for past, _ in spread.graph.states:
            ways = [(parts.count // way.repeat, way.axis) for parts, way in spread.ways_of(past)]
            found = " and ".join(f"in {pieces} parts of axis {axis}" for pieces, axis in ways) or "whole"
            other, known = first.setdefault(past, (entry, found))
            if known != found:
                text = f"state {past}: chips have it {known} in entry {other}, {found} in entry {entry}"
                raise GraphError([f"{spread.degrees}: {text}; expected the same"])
    return spreads


def choose_degrees(
    graphs: Mapping[str, Graph],
    machine: Machine,
    parallel: Degrees | None,
    bytes_each: int,
    tiles: int,
    prices: Prices,
) -> ChosenDegrees:
    """Return the given degrees, those of a model's sharding, or those with the fewest estimated cycles.

    Of equal ones the first wins. The keys of ``graphs`` are names of entries. The other arguments are those
    of ``spread_graph``. GraphError if none fits.
    """
    parallel = said_degrees(graphs, machine, parallel)
    if parallel is not None and parallel.pp > 1:
        return ChosenDegrees({}, (), prices.in_stages(parallel))
    if parallel is not None:
        return ChosenDegrees(_spread(graphs, machine, parallel, bytes_each, tiles), ())
    if machine.chips is UNSET:
        raise GraphError([f"machine {machine.name} has no links between chips"])
    trials = _Trials(graphs, machine, bytes_each, tiles, prices)
    kinds = ("tp", "sp", "ep") if any(map(has_experts, graphs.values())) else ("tp", "sp")
    for degrees in possible_degrees(machine.chips, kinds):
        trials.attempt(degrees)
    if trials.best is None:
        title = f"graph '{graphs[''].name}'" if "" in graphs else f"entries {', '.join(graphs)}"
        found = "; ".join(map(str, trials.tried))
        raise GraphError([f"{title}: no degrees of parallelism fit the chips: {found}"])
    return replace(trials.best[1], tried=tuple(trials.tried))


@dataclass
class _Trials:
    """Tries degrees, and keeps those with the fewest cycles."""

    graphs: Mapping[str, Graph]
    machine: Machine
    bytes_each: int
    tiles: int
    prices: Prices
    tried: list[TriedDegrees] = field(default_factory=list)
    best: tuple[int, ChosenDegrees] | None = None

    def attempt(self, degrees: Degrees) -> None:
        """Try degrees; the pricing of a pipeline stops when it takes more cycles than the best degrees so
        far."""
        try:
            cost, found = self._staged(degrees) if degrees.pp > 1 else self._shared(degrees)
        except GraphError as error:
            problem = str(error).partition("\n")[0]
            self.tried.append(TriedDegrees(str(degrees), None, 0, problem.removeprefix(f"{degrees}: ")))
            return
        if cost.least:
            self.tried.append(TriedDegrees(str(degrees), None, 0, f"at least {cost.cycles:,} cycles"))
            return
        self.tried.append(TriedDegrees(str(degrees), cost.cycles, cost.exchanges, ""))
        if self.best is None or cost.cycles < self.best[0]:
            self.best = cost.cycles, found

    def _shared(self, degrees: Degrees) -> tuple[Cost, ChosenDegrees]:
        spreads = _spread(self.graphs, self.machine, degrees, self.bytes_each, self.tiles)
        each = [self.prices.of_chip(spread.graph_of((0, 0))) for spread in spreads.values()]
        cycles, exchanges = (sum(cost[at] for cost in each) for at in (0, 1))
        return Cost(cycles, exchanges), ChosenDegrees(spreads, ())

    def _staged(self, degrees: Degrees) -> tuple[Cost, ChosenDegrees]:
        """Stages of a pipeline; GraphError if no batch has parts, so that stages would gain nothing."""
        parts = [
            uncut_pipeline(graph, self.machine, degrees, self.bytes_each, self.tiles).micro.parts.count
            for graph in self.graphs.values()
        ]
        if max(parts) == 1:
            raise GraphError([f"{degrees}: the batch has no parts, so the stages would take turns"])
        pipelines = self.prices.in_stages(degrees)
        most = math.inf if self.best is None else self.best[0]
        return self.prices.of_pipelines(pipelines, most), ChosenDegrees({}, (), pipelines)


def _spread(
    graphs: Mapping[str, Graph], machine: Machine, degrees: Degrees, bytes_each: int, tiles: int
) -> SpreadGraphs:
    """Divide all networks; GraphError, with the entry, for one that cannot be divided."""
    found = {}
    for name, graph in graphs.items():
        try:
            found[name] = spread_graph(graph, machine, degrees, bytes_each, tiles)
        except GraphError as error:
            entry = f"entry {name}: " if name else ""
            raise GraphError([f"{entry}{problem}" for problem in error.messages]) from None
    return checked_states(found)
