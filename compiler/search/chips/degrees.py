"""Degrees of parallelism, and the chips that work together: ``dp=2,tp=2`` on 2x2 chips.

A tensor-parallel group is a rectangle of the mesh with the least traffic on its links if possible; otherwise
its chips have consecutive numbers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from compiler.graph import GraphError
from compiler.lowering.movement.chips.routes import rounds_of
from compiler.operators.domains.chips.collectives import ALL_GATHER, DUAL
from tx8isa.machine.chips import Chips
from tx8isa.tools.suggestions import hint

KINDS = {"dp": "data", "tp": "tensor", "pp": "pipeline", "sp": "sequence", "ep": "expert"}
"""The kinds of parallelism."""
EXCHANGING = ("sp", "ep", "tp")
"""Kinds whose chips exchange parts of tensors, from the outermost groups to the innermost: those of the last
kind are nearest to each other."""
MOST_SHARING = 32
"""Most chips that can share products: a stream has a packet for each message of an exchange."""
_DEGREE = re.compile(r"\s*([a-z]+)\s*=\s*(\d+)\s*")


@dataclass(frozen=True)
class Degrees:
    """Numbers of chips: ``dp`` parts of the batch, and ``tp`` chips that share the products of each part.

    ``sp`` chips share the rows of sequences, ``ep`` the experts. ``pp`` groups of all these share the layers,
    one group after another.
    """

    dp: int = 1
    tp: int = 1
    pp: int = 1
    sp: int = 1
    ep: int = 1

    def __str__(self) -> str:
        named = [f"{kind}={getattr(self, kind)}" for kind in KINDS if getattr(self, kind) > 1]
        return ",".join(named) or "dp=1"

    @property
    def chips(self) -> int:
        return self.dp * self.group

    @property
    def group(self) -> int:
        """Chips that compute one part of the batch."""
        return self.sp * self.ep * self.tp * self.pp

    def check(self, chips: Chips) -> None:
        """GraphError unless there are as many chips as the degrees say."""
        if self.chips != chips.count:
            mesh = f"{chips.x}x{chips.y} chips are {chips.count}"
            raise GraphError([f"--parallel {self}: is for {self.chips} chips; {mesh}"])
        for kind in EXCHANGING:
            degree = getattr(self, kind)
            if degree > MOST_SHARING:
                raise GraphError([f"--parallel {self}: {kind} is {degree}, expected at most {MOST_SHARING}"])

    def rings(self, chips: Chips) -> list[tuple[int, ...]]:
        """The groups that compute one part of the batch, each in the order of its ring, or of the stages.

        A group of several kinds consists of groups of the innermost kind; stages are the outermost kind.
        """
        inner = next((n for kind in reversed(EXCHANGING) if (n := getattr(self, kind)) > 1), self.pp)
        numbers, size = range(self.chips), inner
        in_a_row = [ring_order(chips, tuple(numbers[at : at + size])) for at in numbers[::size]]
        rings = min([in_a_row, *_rectangles(chips, size)], key=lambda rings: _load(chips, rings))
        each = self.group // inner
        firsts = range(0, len(rings), each)
        return [tuple(chip for ring in rings[at : at + each] for chip in ring) for at in firsts]

    def groups(self, rings: Sequence[tuple[int, ...]], kind: str) -> tuple[tuple[int, ...], ...]:
        """The groups that exchange parts of a kind in ``EXCHANGING``, each in the order of the parts.

        ``rings`` are the groups that compute one part of the batch, as of ``rings``.
        """
        step, count = self._step(kind), getattr(self, kind)
        return tuple(
            tuple(ring[first + step * at] for at in range(count))
            for ring in rings
            for first in range(len(ring))
            if first // step % count == 0
        )

    def part(self, kind: str, place: int) -> int:
        """The number of the part of a kind that the chip with a place in its group has."""
        return place // self._step(kind) % int(getattr(self, kind))

    def _step(self, kind: str) -> int:
        """The distance of the next part of a kind in a group."""
        return math.prod(int(getattr(self, inner)) for inner in EXCHANGING[EXCHANGING.index(kind) + 1 :])


def places_in(rings: Sequence[tuple[int, ...]]) -> tuple[tuple[int, int], ...]:
    """For each chip: its place in the batch, and in the ring of its group; ``rings``: the ring of each
    group."""
    found = {chip: (batch, place) for batch, ring in enumerate(rings) for place, chip in enumerate(ring)}
    return tuple(found[chip] for chip in range(len(found)))


def _rectangles(chips: Chips, size: int) -> Iterator[list[tuple[int, ...]]]:
    """The mesh as rectangles of ``size`` chips, each in the order of its ring."""
    for columns in range(1, chips.x + 1):
        rows, rest = divmod(size, columns)
        if rest or chips.x % columns or chips.y % max(rows, 1) or not rows:
            continue
        yield [
            ring_order(chips, tuple((x + i) * chips.y + y + j for i in range(columns) for j in range(rows)))
            for x in range(0, chips.x, columns)
            for y in range(0, chips.y, rows)
        ]


def _load(chips: Chips, rings: list[tuple[int, ...]]) -> tuple[float, int]:
    """The share of a tensor on the busiest link when two rings turn, and the longest route."""
    if len(rings[0]) == 1:
        return 0.0, 0
    turn = rounds_of(chips, tuple(rings), ALL_GATHER, DUAL)[0]
    return turn.busiest, turn.distance


def parsed_degrees(text: str) -> Degrees:
    """The degrees of --parallel; GraphError for a text without degrees, or with one kind twice."""
    found: dict[str, int] = {}
    for part in text.split(","):
        match = _DEGREE.fullmatch(part)
        if match is None:
            raise GraphError(
                [f"--parallel {text}: '{part.strip()}' is no degree; expected such as dp=2,tp=2"]
            )
        kind, degree = match[1], int(match[2])
        if kind not in KINDS:
            allowed = ", ".join(f"{name} ({what} parallel)" for name, what in KINDS.items())
            raise GraphError(
                [f"--parallel {text}: unknown kind '{kind}'; allowed are {allowed}{hint(kind, KINDS)}"]
            )
        if kind in found:
            raise GraphError([f"--parallel {text}: {kind} is given twice"])
        if degree < 1:
            raise GraphError([f"--parallel {text}: {kind} is {degree}, expected 1 or more"])
        found[kind] = degree
    return Degrees(**found)


def ring_order(chips: Chips, group: tuple[int, ...]) -> tuple[int, ...]:
    """Chips in an order where neighbours in the ring are as near as possible in the mesh.

    In a rectangle with an even side the ring uses single links only: down the first column, and back and
    forth through the others. In other groups the members are in the order of their numbers.
    """
    spots = {chips.xy(chip): chip for chip in group}
    columns, rows = (sorted({spot[axis] for spot in spots}) for axis in (0, 1))
    if len(columns) < 2 or len(rows) < 2 or len(columns) * len(rows) != len(group):
        return group
    if len(columns) % 2:
        columns, rows, spots = rows, columns, {(y, x): chip for (x, y), chip in spots.items()}
    if len(columns) % 2:
        return group
    first, *others = rows
    way = [(column, first) for column in columns]
    for number, column in enumerate(reversed(columns)):
        way += [(column, row) for row in (others if number % 2 == 0 else others[::-1])]
    assert len(way) == math.prod((len(columns), len(rows)))
    return tuple(spots[spot] for spot in way)
