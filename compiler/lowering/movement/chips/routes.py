"""Who sends what to whom in an exchange between chips, and what the links take for it.

An exchange is a series of rounds that are alike; in each of them messages are on their way at the same time.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from msgspec import UNSET

from compiler.graph import GraphError
from compiler.operators.domains.chips.collectives import ALL_REDUCE, DIRECT, DUAL, WAYS
from tx8isa.cost.instructions import chip_link_rate
from tx8isa.machine.chips import Chips
from tx8isa.machine.description import Machine

_INSTRUCTIONS = 45
"""Of the kernel core, to send a message and to take note of one."""

Groups = tuple[tuple[int, ...], ...]
"""Groups of chips, each in the order of its ring."""


class RoundOfMessages(NamedTuple):
    """What is on its way at once, as shares of the tensor of a group."""

    busiest: float
    """The share that the link carries which carries most."""
    share: float
    """The share of one message."""
    distance: int
    """Links on the longest way."""
    mean_distance: float
    sends: int
    """Messages of each member, one after another."""


@lru_cache(maxsize=256)
def round_of(chips: Chips, groups: Groups, way: str) -> RoundOfMessages:
    """A round of an exchange in which every member sends a part of the tensor.

    All groups exchange at the same time, and share the links.
    """
    members = len(groups[0])
    share = 1 / members / (2 if way == DUAL else 1)
    loads, longest = Counter[tuple[int, int]](), 0
    for group in groups:
        for place, source in enumerate(group):
            for target in _targets(group, place, way):
                longest = max(longest, _pass(chips, source, target, loads))
    sends = members - 1 if way == DIRECT else 1
    messages = sends * (2 if way == DUAL else 1) * members * len(groups)
    mean = sum(loads.values()) / messages
    return RoundOfMessages(max(loads.values()) * share, share, longest, mean, sends)


def copies_at_once(way: str) -> int:
    """Copies to other chips that a tile has on their way at a time, each with a block of the DTE."""
    return 3 if way == DIRECT else 2


class WayOfPairs(NamedTuple):
    """What links carry when the first chip of every pair sends a tensor to the second."""

    busiest: int
    """How many of them the link carries which carries most."""
    distance: int
    """Links on the longest way."""


@lru_cache(maxsize=256)
def way_of_pairs(chips: Chips, pairs: Groups) -> WayOfPairs:
    """The way of a tensor from the first chip of every pair to the second, all at once."""
    loads = Counter[tuple[int, int]]()
    longest = max(_pass(chips, source, target, loads) for source, target in pairs)
    return WayOfPairs(max(loads.values()), longest)


def _targets(group: tuple[int, ...], place: int, way: str) -> list[int]:
    """The members to which a member sends in a round."""
    after, before = group[(place + 1) % len(group)], group[place - 1]
    if way == DIRECT:
        return [chip for chip in group if chip != group[place]]
    return [after, before] if way == DUAL else [after]


def _pass(chips: Chips, source: int, target: int, loads: Counter[tuple[int, int]]) -> int:
    """Count a message on each link of its way; how many there are."""
    links = 0
    while source != target:
        following = chips.next_hop(source, target)
        loads[source, following] += 1
        source, links = following, links + 1
    return links


def rounds_of(op: str, members: int, way: str) -> int:
    """How many rounds an exchange has: those of a sum, and those that give it to all."""
    return (2 if op == ALL_REDUCE else 1) * (1 if way == DIRECT else members - 1)


@dataclass(frozen=True)
class LinkPrice:
    """Cycles of an exchange of ``size`` bytes, the tensor of a whole group, by ``tiles`` tiles of a chip."""

    machine: Machine
    op: str
    groups: Groups
    size: int
    tiles: int

    @property
    def chips(self) -> Chips:
        return _chips_of(self.machine)

    def bound(self, way: str) -> float:
        """Latencies and bytes of the rounds one after another, and nothing else: the alpha-beta bound."""
        turn = round_of(self.chips, self.groups, way)
        each = turn.distance * self.chips.latency.value + turn.busiest * self.size / self._rate
        return rounds_of(self.op, len(self.groups[0]), way) * each

    def cycles(self, way: str) -> float:
        """The rounds with what a tile needs for its own messages; other tiles send meanwhile.

        A round takes as long as the busiest link carries messages, or as a tile needs to send its own, have
        them arrive and add what comes, if that is longer. Then come the first load and the last store, with
        the latencies of what allows to write and of what says that it was done.
        """
        turn, timing = round_of(self.chips, self.groups, way), self.machine.timing
        core, latency = timing.core, self.chips.latency.value
        tiles = self.tiles // (2 if way == DUAL else 1)
        command = core.issue.value + core.join.value + core.join_worker.value
        chain = self._sending(turn, way) + turn.distance * latency + command + 2 * core.register_read.value
        chain += turn.share * self.size / tiles / self._rate
        link = turn.busiest * self.size / self._rate
        around = 2 * (latency + command) + timing.rdma.fixed.value + timing.wdma.fixed.value
        rounds = rounds_of(self.op, len(self.groups[0]), way)
        return rounds * max(chain, link) + min(chain, link) + around

    def _sending(self, turn: RoundOfMessages, way: str) -> float:
        """Until the last message of a tile leaves: only so many copies are on their way at a time."""
        dte = self.machine.timing.dte
        send = dte.issue.value + _INSTRUCTIONS * self.machine.timing.core.instruction.value
        there_and_back = dte.fixed.value + 2 * turn.mean_distance * self.chips.latency.value
        now, done = 0.0, [0.0] * copies_at_once(way)
        for number in range(turn.sends):
            place = number % len(done)
            now = max(now, done[place]) + send
            done[place] = now + there_and_back
        return now + dte.fixed.value

    def best(self) -> str:
        """The way that takes the fewest cycles; of equal ones the first. Two rings share an even number of
        tiles."""
        return min((way for way in WAYS if way != DUAL or self.tiles % 2 == 0), key=self.cycles)

    @property
    def _rate(self) -> float:
        return chip_link_rate(self.machine)


@dataclass(frozen=True)
class SendPrice:
    """Cycles in which the first chip of every pair sends ``size`` bytes to the second, all at once.

    ``GraphError`` on a machine without links.
    """

    machine: Machine
    pairs: Groups
    size: int

    @property
    def latency(self) -> float:
        """Of the longest way."""
        return self._way.distance * _chips_of(self.machine).latency.value

    @property
    def links(self) -> float:
        """Until the busiest link has carried all."""
        return self._way.busiest * self.size / chip_link_rate(self.machine)

    @property
    def cycles(self) -> float:
        """Until the sender knows that all is there."""
        dte = self.machine.timing.dte
        return dte.issue.value + dte.fixed.value + self.links + 2 * self.latency

    @property
    def _way(self) -> WayOfPairs:
        return way_of_pairs(_chips_of(self.machine), self.pairs)


def _chips_of(machine: Machine) -> Chips:
    if machine.chips is UNSET:
        raise GraphError([f"machine {machine.name} has no links between chips"])
    return machine.chips
