"""Which degrees are tried when only the number of chips is given, and what the estimates say of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from compiler.graph import Graph, GraphError
from tx8isa.machine.chips import Chips

from .degrees import MOST_SHARING, Degrees
from .spread import SpreadGraph


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


def possible_degrees(chips: Chips) -> list[Degrees]:
    """All degrees for a number of chips, the largest batch parallelism first."""
    shared = [tp for tp in range(1, min(chips.count, MOST_SHARING) + 1) if chips.count % tp == 0]
    return [Degrees(chips.count // tp, tp) for tp in shared]


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
    title: str,
    candidates: Sequence[Degrees],
    divide: Callable[[Degrees], SpreadGraphs],
    estimate: Callable[[SpreadGraphs], tuple[int, int]],
) -> ChosenDegrees:
    """The candidate with the fewest estimated cycles; of equal ones the first. GraphError if none fits.

    ``estimate`` gives the cycles of divided networks, and those of exchanges among them; ``title`` is for the
    message.
    """
    tried: list[TriedDegrees] = []
    best: tuple[int, SpreadGraphs] | None = None
    for degrees in candidates:
        try:
            spreads = divide(degrees)
            cycles, exchanges = estimate(spreads)
        except GraphError as error:
            problem = str(error).partition("\n")[0]
            tried.append(TriedDegrees(str(degrees), None, 0, problem.removeprefix(f"{degrees}: ")))
            continue
        tried.append(TriedDegrees(str(degrees), cycles, exchanges, ""))
        if best is None or cycles < best[0]:
            best = cycles, spreads
    if best is None:
        found = "; ".join(map(str, tried))
        raise GraphError([f"{title}: no degrees of parallelism fit the chips: {found}"])
    return ChosenDegrees(best[1], tuple(tried))
