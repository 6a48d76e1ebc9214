"""Which degrees are tried when only the number of chips is given, and what the estimates say of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


@dataclass(frozen=True)
class ChosenDegrees:
    """The graph divided by the degrees that take the fewest cycles, and all that were tried."""

    spread: SpreadGraph
    tried: tuple[TriedDegrees, ...]


def possible_degrees(chips: Chips) -> list[Degrees]:
    """All degrees for a number of chips, the largest batch parallelism first."""
    shared = [tp for tp in range(1, min(chips.count, MOST_SHARING) + 1) if chips.count % tp == 0]
    return [Degrees(chips.count // tp, tp) for tp in shared]


def choose_degrees(
    graph: Graph,
    candidates: Sequence[Degrees],
    divide: Callable[[Degrees], SpreadGraph],
    estimate: Callable[[SpreadGraph], tuple[int, int]],
) -> ChosenDegrees:
    """The candidate with the fewest estimated cycles; of equal ones the first. GraphError if none fits.

    ``estimate`` gives the cycles of a divided graph, and those of exchanges among them.
    """
    tried: list[TriedDegrees] = []
    best: tuple[int, SpreadGraph] | None = None
    for degrees in candidates:
        try:
            spread = divide(degrees)
            cycles, exchanges = estimate(spread)
        except GraphError as error:
            problem = str(error).partition("\n")[0]
            tried.append(TriedDegrees(str(degrees), None, 0, problem.removeprefix(f"{degrees}: ")))
            continue
        tried.append(TriedDegrees(str(degrees), cycles, exchanges, ""))
        if best is None or cycles < best[0]:
            best = cycles, spread
    if best is None:
        found = "; ".join(map(str, tried))
        raise GraphError([f"graph '{graph.name}': no degrees of parallelism fit the chips: {found}"])
    return ChosenDegrees(best[1], tuple(tried))
