"""Pairs that nothing orders, against paths in the graph of all events."""

from __future__ import annotations

from itertools import combinations
from random import Random

import numpy as np
import numpy.typing as npt
import pytest

from emulator.watch.order import rows as layout
from emulator.watch.order.judge import A_AT, A_TILE, judged

Words = npt.NDArray[np.int64]
TILES = 3
AGENTS = (layout.CORE_AGENT, 1, 2, layout.FIRST_COPY)
Event = tuple[int, int]
"""A tile and the place of an event in its program."""


def access(rng: Random) -> list[int]:
    """An access of few bytes to one of two memories, by an instruction of its own."""
    loops = [rng.choice((1, 4)), 8, rng.choice((1, 2)), 0, 1, 0, 1, 0, 0, 0, 1, 0, 1]
    space = rng.choice((-1, 0))
    pc = rng.randrange(1 << 40)
    return [layout.ACCESS, rng.choice(AGENTS), pc, 0, rng.randrange(2), space, rng.randrange(24), *loops]


def drawn(rng: Random) -> tuple[list[Words], list[list[Words]], list[list[Event]]]:
    """Programs of accesses, waits and barriers of some tiles; what each tile knows; the barriers' events."""
    logs: list[list[list[int]]] = [[] for _ in range(TILES)]
    known, meetings = [[np.zeros(TILES, np.int64)] for _ in range(TILES)], list[list[Event]]()
    for _ in range(rng.randint(1, 40)):
        kind = rng.random()
        if kind < 0.7:
            logs[rng.randrange(TILES)].append(access(rng))
        elif kind < 0.85:
            agent = rng.choice(AGENTS[1:])
            logs[rng.randrange(TILES)].append([layout.WAIT, agent, *[0] * (layout.ROW - 2)])
        else:
            members = sorted(rng.sample(range(TILES), rng.randint(1, TILES)))
            meetings.append([(tile, len(logs[tile])) for tile in members])
            vectors = [known[tile][-1] + (np.arange(TILES) == tile) for tile in members]
            for tile in members:
                logs[tile].append([layout.BARRIER, *[0] * (layout.ROW - 1)])
                known[tile].append(np.max(vectors, 0))
    return [np.array(log, np.int64).reshape(-1, layout.ROW) for log in logs], known, meetings


def later(logs: list[Words], meetings: list[list[Event]]) -> dict[tuple[Event, str], set[tuple[Event, str]]]:
    """What follows directly. A core issues an event, which starts and is done; the core itself goes on after
    the issue of an engine's or a copy's, and after all others are done."""
    after: dict[tuple[Event, str], set[tuple[Event, str]]] = {}

    def follows(one: tuple[Event, str], other: tuple[Event, str]) -> None:
        after.setdefault(one, set()).add(other)

    for tile, log in enumerate(logs):
        for at, row in enumerate(log):
            event, agent, kind = (tile, at), row[layout.R_AGENT], row[layout.R_KIND]
            follows((event, "issue"), (event, "start"))
            follows((event, "start"), (event, "done"))
            core = kind != layout.ACCESS or agent == layout.CORE_AGENT
            follows((event, "done" if core else "issue"), ((tile, at + 1), "issue"))
            for earlier in range(at):
                same = log[earlier][layout.R_AGENT] == agent and log[earlier][layout.R_KIND] == layout.ACCESS
                if same and kind in (layout.ACCESS, layout.WAIT) and not (core and kind == layout.ACCESS):
                    follows(((tile, earlier), "done"), (event, "start"))
    for members in meetings:
        for one in members:
            for other in members:
                follows((one, "start"), (other, "done"))
    return after


def reachable(
    after: dict[tuple[Event, str], set[tuple[Event, str]]], start: tuple[Event, str]
) -> set[object]:
    found, left = set[object](), [start]
    while left:
        here = left.pop()
        if here not in found:
            found.add(here)
            left += after.get(here, ())
    return found


def expected(logs: list[Words], meetings: list[list[Event]]) -> set[frozenset[Event]]:
    """The pairs that share bytes, of which one writes, with no path from either to the other."""
    after, wrong = later(logs, meetings), set[frozenset[Event]]()
    accesses = [
        ((tile, at), row)
        for tile, log in enumerate(logs)
        for at, row in enumerate(log)
        if row[layout.R_KIND] == layout.ACCESS
    ]
    for (one, a), (other, b) in combinations(accesses, 2):
        same = one[0] == other[0] and a[layout.R_AGENT] == b[layout.R_AGENT]
        apart = a[layout.R_SPACE] != b[layout.R_SPACE] or not touched(a) & touched(b)
        if same or apart or not (a[layout.R_WRITTEN] or b[layout.R_WRITTEN]):
            continue
        ordered = (other, "start") in reachable(after, (one, "done"))
        if not ordered and (one, "start") not in reachable(after, (other, "done")):
            wrong.add(frozenset((one, other)))
    return wrong


def touched(row: Words) -> set[int]:
    """The bytes of an access."""
    first, size, stride, trips = (int(row[place]) for place in (layout.R_FIRST, *range(7, 10)))
    return {first + turn * stride + k for turn in range(trips) for k in range(size)}


@pytest.mark.parametrize("seed", range(60))
def test_pairs_are_those_without_a_path(seed: int) -> None:
    logs, known, meetings = drawn(Random(seed))
    found = judged(logs, known)
    pairs = {
        frozenset((int(found.accesses[k][A_TILE]), int(found.accesses[k][A_AT])) for k in pair[:2])
        for pair in found.pairs.tolist()
    }
    assert pairs == expected(logs, meetings)


def test_the_draws_have_both_kinds() -> None:
    counts = [len(expected(logs, meetings)) for logs, _, meetings in (drawn(Random(s)) for s in range(60))]
    assert min(counts) == 0 < sum(1 for count in counts if count) < 60
