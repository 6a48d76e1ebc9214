"""The schedule of a stack's weight loads: in groups of stages, each while the groups before are computed.

A tile can wait for all loads of a worker and not for some of them. So the stages of a group wait for their
weights together. With one worker the loads of the next group begin then; with two in turns there is always
another group in transit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import NamedTuple

from tx8isa.cost.rates import ddr_rate
from tx8isa.machine.description import Machine

WORKERS = (1, 2)
"""The workers that load weights."""

_FIRST, _OTHERS = 6, 3
"""Parts of the scratchpad that the weights of the first group and of others may fill."""


def load_groups(sizes: Sequence[int], capacity: int) -> list[list[int]]:
    """The stages in groups, by the bytes of their weights, for a scratchpad of ``capacity`` bytes.

    Where the weights are few, or a stage has as many as fill a group, each stage is a group: the
    first stages begin sooner.
    """
    if sum(sizes) < capacity // _OTHERS or max(sizes) > capacity // _OTHERS:
        return [[number] for number in range(len(sizes))]
    groups: list[list[int]] = [[]]
    filled = 0
    for number, size in enumerate(sizes):
        most = capacity // (_FIRST if len(groups) == 1 else _OTHERS)
        if groups[-1] and filled + size > most:
            groups.append([])
            filled = 0
        groups[-1].append(number)
        filled += size
    return groups


_GROUP_CYCLES = 8000
"""Cycles in which all tiles load a group of byte weights."""
_STAGE_CYCLES = 4000
"""Cycles of a stage of bytes, mostly for instructions of the core and for exchanges."""


def even_groups(sizes: Sequence[int], machine: Machine, tiles: int, early: int = 0) -> list[list[int]]:
    """The stages in groups of about equally many bytes of weights; a stage with more is a group of its own.

    The first group is one stage, so that the first stage begins soon, or the stages whose weights are at most
    ``early`` bytes, which are there when it begins.
    """
    room = _GROUP_CYCLES * _tile_rate(machine, tiles)
    first = max(sum(total <= early for total in accumulate(sizes)), 1)
    groups: list[list[int]] = [[*range(first)]]
    filled = 0
    for number, size in enumerate(sizes[first:], first):
        if len(groups) == 1 or filled + size > room:
            groups.append([])
            filled = 0
        groups[-1].append(number)
        filled += size
    return groups


def _tile_rate(machine: Machine, tiles: int) -> float:
    """Bytes that each of all tiles loads in a cycle."""
    return ddr_rate(machine) / tiles


class LoadTurn(NamedTuple):
    """Stages whose weights a worker begins to load."""

    worker: int
    stages: list[int]


@dataclass(frozen=True)
class Ahead:
    """The schedule of weight loads; stages are numbered.

    ``first``: the stages whose weights must be there when the first one begins. ``awaits``: by the number of
    a stage, the workers that are awaited before it. ``loads``: the loads that begin with it, after that.
    ``in_turns``: while its result is sent, and not before it is computed, because the other worker is busy.
    """

    first: list[int]
    awaits: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    loads: dict[int, list[LoadTurn]] = field(default_factory=lambda: defaultdict(list))
    in_turns: bool = False

    def awaits_at(self, number: int) -> bool:
        """True if a worker is awaited before a stage."""
        return bool(self.awaits.get(number))

    def is_last(self, worker: int, number: int) -> bool:
        """True if a worker has nothing more to load after it is awaited before a stage."""
        return max(each for each, workers in self.awaits.items() if worker in workers) == number


def one_after_another(groups: Sequence[list[int]]) -> Ahead:
    """Each group is loaded while the one before is computed, some of it with each stage of that."""
    found = Ahead(groups[0])
    for here, following in pairwise(groups):
        each = -(-len(following) // len(here))
        for place, number in enumerate(here):
            if part := following[place * each : (place + 1) * each]:
                found.loads[number].append(LoadTurn(WORKERS[0], part))
        found.awaits[following[0]].append(WORKERS[0])
    return found


def in_turns(groups: Sequence[list[int]], sizes: Sequence[int], machine: Machine, tiles: int) -> Ahead:
    """Two groups are in transit at any time, each with a worker of its own.

    A worker is awaited where its group is needed, or is expected to have arrived, and then loads another
    group, as long as the weights held or in transit fill no more than a part of the scratchpad.
    """
    found = Ahead(groups[0], in_turns=True)
    most = min(machine.spm.reserved, machine.spm.bytes) // _OTHERS
    rate, came, begin = _tile_rate(machine, tiles), 0.0, 0
    awaited = dict.fromkeys(WORKERS, 0)
    for turn, group in enumerate(groups[1:]):
        worker = WORKERS[turn % len(WORKERS)]
        begin = max(begin, awaited[worker])
        while begin < group[0] - 1 and sum(sizes[begin : group[-1] + 1]) > most:
            begin += 1
        found.loads[begin].append(LoadTurn(worker, group))
        came = max(came, begin * _STAGE_CYCLES) + sum(sizes[number] for number in group) / rate
        awaited[worker] = min(group[0], int(came // _STAGE_CYCLES) + 1)
        found.awaits[awaited[worker]].append(worker)
    return found
