"""Which degrees are tried when only the number of chips is given, and what the estimates say of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
from msgspec import UNSET

from compiler.graph import Graph, GraphError
from tx8isa.machine.chips import Chips
from tx8isa.machine.description import Machine

from .dealing import has_experts
from .degrees import MOST_SHARING, Degrees
from .spread import SpreadGraph, spread_graph
from .written import said_degrees


class TriedDegrees(msgspec.Struct, frozen=True):
    """Degrees that were tried. ``cycles`` is None when they do not fit; ``problem`` then says why.

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


@dataclass(frozen=True)
class ChosenDegrees:
    """The networks divided by the degrees that take the fewest cycles, and all that were tried."""

    spreads: SpreadGraphs
    tried: tuple[TriedDegrees, ...]

    @property
    def spread(self) -> SpreadGraph:
        """The first network."""
        return next(iter(self.spreads.values()))

    def graphs_at(self, places: Mapping[str, tuple[int, int]]) -> dict[str, Graph]:
        """What chips with a place in each network compute."""
        return {name: self.spreads[name].graph_of(place) for name, place in places.items()}

    @property
    def places(self) -> dict[tuple[int, ...], dict[str, tuple[int, int]]]:
        """The chips that have the same constants in all networks, with the place of one of them in each."""
        own = {
            name: {chip: place for place, chips in spread.parts.items() for chip in chips}
            for name, spread in self.spreads.items()
        }
        found: dict[tuple[tuple[int, int], ...], list[int]] = {}
        for chip in range(len(self.spread.places)):
            found.setdefault(tuple(places[chip] for places in own.values()), []).append(chip)
        return {tuple(chips): dict(zip(own, places, strict=True)) for places, chips in found.items()}


def possible_degrees(chips: Chips, kinds: Sequence[str]) -> list[Degrees]:
    """The batch dealt to all chips, and to fewer with one of the other ``kinds``, whose smallest degrees come
    first."""
    shared = [count for count in range(2, min(chips.count, MOST_SHARING) + 1) if chips.count % count == 0]
    both = [Degrees(**{"dp": chips.count // count, kind: count}) for kind in kinds for count in shared]
    return [Degrees(chips.count), *both]


def checked_states(spreads: SpreadGraphs) -> SpreadGraphs:
    """The same networks; GraphError for a state that their chips divide in different ways."""
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
    estimate: Callable[[Graph], tuple[int, int]],
) -> ChosenDegrees:
    """The degrees that are given or that a model says, or else those with the fewest estimated cycles.

    Of equal ones the first. The keys of ``graphs`` are names of entries. ``estimate`` gives the cycles of
    what a chip computes, and those of exchanges among them. The other arguments are those of
    ``spread_graph``. GraphError if none fits.
    """
    parallel = said_degrees(graphs, machine, parallel)
    if parallel is not None:
        return ChosenDegrees(_spread(graphs, machine, parallel, bytes_each, tiles), ())
    if machine.chips is UNSET:
        raise GraphError([f"machine {machine.name} has no links between chips"])
    tried: list[TriedDegrees] = []
    best: tuple[int, SpreadGraphs] | None = None
    kinds = ("tp", "sp", "ep") if any(map(has_experts, graphs.values())) else ("tp", "sp")
    for degrees in possible_degrees(machine.chips, kinds):
        try:
            spreads = _spread(graphs, machine, degrees, bytes_each, tiles)
            each = [estimate(spread.graph_of((0, 0))) for spread in spreads.values()]
        except GraphError as error:
            problem = str(error).partition("\n")[0]
            tried.append(TriedDegrees(str(degrees), None, 0, problem.removeprefix(f"{degrees}: ")))
            continue
        cycles, exchanges = (sum(numbers) for numbers in zip(*each, strict=True))
        tried.append(TriedDegrees(str(degrees), cycles, exchanges, ""))
        if best is None or cycles < best[0]:
            best = cycles, spreads
    if best is None:
        title = f"graph '{graphs[''].name}'" if "" in graphs else f"entries {', '.join(graphs)}"
        raise GraphError([f"{title}: no degrees of parallelism fit the chips: {'; '.join(map(str, tried))}"])
    return ChosenDegrees(best[1], tuple(tried))


def _spread(
    graphs: Mapping[str, Graph], machine: Machine, degrees: Degrees, bytes_each: int, tiles: int
) -> SpreadGraphs:
    """All networks divided; GraphError, with the entry, for one that cannot be."""
    found = {}
    for name, graph in graphs.items():
        try:
            found[name] = spread_graph(graph, machine, degrees, bytes_each, tiles)
        except GraphError as error:
            entry = f"entry {name}: " if name else ""
            raise GraphError([f"{entry}{problem}" for problem in error.messages]) from None
    return checked_states(found)
